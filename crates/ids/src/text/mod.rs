//! Rule files: the languages of Snort 2, Snort 3 and Suricata, as far as they look at headers and
//! payloads.
//!
//! ```text
//! alert tcp $EXTERNAL_NET any -> $HOME_NET 80 (msg:"…"; flow:to_server,established; \
//!     content:"GET |2f|evil"; depth:64; nocase; pcre:"/id=\d{4,}/R"; sid:1000001; rev:2;)
//! ```
//! A rule may stand on several lines, with or without a backslash. What is right and not supported
//! is never an error and never ignored: the rule is left out, and listed with all its keywords that
//! were the reason. What is wrong is told at its place, everything at once, as by all readers of
//! this project.
//!
//! # Invariants
//! - T1: any bytes are rules or diagnostics; memory is bounded by the length of the text and the
//!   limits of [`crate::rule`], nesting by a constant.
//! - T2: a rule that is kept has nothing that was not understood.

mod buffers;
mod bytes;
pub mod classes;
mod flowbits;
mod keywords;
mod literals;
mod near;
mod never;
mod numbers;
mod options;
mod payload;
mod pcre;
mod quotes;
mod said;
mod sets;
mod source;
mod threshold;

use std::collections::HashMap;
use std::ops::Range;

use warpswitch_rules::diagnostic::{Diagnostic, Diagnostics};

use self::flowbits::BitNames;
use self::keywords::Keyword;
use self::near::nearest;
use self::options::{Body, Options};
use self::sets::Sets;
pub use self::sets::{UnusedVariable, Variables};
use self::source::{Part, Skip, Source};
use crate::addresses::{Addresses, Family};
use crate::flowbits::BIT_NAMES_MAX;
use crate::ranges::Set;
use crate::rule::{
    About, Action, FlowTest, Header, LeftOut, Only, Ports, Proto, RULE_BYTES_MAX, RULES_MAX,
    Remark, RemarkKind, Rule, Rules, Step, TEXT_BYTES_MAX,
};
use crate::rule::{REGEX_BYTES_MAX, REGEXES_MAX};

/// A rule file.
#[derive(Clone, Copy, Debug)]
pub struct RuleText<'a> {
    /// Its name in errors and lists.
    pub name: &'a str,
    /// What it holds.
    pub bytes: &'a [u8],
}

/// Reads rule files; their rules keep their order.
///
/// Of two rules with one `gid` and `sid` the larger `rev` is kept, the other listed as left out; of
/// the same `rev` the first, which is remarked, as are classes that are not known. Rules behind a
/// `#` are comments.
///
/// Cost: linear in the text, and the building of expressions. Memory: rules are bounded by
/// [`RULES_MAX`], expressions by [`REGEXES_MAX`] of [`REGEX_BYTES_MAX`] each.
///
/// # Errors
/// Every error of all files.
pub fn read_rules(texts: &[RuleText<'_>], variables: &Variables) -> Result<Rules, Diagnostics> {
    let mut reader = Reader {
        addresses: Sets::new(variables),
        ports: Sets::new(variables),
        rules: Rules::default(),
        errors: Diagnostics::default(),
        places: HashMap::new(),
        bit_names: BitNames::default(),
        regexes: 0,
        reread: 0,
        mistyped: 0,
        classes_meant: HashMap::new(),
    };
    let mut bytes = 0;
    for (idx, text) in texts.iter().enumerate() {
        reader.rules.files.push(text.name.to_owned());
        bytes += text.bytes.len();
        if bytes > TEXT_BYTES_MAX {
            let message = format!("rule files of more than {TEXT_BYTES_MAX} bytes together");
            reader.errors.push(Diagnostic::whole(text.name, message));
            break;
        }
        let marked = text.bytes.strip_prefix(b"\xef\xbb\xbf");
        reader.file(&Source::new(text.name, marked.unwrap_or(text.bytes)), idx);
    }
    let Reader { mut rules, errors, bit_names, addresses, ports, .. } = reader;
    let is_used = |name: &str| addresses.uses(name) || ports.uses(name);
    rules.unused_variables = variables.unused(is_used);
    bit_names.settle(&mut rules);
    rules.left_out.sort_by_key(|rule| (rule.file, rule.line));
    rules.remarks.sort_by_key(|remark| (remark.file, remark.line));
    errors.into_result(rules)
}

struct Reader<'v> {
    addresses: Sets<'v, Addresses>,
    ports: Sets<'v, Ports>,
    rules: Rules,
    errors: Diagnostics,
    /// Where the rule of a `gid` and `sid` is.
    places: HashMap<(u32, u32), usize>,
    bit_names: BitNames,
    regexes: usize,
    /// Bytes that were read a second time.
    reread: usize,
    /// Keywords that no language has.
    mistyped: usize,
    /// Classes that are not known, and those that were perhaps meant.
    classes_meant: HashMap<String, Option<&'static str>>,
}

