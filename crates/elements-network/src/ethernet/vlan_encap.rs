//! Adds an IEEE 802.1Q tag to frames, or an Ethernet header with a tag to packets.
//!
//! # Synopsis
//! `VLANEncap([VLAN_TCI, VLAN_PCP], VLAN_ID, NATIVE_VLAN, ETHERTYPE)`,
//! `EtherVLANEncap(ETHERTYPE, SRC, DST [, VLAN_TCI, VLAN_PCP], VLAN_ID, NATIVE_VLAN)`,
//! also called `EtherVlanEncap`
//!
//! # Ports
//! One input, one output; agnostic. `VLANEncap` expects frames, `EtherVLANEncap` payloads.
//!
//! # Configuration
//! - `VLAN_TCI`: the whole tag control information, or `ANNO` to use the VLAN annotation
//! - `VLAN_ID`: VLAN id, 0 to 0xFFF
//! - `VLAN_PCP`: priority, 0 to 7
//! - `NATIVE_VLAN`: VLAN whose frames stay untagged, default: 0; -1 for none
//! - `ETHERTYPE`: with `VLANEncap`, the tag protocol identifier, default: 0x8100; with
//!   `EtherVLANEncap`, the EtherType of the payload, 0x0800 for IPv4
//! - `SRC`, `DST`: Ethernet addresses
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `vlan_tci` | read, write | number, or `ANNO` |
//! | `vlan_id`, `vlan_pcp`, `native_vlan`, `ethertype` | read, write | as the arguments |
//! | `src`, `dst` | read, write | Ethernet address; only `EtherVLANEncap` |
//! | `config` | read | current configuration |
//!
//! # Drops
//! - `too short`: no complete Ethernet header, only `VLANEncap`
//! - `too long`: the packet would exceed the maximum packet length
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDevice(eth0) -> VLANEncap(VLAN_ID 7) -> Queue -> ToDevice(eth1);
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, EtherAddress, Word};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::packet::{Header, PACKET_BYTES_MAX};
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::ethernet::{EtherType, HEADER_BYTES};

use super::set_vlan_anno::{PRIORITY_SHIFT, VLAN_BITS, read_tci, write_tci};
use super::{ADDRESS_BYTES, bounded, header, push_header, vlan_tci};
use warpswitch_elements_support::format::parse;

/// The class `VLANEncap`.
pub static CLASS: ElementClass =
    ElementClass::new("VLANEncap", "1/1", "a/a", || Box::new(VlanEncap::new(false)))
        .drops(&REASONS);
/// The class `EtherVLANEncap`.
pub static ETHER: ElementClass =
    ElementClass::new("EtherVLANEncap", "1/1", "a/a", || Box::new(VlanEncap::new(true)))
        .drops(&REASONS);
/// The same under its older name.
pub static ETHER_OLDER_NAME: ElementClass =
    ElementClass::new("EtherVlanEncap", "1/1", "a/a", || Box::new(VlanEncap::new(true)))
        .drops(&REASONS);

/// Reasons for drops, and their numbers.
const REASONS: [&str; 2] = ["too short", "too long"];
const SHORT: usize = 0;
const LONG: usize = 1;
/// Bytes of a tag with the type that announces it.
const TAG_BYTES: usize = 4;

/// See the module.
#[derive(Clone, Debug)]
pub struct VlanEncap {
    /// Whether it adds a whole header.
    is_ether: bool,
    ether_type: u16,
    src: EtherAddress,
    dst: EtherAddress,
    tci: u16,
    uses_anno: bool,
    /// Negative for none.
    native: i32,
}

impl VlanEncap {
    fn new(is_ether: bool) -> Self {
        Self {
            is_ether,
            ether_type: if is_ether { EtherType::IPV4.0 } else { EtherType::VLAN.0 },
            src: EtherAddress::default(),
            dst: EtherAddress::default(),
            tci: 0,
            uses_anno: false,
            native: 0,
        }
    }

    fn tag(&self, packet: &mut Packet) -> Fate {
        let tci = if self.uses_anno { vlan_tci(packet) } else { self.tci };
        let is_native = i32::from(tci & VLAN_BITS) == self.native;
        if packet.len() + HEADER_BYTES + TAG_BYTES > PACKET_BYTES_MAX {
            return Fate::Drop(LONG);
        }
        let announces = if self.is_ether {
            push_header(packet, &header(self.dst, self.src, self.ether_type));
            EtherType::VLAN.0
        } else {
            self.ether_type
        };
        if packet.len() < HEADER_BYTES {
            return Fate::Drop(SHORT);
        }
        if !is_native {
            packet.push(TAG_BYTES);
            let data = packet.data_mut();
            data.copy_within(TAG_BYTES..TAG_BYTES + ADDRESS_BYTES, 0);
            data[ADDRESS_BYTES..ADDRESS_BYTES + 2].copy_from_slice(&announces.to_be_bytes());
            data[ADDRESS_BYTES + 2..ADDRESS_BYTES + 4].copy_from_slice(&tci.to_be_bytes());
        }
        packet.set_header(Header::Mac, 0);
        let network = if is_native { HEADER_BYTES } else { HEADER_BYTES + TAG_BYTES };
        packet.set_header(Header::Network, network);
        Fate::Pass
    }

    fn config(&self) -> String {
        let mut parts = Vec::new();
        if self.is_ether {
            parts.extend([self.src.to_string(), self.dst.to_string(), self.ether_type.to_string()]);
        }
        if self.uses_anno {
            parts.push("ANNO".to_owned());
        } else {
            parts.push(format!("VLAN_ID {}", read_tci(self.tci, "vlan_id")));
            parts.push(format!("VLAN_PCP {}", read_tci(self.tci, "vlan_pcp")));
        }
        if self.native != 0 {
            parts.push(format!("NATIVE_VLAN {}", self.native));
        }
        parts.join(", ")
    }
}

