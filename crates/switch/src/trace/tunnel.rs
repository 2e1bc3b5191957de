//! Outputs to tunnel ports as datapath actions.

use std::net::IpAddr;

use warpswitch_pipeline::Egress;
use warpswitch_rules::openflow::FlowKey;

use crate::tunnel::{TunnelDrop, TunnelOptions};

/// The action `set(tunnel(…))` in front of an output to the port with these options.
pub(super) fn set_tunnel(options: &TunnelOptions, packet: &FlowKey) -> Result<String, TunnelDrop> {
    let (key, outer) = options.outer(&Egress::new(0, None, packet), packet)?;
    let mut parts = Vec::new();
    parts.extend(key.map(|key| format!("tun_id={key:#x}")));
    parts.extend(outer.src.map(|ip| address("src", ip)));
    parts.push(address("dst", outer.dst));
    if outer.tos != 0 {
        parts.push(format!("tos={:#x}", outer.tos));
    }
    parts.push(format!("ttl={}", outer.ttl));
    if outer.dst_port != 0 {
        parts.push(format!("tp_dst={}", outer.dst_port));
    }
    let flags = [(outer.has_df, "df"), (outer.has_checksum, "csum"), (key.is_some(), "key")];
    let flags = flags.into_iter().filter_map(|(is_set, name)| is_set.then_some(name));
    let flags = flags.collect::<Vec<_>>().join("|");
    parts.push(format!("flags({})", if flags.is_empty() { "0" } else { &flags }));
    Ok(format!("set(tunnel({}))", parts.join(",")))
}

fn address(name: &str, ip: IpAddr) -> String {
    let family = if ip.is_ipv6() { "ipv6_" } else { "" };
    format!("{family}{name}={ip}")
}