/// Keywords that no language has, and names of classes, of which it is told what was meant: who
/// writes more of them did not mistype one.
const MISTYPED_MAX: usize = 1000;

/// Bytes that may be read a second time, after rules whose end was not found: a text of beginnings
/// alone would be read as often as it has lines.
const REREAD_BYTES_MAX: usize = 16 << 20;

/// The words before the options.
struct Words {
    words: Vec<Range<usize>>,
    /// Where the options begin, if they do.
    open: Option<usize>,
}

/// What stands before the options.
struct Heading {
    header: Header,
    /// Where alone the protocol looks.
    only: Option<Only>,
    /// It asks for ports where there are none.
    has_idle_ports: bool,
}

impl Reader<'_> {
    fn file(&mut self, source: &Source<'_>, file: usize) {
        let bytes = source.bytes;
        let mut at = 0;
        while at < bytes.len() {
            match source.blank_bytes(at, bytes.len()) {
                0 => {}
                blank => {
                    at += blank;
                    continue;
                }
            }
            if bytes[at] == b'#' {
                at = line_end(bytes, at);
                continue;
            }
            let end = (at + RULE_BYTES_MAX).min(bytes.len());
            let words = words(source, at..end);
            let Some(open) = words.open else {
                if end < bytes.len() && words.words.last().is_some_and(|word| word.end == end) {
                    source.tell_long_rule(&mut self.errors, at);
                    at = next_statement(bytes, at);
                    continue;
                }
                let stop = line_end(bytes, at);
                let (message, expected) = ("no rule", "a header and its options in parentheses");
                let help = "a rule looks so: alert tcp any any -> any 80 (msg:\"…\"; sid:1;)";
                source.tell(&mut self.errors, at..stop, message, expected, help);
                at = next_statement(bytes, at);
                continue;
            };
            let mut options = Options::new(source, at, open + 1..end);
            match self.rule(source, at, file, &words.words, &mut options) {
                Ok(()) => at = options.position(),
                Err(()) => at = self.next_start(bytes, at, options.position()),
            }
        }
    }

    /// Where reading goes on behind a rule at `at` whose end was not found up to `read`.
    fn next_start(&mut self, bytes: &[u8], at: usize, read: usize) -> usize {
        let next = next_statement(bytes, at);
        self.reread = self.reread.saturating_add(read.saturating_sub(next));
        if self.reread <= REREAD_BYTES_MAX {
            return next;
        }
        next_statement(bytes, next.max(read.min(bytes.len())))
    }

    /// Reads one rule; an error means that its end is not known.
    fn rule(
        &mut self,
        source: &Source<'_>,
        at: usize,
        file: usize,
        words: &[Range<usize>],
        options: &mut Options<'_>,
    ) -> Result<(), ()> {
        let errors_before = self.errors.len();
        let mut keywords: Vec<String> = Vec::new();
        let action = note(action(source, &words[0], &mut self.errors), &mut keywords);
        let header = note(self.header(source, words), &mut keywords);
        let mut body = options.read(&mut self.errors, &mut keywords)?;
        if self.errors.len() > errors_before {
            return Ok(());
        }
        if let Some(heading) = &header {
            note_foreign(heading.header.proto, &mut body, &mut keywords);
        }
        let line = u32::try_from(source.line_of(at)).unwrap_or(u32::MAX);
        let mut about = body.about;
        let sid = about.sid;
        (about.file, about.line) = (file, line);
        if self.rules.rules.len() == RULES_MAX {
            let message = format!("more than {RULES_MAX} rules");
            source.tell(&mut self.errors, at..at + 1, &message, "fewer", "");
            return Ok(());
        }
        let steps = body.steps.iter().chain(body.buffers.iter().flat_map(|of| &of.steps));
        self.regexes += steps.filter(|step| matches!(step, Step::Expression(_))).count();
        if self.regexes > REGEXES_MAX {
            keywords.push(format!("pcre (beyond {REGEXES_MAX} of {REGEX_BYTES_MAX} bytes)"));
        }
        let bits = self.bit_names.number(body.bits).unwrap_or_else(|| {
            keywords.push(format!("flowbits (beyond {BIT_NAMES_MAX} names)"));
            Default::default()
        });
        let (Some(action), Some(heading), true) = (action, header, keywords.is_empty()) else {
            self.bit_names.miss(&bits);
            let never = body.odd.into_iter().filter(|kind| matches!(kind, RemarkKind::Never(_)));
            self.rules.remarks.extend(never.map(|kind| remark(&about, kind)));
            self.leave_out(LeftOut { file, line, sid, keywords });
            return Ok(());
        };
        let Heading { header, only, has_idle_ports } = heading;
        let Ok(flow) = flow_of(source, &words[1], (body.flow, only), &mut self.errors) else {
            return Ok(());
        };
        let is_of_streams = matches!(header.proto, Proto::Tcp | Proto::Ip);
        if !body.buffers.is_empty() && (!is_of_streams || flow.only == Some(Only::Packets)) {
            self.bit_names.miss(&bits);
            let keywords = vec!["buffers of what is no stream".to_owned()];
            self.leave_out(LeftOut { file, line, sid, keywords });
            return Ok(());
        }
        let ports = has_idle_ports.then_some(RemarkKind::PortsOfIcmp);
        let odd = body.odd.into_iter().chain(ports).map(|kind| remark(&about, kind));
        self.rules.remarks.extend(odd);
        let (checks, steps, buffers) = (body.checks, body.steps, body.buffers);
        let (no_alert, threshold) = (body.no_alert, body.threshold);
        let rule =
            Rule { action, header, flow, checks, steps, buffers, bits, no_alert, threshold, about };
        self.keep(rule);
        Ok(())
    }

    /// Keeps a rule, or the one of its number that is newer.
    fn keep(&mut self, mut rule: Rule) {
        let key = (rule.about.gid, rule.about.sid);
        if let Some(&place) = self.places.get(&key) {
            let kept = &mut self.rules.rules[place];
            if rule.about.rev == kept.about.rev {
                let (file, line) = (kept.about.file, kept.about.line);
                let kind = RemarkKind::SameRevision { file, line };
                self.rules.remarks.push(remark(&rule.about, kind));
            }
            if rule.about.rev > kept.about.rev {
                std::mem::swap(kept, &mut rule);
            }
            let (file, line, sid) = (rule.about.file, rule.about.line, rule.about.sid);
            let keywords = vec!["sid (another rule has it)".to_owned()];
            self.leave_out(LeftOut { file, line, sid, keywords });
            return;
        }
        let class = &rule.about.classtype;
        if !class.is_empty() && classes::class(class).is_none() {
            let name = class.clone();
            let meant = match self.classes_meant.get(&name) {
                Some(&meant) => meant,
                None if self.classes_meant.len() == MISTYPED_MAX => None,
                None => {
                    let meant = nearest(&name, classes::names());
                    self.classes_meant.insert(name.clone(), meant);
                    meant
                }
            };
            let kind = RemarkKind::UnknownClass { name, meant };
            self.rules.remarks.push(remark(&rule.about, kind));
        }
        self.places.insert(key, self.rules.rules.len());
        self.rules.rules.push(rule);
    }

    fn leave_out(&mut self, mut rule: LeftOut) {
        let mut seen = std::collections::BTreeSet::new();
        rule.keywords.retain(|keyword| seen.insert(keyword.clone()));
        let is_name = |keyword: &&mut String| !keyword.contains(' ');
        for keyword in rule.keywords.iter_mut().filter(is_name) {
            if self.mistyped == MISTYPED_MAX {
                break;
            }
            if let Keyword::Unknown(meant) = keywords::keyword(keyword) {
                self.mistyped += 1;
                let (file, line, sid) = (rule.file, rule.line, rule.sid);
                let kind = RemarkKind::UnknownKeyword { name: keyword.clone(), meant };
                self.rules.remarks.push(Remark { file, line, sid, kind });
                keyword.push_str(" (no keyword of Snort or Suricata)");
            }
        }
        self.rules.left_out.push(rule);
    }

    /// Protocol, addresses and ports; and where alone the rule looks, if its protocol says so.
    fn header(&mut self, source: &Source<'_>, words: &[Range<usize>]) -> Part<Heading> {
        let Some(proto) = words.get(1) else {
            let at = words[0].end;
            let expected = "tcp, udp, icmp or ip";
            return Err(source.tell(&mut self.errors, at..at, "no protocol", expected, ""));
        };
        let (proto, family, only) = protocol(source, proto, &mut self.errors)?;
        // Snort 3: a rule that says no more than its protocol is about any addresses and ports.
        let (sides, both_ways) = match words.len() {
            2 => (None, false),
            7 => (Some([2, 3, 5, 6]), direction(source, &words[4], &mut self.errors)?),
            _ => {
                let span = words[0].start..words[words.len() - 1].end;
                let expected = "ACTION PROTOCOL ADDRESSES PORTS -> ADDRESSES PORTS";
                let message = format!("a header of {} words", words.len());
                return Err(source.tell(&mut self.errors, span, &message, expected, ""));
            }
        };
        // Packets of ICMP have no ports: what a rule asks of them is read, and counts for nothing.
        let has_ports = proto != Proto::Icmp;
        let mut asks_ports = false;
        let mut side = |places: Option<(usize, usize)>| {
            let any = (Ok(self.addresses.all()), Ok(self.ports.all()));
            let (addresses, ports) = match places {
                Some((address, port)) => (
                    self.addresses.read(source, words[address].clone(), &mut self.errors),
                    self.ports.read(source, words[port].clone(), &mut self.errors),
                ),
                None => any,
            };
            let (mut addresses, mut ports) = (addresses?, ports?);
            if let Some(family) = family {
                addresses = self.addresses.of_family(&addresses, family);
            }
            asks_ports |= !ports.is_all();
            if !has_ports {
                ports = self.ports.all();
            }
            if addresses.is_none() || ports.is_none() {
                return Err(Skip::Unsupported("header that nothing matches".into()));
            }
            Ok((addresses, ports))
        };
        let left = side(sides.map(|sides| (sides[0], sides[1])));
        let right = side(sides.map(|sides| (sides[2], sides[3])));
        let ((src, src_ports), (dst, dst_ports)) = (left?, right?);
        let header = Header { proto, src, src_ports, dst, dst_ports, both_ways };
        Ok(Heading { header, only, has_idle_ports: asks_ports && !has_ports })
    }
}

