//! The keywords of rules that Snort or Suricata know, whether they are supported here or not: what
//! is none of them was mistyped.
//!
//! Source: the manuals of Snort 2.9, Snort 3 and Suricata 8, and the lists of options that their
//! programs print.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::near::nearest;

/// What an option is that is not supported: a keyword of one of the languages, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    /// It is one, or may be a newer one of a family that is known.
    Known,
    /// It is none; the one that it was perhaps meant to be.
    Unknown(Option<&'static str>),
}

/// All keywords, in their order.
static KNOWN: LazyLock<BTreeSet<&str>> = LazyLock::new(|| all().collect());

/// Whether `name` is in the list of keywords.
pub(super) fn is_listed(name: &str) -> bool {
    KNOWN.contains(name)
}

/// Whether `name` is a keyword of Snort or Suricata.
pub(super) fn keyword(name: &str) -> Keyword {
    if is_listed(name) {
        return Keyword::Known;
    }
    let meant = nearest(name, KNOWN.iter().copied());
    // A buffer of a protocol that has buffers: Suricata gets new ones with each version.
    let is_of_family = |(family, _): (&str, &str)| FAMILIES.iter().any(|known| known.0 == family);
    match name.split_once('.') {
        Some(parts) if meant.is_none() && is_of_family(parts) => Keyword::Known,
        _ => Keyword::Unknown(meant),
    }
}

/// All keywords.
fn all() -> impl Iterator<Item = &'static str> {
    let of_families = FAMILIES.iter().flat_map(|(_, names)| names.split_ascii_whitespace());
    PLAIN.split_ascii_whitespace().chain(of_families)
}

/// Those that are of no family of buffers.
const PLAIN: &str = "\
    absent ack activated_by activates alert app-layer-event app-layer-protocol app-layer-state \
    appids asn1 base64_data base64_decode ber_data ber_skip bsize bufferlen byte_extract byte_jump \
    byte_math byte_test bypass cip_attribute cip_class cip_conn_path_class cip_instance cip_req \
    cip_rsp cip_service cip_status classtype compress_whitespace config content count cvs datarep \
    dataset dce_iface dce_opnum dce_stub_data decode-event depth detection_filter distance \
    dnp3_data dnp3_func dnp3_ind dnp3_obj dns_query domain dotprefix dsize enable endswith \
    engine-event enip_command enip_req enip_rsp entropy fast_pattern fast_pattern_length \
    fast_pattern_offset file_data file_group file_meta file_type fileext filemagic filemd5 \
    filename filesha1 filesha256 filesize filestore flags flow flowbits flowint flowvar fragbits \
    fragoffset frame from_base64 ftpbounce ftpdata_command geoip gid gtp_info gtp_type \
    gtp_version gunzip hash header_lowercase hostbits http_accept http_accept_enc \
    http_accept_lang http_client_body http_connection http_content_len http_content_type \
    http_cookie http_encode http_header http_header_names http_header_test http_host \
    http_max_header_line http_max_trailer_line http_method http_num_cookies http_num_headers \
    http_num_trailers http_param http_protocol http_raw_body http_raw_cookie http_raw_header \
    http_raw_header_complete http_raw_host http_raw_request http_raw_status http_raw_trailer \
    http_raw_uri http_referer http_request_line http_response_line http_server_body http_start \
    http_stat_code http_stat_msg http_trailer http_trailer_test http_true_ip http_uri \
    http_user_agent http_version http_version_match icmp_id icmp_seq icode id \
    iec104_apci_type iec104_asdu_func ip_proto ipopts iprep ipv4-csum icmpv4-csum icmpv6-csum \
    isdataat itype ja3_hash ja3_string js_data krb5_err_code krb5_msg_type l3_proto length logto \
    lua luajit luaxform md5 metadata mms_data mms_func modbus modbus_data modbus_func \
    modbus_unit msg ndpi-protocol ndpi-risk \
    nfq_set_mark nfs_procedure noalert nocase num_headers offset pcre pcrexform \
    pkt_data pktvar prefilter priority protected_content raw_data rawbytes react reference regex \
    rem replace requires resp rev rpc s7commplus_content s7commplus_func s7commplus_opcode \
    sameip script_data sd_pattern seq service session sha256 sha512 sid sip_body sip_header \
    sip_method sip_stat_code so soid ssh_proto ssl_state ssl_version startswith stream-event \
    stream_reassemble stream_size strip_pseudo_headers strip_whitespace subslice tag target \
    tcpv4-csum tcpv6-csum threshold tld tls_cert_issuer tls_cert_serial tls_cert_subject tls_sni \
    to_lowercase to_md5 to_sha1 to_sha256 to_uppercase tos ttl udpv4-csum udpv6-csum \
    uricontent url_decode urilen vba_data window within xbits xor zlib_deflate";

