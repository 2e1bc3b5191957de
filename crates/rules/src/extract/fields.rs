//! Keys of any schema, field by field: plain and slow. Layouts without code of their own use it,
//! and tests hold the others against it.

use warpswitch_wire::parse::Network;

use super::{Extractor, Found, NoKey};
use crate::schema::{Field, FieldSpec};

impl Extractor {
    /// Any schema, field by field: the plain way, and what the others must agree with. A schema
    /// without EtherType is for the one IP version that it has addresses of.
    #[inline(never)]
    pub(super) fn fill_fields(
        &self,
        frame: &[u8],
        found: &Found,
        in_port: u32,
        key: &mut [u32],
    ) -> Result<(), NoKey> {
        let schema = self.schema;
        let is_openflow = schema.field(Field::EthType).is_some();
        if !is_openflow && schema.field(Field::Ipv4Src).is_some() && found.network != Network::Ipv4
        {
            return Err(NoKey::NotIpv4);
        }
        if !is_openflow && schema.field(Field::Ipv6Src).is_some() && found.network != Network::Ipv6
        {
            return Err(NoKey::NotIpv6);
        }
        key.fill(0);
        let looks_above = !(is_openflow && found.ether_type.is_mpls());
        for spec in schema.fields {
            if let Some(value) = self.field_value(spec, frame, found, in_port, is_openflow)
                && (looks_above || is_below_ip(spec.field))
            {
                spec.write(key, value);
            }
        }
        Ok(())
    }

    /// The value of one field, if the frame has it.
    fn field_value(
        &self,
        spec: &FieldSpec,
        frame: &[u8],
        found: &Found,
        in_port: u32,
        is_openflow: bool,
    ) -> Option<u128> {
        let [mac_0, mac_1, mac_2] = self.eth_addresses(frame).map(u128::from);
        let macs = mac_0 << 64 | mac_1 << 32 | mac_2;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n, &b| n << 8 | u128::from(b));
        let is_ipv4 = matches!(found.network, Network::Ipv4 | Network::Arp);
        let ipv6 = |at| {
            (found.network == Network::Ipv6)
                .then(|| number(&frame[found.network_offset + at..][..16]))
        };
        let ports = if is_openflow { found.ports | found.icmp } else { found.ports };
        match spec.field {
            Field::InPort => Some(in_port.into()),
            Field::EthSrc => Some(macs >> 48),
            Field::EthDst => Some(macs & 0xffff_ffff_ffff),
            Field::EthType => Some(found.ether_type.0.into()),
            Field::VlanTci => Some(found.vlan_tci.into()),
            Field::Ipv4Src => is_ipv4.then(|| found.ipv4_addresses(frame)[0].into()),
            Field::Ipv4Dst => is_ipv4.then(|| found.ipv4_addresses(frame)[1].into()),
            Field::Ipv6Src => ipv6(8),
            Field::Ipv6Dst => ipv6(24),
            Field::IpProto => Some(found.proto.into()),
            Field::IpTos => Some(found.tos.into()),
            Field::L4Src => Some((ports >> 16).into()),
            Field::L4Dst => Some((ports & 0xffff).into()),
            Field::TcpFlags => Some(found.tcp_flags.into()),
        }
    }
}

/// Whether a field belongs to the frame, not to the packet in it.
fn is_below_ip(field: Field) -> bool {
    matches!(field, Field::InPort | Field::EthSrc | Field::EthDst | Field::EthType | Field::VlanTci)
}