/// Notes options that no packet of the protocol has, unless a rule says already why none has all.
fn note_foreign(proto: Proto, body: &mut Body, keywords: &mut Vec<String>) {
    if body.odd.iter().any(|kind| matches!(kind, RemarkKind::Never(_))) {
        return;
    }
    let never = never::of_other_protocol(proto, &body.checks);
    body.odd.extend(never.iter().cloned().map(RemarkKind::Never));
    keywords.extend(never);
}

/// What `flow` asks, and a protocol that looks at packets or streams alone.
fn flow_of(
    source: &Source<'_>,
    proto: &Range<usize>,
    (mut flow, only): (FlowTest, Option<Only>),
    errors: &mut Diagnostics,
) -> Part<FlowTest> {
    if let (Some(a), Some(b)) = (flow.only, only)
        && a != b
    {
        let message = "flow of another kind than the protocol: packets and streams";
        let expected = "tcp, which is both, or the same kind";
        return Err(source.tell(errors, proto.clone(), message, expected, ""));
    }
    flow.only = flow.only.or(only);
    Ok(flow)
}

/// What a part gave; the keyword of one that is not supported is noted.
pub(in crate::text) fn note<T>(part: Part<T>, keywords: &mut Vec<String>) -> Option<T> {
    match part {
        Ok(value) => Some(value),
        Err(Skip::Told) => None,
        Err(Skip::Unsupported(keyword)) => {
            keywords.push(keyword);
            None
        }
    }
}