/// Families of buffers and properties, by what stands before the point.
const FAMILIES: [(&str, &str); 42] = [
    ("arp", "arp.opcode"),
    ("dce", "dce.iface dce.opnum dce.stub_data"),
    ("dcerpc", "dcerpc.iface dcerpc.opnum dcerpc.stub_data"),
    ("dhcp", "dhcp.leasetime dhcp.rebinding_time dhcp.renewal_time"),
    ("dnp3", "dnp3.data dnp3.func dnp3.ind dnp3.obj"),
    (
        "dns",
        "dns.additionals.rrname dns.answer.name dns.answers.rrname dns.authorities.rrname \
         dns.opcode dns.query dns.query.name dns.queries.rrname dns.rcode dns.response.rrname \
         dns.rrtype",
    ),
    (
        "email",
        "email.body_md5 email.cc email.command email.date email.from email.message_id \
         email.received email.subject email.to email.url email.x_mailer",
    ),
    ("enip", "enip.capabilities enip.cip_attribute enip.cip_class enip.command enip.status"),
    ("ether", "ether.hdr"),
    ("file", "file.data file.magic file.name"),
    (
        "flow",
        "flow.age flow.bytes flow.bytes_toclient flow.bytes_toserver flow.elephant flow.pkts \
         flow.pkts_toclient flow.pkts_toserver",
    ),
    (
        "ftp",
        "ftp.command ftp.command_data ftp.completion_code ftp.dynamic_port ftp.mode \
         ftp.received ftp.reply ftp.reply_received",
    ),
    (
        "http",
        "http.accept http.accept_enc http.accept_lang http.connection http.content_len \
         http.content_type http.cookie http.header http.header.raw http.header_names http.host \
         http.host.raw http.location http.method http.protocol http.referer http.request_body \
         http.request_header http.request_line http.response_body http.response_header \
         http.response_line http.server http.start http.stat_code http.stat_msg http.uri \
         http.uri.raw http.user_agent",
    ),
    (
        "http2",
        "http2.errorcode http2.frametype http2.header http2.header_name http2.priority \
         http2.settings http2.size_update http2.window",
    ),
    ("icmpv4", "icmpv4.hdr"),
    ("icmpv6", "icmpv6.hdr icmpv6.mtu"),
    (
        "ike",
        "ike.chosen_sa_attribute ike.exchtype ike.init_spi ike.key_exchange_payload \
         ike.key_exchange_payload_length ike.nonce_payload ike.nonce_payload_length \
         ike.resp_spi ike.vendor",
    ),
    ("ip", "ip.dst ip.src"),
    ("ipv4", "ipv4.hdr"),
    ("ipv6", "ipv6.hdr"),
    ("ja3", "ja3.hash ja3.string"),
    ("ja3s", "ja3s.hash ja3s.string"),
    ("ja4", "ja4.hash"),
    ("krb5", "krb5.cname krb5.sname krb5.ticket_encryption"),
    (
        "ldap",
        "ldap.request.attribute_type ldap.request.dn ldap.request.operation \
         ldap.responses.attribute_type ldap.responses.count ldap.responses.dn \
         ldap.responses.message ldap.responses.operation ldap.responses.result_code",
    ),
    (
        "mdns",
        "mdns.additionals.rrname mdns.answers.rrname mdns.authorities.rrname \
         mdns.queries.rrname mdns.response.rrname",
    ),
    (
        "mqtt",
        "mqtt.connack.session_present mqtt.connect.clientid mqtt.connect.flags \
         mqtt.connect.password mqtt.connect.protocol_string mqtt.connect.username \
         mqtt.connect.willmessage mqtt.connect.willtopic mqtt.flags mqtt.protocol_version \
         mqtt.publish.message mqtt.publish.topic mqtt.qos mqtt.reason_code \
         mqtt.subscribe.topic mqtt.type mqtt.unsubscribe.topic",
    ),
    ("nfs", "nfs.version"),
    ("pgsql", "pgsql.query"),
    ("quic", "quic.cyu.hash quic.cyu.string quic.sni quic.ua quic.version"),
    ("rfb", "rfb.name rfb.secresult rfb.sectype"),
    ("sdp", "sdp.attribute sdp.bandwidth sdp.connection_data sdp.email sdp.info sdp.origin"),
    (
        "sip",
        "sip.content_length sip.content_type sip.from sip.method sip.protocol sip.request_line \
         sip.response_line sip.stat_code sip.stat_msg sip.to sip.ua sip.uri sip.via",
    ),
    ("smb", "smb.named_pipe smb.ntlmssp_domain smb.ntlmssp_user smb.share smb.version"),
    ("smtp", "smtp.helo smtp.mail_from smtp.rcpt_to"),
    ("snmp", "snmp.community snmp.pdu_type snmp.usm snmp.version"),
    (
        "ssh",
        "ssh.hassh ssh.hassh.server ssh.hassh.server.string ssh.hassh.string ssh.proto \
         ssh.protoversion ssh.software ssh.softwareversion",
    ),
    ("tcp", "tcp.ack tcp.flags tcp.hdr tcp.mss tcp.seq tcp.window"),
    (
        "tls",
        "tls.alpn tls.cert_chain_len tls.cert_fingerprint tls.cert_issuer tls.cert_serial \
         tls.cert_subject tls.certs tls.fingerprint tls.issuerdn tls.random tls.random_bytes \
         tls.random_time tls.sni tls.store tls.subject tls.subjectaltname tls.version \
         tls_cert_expired tls_cert_notafter tls_cert_notbefore tls_cert_valid",
    ),
    ("udp", "udp.hdr"),
    ("vlan", "vlan.id vlan.layers"),
    ("websocket", "websocket.flags websocket.mask websocket.opcode websocket.payload"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_told_from_what_was_mistyped() {
        let none = |meant: &'static str| Keyword::Unknown(Some(meant));
        for (name, expected) in [
            ("http_uri", Keyword::Known),
            ("http.uri", Keyword::Known),
            ("dns.query", Keyword::Known),
            ("sd_pattern", Keyword::Known),
            ("tls.a_buffer_that_is_new", Keyword::Known),
            ("contnet", none("content")),
            ("Content", none("content")),
            ("flowbit", none("flowbits")),
            ("http.usr_agent", none("http.user_agent")),
            ("clastype", none("classtype")),
            ("surely_no_keyword_at_all", Keyword::Unknown(None)),
            ("nothing.of_any_family", Keyword::Unknown(None)),
        ] {
            assert_eq!(keyword(name), expected, "{name}");
        }
    }

    #[test]
    fn each_keyword_stands_once_and_leads_to_itself() {
        let names: Vec<&str> = all().collect();
        let different: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(different.len(), names.len());
        assert!(names.iter().all(|name| keyword(name) == Keyword::Known));
    }
}