impl Element for VlanEncap {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut word, mut id, mut priority) = (Word::default(), 0, 0);
        if self.is_ether {
            args.read_mp("ETHERTYPE", &mut self.ether_type)
                .read_mp("SRC", &mut self.src)
                .read_mp("DST", &mut self.dst);
        }
        args.read_p("VLAN_TCI", &mut word)
            .read_as("VLAN_PCP", false, true, &mut priority, bounded(0, 7))
            .read_as("VLAN_ID", false, false, &mut id, bounded(0, i32::from(VLAN_BITS)))
            .read_as("NATIVE_VLAN", false, false, &mut self.native, bounded(-1, 0xfff));
        if !self.is_ether {
            args.read("ETHERTYPE", &mut self.ether_type);
        }
        self.uses_anno = word.0 == "ANNO";
        if !self.uses_anno && !word.0.is_empty() {
            match bounded(0, 0xffff)(&word.0, context.names) {
                Ok(tci) => id = tci,
                Err(error) => args.error_at("VLAN_TCI", &error.to_string()),
            }
        }
        self.tci = (id | priority << PRIORITY_SHIFT) as u16;
        args.complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| self.tag(packet));
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        static ALL: [HandlerSpec; 8] = [
            HandlerSpec::read("config"),
            HandlerSpec::both("vlan_tci"),
            HandlerSpec::both("vlan_id"),
            HandlerSpec::both("vlan_pcp"),
            HandlerSpec::both("native_vlan"),
            HandlerSpec::both("ethertype"),
            HandlerSpec::both("src"),
            HandlerSpec::both("dst"),
        ];
        if self.is_ether { &ALL } else { &ALL[..6] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "config" => self.config(),
            "native_vlan" => self.native.to_string(),
            "ethertype" => self.ether_type.to_string(),
            "src" => self.src.to_string(),
            "dst" => self.dst.to_string(),
            "vlan_tci" if self.uses_anno => "ANNO".to_owned(),
            name => read_tci(self.tci, name),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "native_vlan" => {
                self.native = bounded(-1, 0xfff)(value.trim(), &cx.names())
                    .map_err(|error| HandlerError::failed(error.to_string()))?;
            }
            "ethertype" => self.ether_type = parse(value)?,
            "src" => self.src = parse(value)?,
            "dst" => self.dst = parse(value)?,
            "vlan_tci" if value.trim() == "ANNO" => self.uses_anno = true,
            name => {
                write_tci(&mut self.tci, name, value)?;
                self.uses_anno &= name != "vlan_tci";
            }
        }
        Ok(String::new())
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use crate::ethernet::tests::frames;
    use warpswitch_graph::simulate::run;

    const ENDS: &str = "020202020202 010101010101";

    #[test]
    fn packets_get_into_tagged_frames() {
        let config = r"InfiniteSource(DATA \<AABB>, LIMIT 1)
            -> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, 1) -> Tap -> StripEtherVLANHeader
            -> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, ANNO) -> Tap -> StripEtherVLANHeader
            -> EtherVlanEncap(0x86dd, 1:1:1:1:1:1, 2:2:2:2:2:2, ANNO, NATIVE_VLAN 1) -> Tap
            -> StripEtherVLANHeader -> Tap -> SetVLANAnno(2, 1)
            -> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, ANNO, NATIVE_VLAN 1) -> Tap
            -> Discard;";
        let expected = ["8100 00010800aabb", "8100 00010800aabb", "86dd aabb"];
        let mut expected: Vec<String> =
            expected.iter().map(|end| format!("{ENDS} {end}")).collect();
        expected.extend(["aabb".to_owned(), format!("{ENDS} 8100 20020800aabb")]);
        assert_eq!(frames(config), expected);
    }

    #[test]
    fn frames_get_tags_and_lose_them() {
        let config = r"InfiniteSource(DATA \<AABB>, LIMIT 1)
            -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2)
            -> v :: VLANEncap(0x1234, ETHERTYPE 0x88a8) -> Tap -> VLANDecap -> Tap
            -> VLANDecap(ETHERTYPE 0x88a8) -> Tap
            -> VLANEncap(ANNO) -> Tap -> VLANEncap(VLAN_ID 0) -> Tap -> Discard;
            InfiniteSource(DATA abcdefghijklm, LIMIT 1) -> v;";
        let expected = [
            "88a8 12340800aabb",
            "88a8 12340800aabb",
            "0800 aabb",
            "8100 12340800aabb",
            "8100 12340800aabb",
        ];
        let expected: Vec<String> = expected.iter().map(|end| format!("{ENDS} {end}")).collect();
        assert_eq!(frames(config), expected);
    }

    #[test]
    fn handlers_tell_and_change_the_tag() {
        let config = "Idle -> v :: VLANEncap(3, 1) -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("v.config"), Ok("VLAN_ID 3, VLAN_PCP 1".into()));
        router.write("v.vlan_tci", "ANNO").expect("it obeys");
        router.write("v.native_vlan", "-1").expect("it obeys");
        assert_eq!(router.read("v.config"), Ok("ANNO, NATIVE_VLAN -1".into()));
        router.write("v.vlan_tci", "5").expect("it obeys");
        assert_eq!(router.read("v.vlan_tci"), Ok("5".into()));
        assert!(router.write("v.native_vlan", "4096").is_err());
        assert!(router.read("v.src").is_err());
    }
}