fn remark(about: &About, kind: RemarkKind) -> Remark {
    Remark { file: about.file, line: about.line, sid: about.sid, kind }
}

/// What a rule may begin with, looked for or not.
const ACTIONS: [&str; 15] = [
    "alert",
    "drop",
    "sdrop",
    "block",
    "reject",
    "rejectsrc",
    "rejectdst",
    "rejectboth",
    "pass",
    "log",
    "config",
    "react",
    "rewrite",
    "activate",
    "dynamic",
];

fn action(source: &Source<'_>, span: &Range<usize>, errors: &mut Diagnostics) -> Part<Action> {
    match source.text(span).as_str() {
        "alert" => Ok(Action::Alert),
        "drop" | "sdrop" | "block" | "reject" | "rejectsrc" | "rejectdst" | "rejectboth" => {
            Ok(Action::Drop)
        }
        "pass" => Ok(Action::Pass),
        word @ ("log" | "config" | "react" | "rewrite" | "activate" | "dynamic") => {
            Err(Skip::Unsupported(format!("action {word}")))
        }
        word if has_scope(word) => Err(Skip::Unsupported(format!("action {word}"))),
        _ => {
            let (message, expected) = ("no such action", "alert, drop, reject or pass");
            Err(source.tell(errors, span.clone(), message, expected, ""))
        }
    }
}

/// Whether an action names its scope, as rules of Suricata's firewall do: `accept:flow`.
fn has_scope(word: &str) -> bool {
    let Some((action, scope)) = word.split_once(':') else { return word == "accept" };
    (action == "accept" || ACTIONS.contains(&action))
        && ["packet", "flow", "tx", "hook"].contains(&scope)
}

/// Protocols that are looked at.
const PROTOCOLS: [&str; 29] = [
    "ip",
    "ip4",
    "ip6",
    "ipv4",
    "ipv6",
    "pkthdr",
    "tcp",
    "tcp4",
    "tcp6",
    "tcp-pkt",
    "tcp-stream",
    "udp",
    "udp4",
    "udp6",
    "icmp",
    "icmpv4",
    "icmpv6",
    "http",
    "http1",
    "ftp",
    "ftp-data",
    "smtp",
    "imap",
    "pop3",
    "ssh",
    "telnet",
    "tls",
    "ssl",
    "smb",
];

/// Protocols of Suricata and Snort that are not, and that a slip of the pen may look like.
const PROTOCOLS_ELSEWHERE: [&str; 32] = [
    "file",
    "arp",
    "bittorrent-dht",
    "cip",
    "dcerpc",
    "dhcp",
    "dnp3",
    "dns",
    "doh2",
    "enip",
    "ether",
    "gopher",
    "http2",
    "ike",
    "ikev2",
    "krb5",
    "ldap",
    "mdns",
    "modbus",
    "mqtt",
    "nfs",
    "ntp",
    "pgsql",
    "pop",
    "quic",
    "rdp",
    "rfb",
    "sctp",
    "sip",
    "snmp",
    "tftp",
    "websocket",
];

/// Protocols of applications are what carries them: what they say beside that is not looked at.
fn protocol(
    source: &Source<'_>,
    span: &Range<usize>,
    errors: &mut Diagnostics,
) -> Part<(Proto, Option<Family>, Option<Only>)> {
    let text = source.text(span).to_ascii_lowercase();
    match text.as_str() {
        "ip" | "pkthdr" => Ok((Proto::Ip, None, None)),
        "ip4" | "ipv4" => Ok((Proto::Ip, Some(Family::V4), None)),
        "ip6" | "ipv6" => Ok((Proto::Ip, Some(Family::V6), None)),
        "tcp" => Ok((Proto::Tcp, None, None)),
        "tcp4" => Ok((Proto::Tcp, Some(Family::V4), None)),
        "tcp6" => Ok((Proto::Tcp, Some(Family::V6), None)),
        "tcp-pkt" => Ok((Proto::Tcp, None, Some(Only::Packets))),
        "tcp-stream" => Ok((Proto::Tcp, None, Some(Only::Streams))),
        "udp" => Ok((Proto::Udp, None, None)),
        "udp4" => Ok((Proto::Udp, Some(Family::V4), None)),
        "udp6" => Ok((Proto::Udp, Some(Family::V6), None)),
        "icmp" => Ok((Proto::Icmp, None, None)),
        "icmpv4" => Ok((Proto::Icmp, Some(Family::V4), None)),
        "icmpv6" => Ok((Proto::Icmp, Some(Family::V6), None)),
        "http" | "http1" | "ftp" | "smtp" | "imap" | "pop3" | "ssh" | "telnet" | "tls" | "ssl"
        | "smb" | "ftp-data" => Ok((Proto::Tcp, None, None)),
        _ if text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) => {
            let is_known = PROTOCOLS_ELSEWHERE.contains(&text.as_str());
            let meant = nearest(&text, PROTOCOLS).filter(|_| !is_known);
            let hint = meant.map_or_else(String::new, |meant| format!(" (was {meant} meant?)"));
            Err(Skip::Unsupported(format!("protocol {text}{hint}")))
        }
        _ if names_hook(&text) => Err(Skip::Unsupported(format!("protocol {text}"))),
        _ => {
            let expected = "tcp, udp, icmp or ip";
            Err(source.tell(errors, span.clone(), "no such protocol", expected, ""))
        }
    }
}

/// Whether a protocol names the state at which its rule is evaluated: `http1:request_headers`, of
/// Suricata 8.
fn names_hook(protocol: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    protocol.split_once(':').is_some_and(|(name, hook)| is_word(name) && is_word(hook))
}

fn direction(source: &Source<'_>, span: &Range<usize>, errors: &mut Diagnostics) -> Part<bool> {
    match &source.bytes[span.clone()] {
        b"->" => Ok(false),
        b"<>" => Ok(true),
        // Of Suricata 8: both sides of what a client asks and a server answers.
        b"=>" => Err(Skip::Unsupported("direction => (transactions)".into())),
        _ => Err(source.tell(errors, span.clone(), "no direction", "-> or <>", "")),
    }
}

/// The words of a header, up to the parenthesis; lists in brackets are one word.
fn words(source: &Source<'_>, span: Range<usize>) -> Words {
    let (mut words, mut at) = (Vec::new(), span.start);
    while at < span.end {
        let blank = source.blank_bytes(at, span.end);
        if blank > 0 {
            // Only a list, a parenthesis or a backslash lets a header go on in the next line.
            if source.bytes[at] == b'\n' && !words.is_empty() {
                let rest = &source.bytes[at..span.end];
                let next = rest.iter().find(|byte| !byte.is_ascii_whitespace());
                if next != Some(&b'(') {
                    return Words { words, open: None };
                }
            }
            at += blank;
            continue;
        }
        if source.bytes[at] == b'(' {
            let open = (!words.is_empty()).then_some(at);
            return Words { words, open };
        }
        let (start, mut depth) = (at, 0usize);
        while at < span.end {
            match source.bytes[at] {
                b'[' => depth += 1,
                b']' => depth = depth.saturating_sub(1),
                b'(' if depth == 0 => break,
                b'\n' => break,
                _ if depth == 0 && source.blank_bytes(at, span.end) > 0 => break,
                _ => {}
            }
            at += 1;
        }
        words.push(start..at);
    }
    Words { words, open: None }
}

/// Where the line of `at` ends.
fn line_end(bytes: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |len| at + len)
}

/// Where reading goes on behind a statement that could not be read: at the next line that does not
/// look like a part of this one.
fn next_statement(bytes: &[u8], mut at: usize) -> usize {
    loop {
        let end = line_end(bytes, at);
        let is_continued = bytes[at..end].trim_ascii_end().ends_with(b"\\");
        at = (end + 1).min(bytes.len());
        let begins = bytes.get(at).is_none_or(|byte| byte.is_ascii_alphabetic() || *byte == b'#');
        if at == bytes.len() || begins && !is_continued {
            return at;
        }
    }
}
