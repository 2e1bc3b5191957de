//! Encapsulates packets in Ethernet.
//!
//! # Synopsis
//! `EtherEncap(ETHERTYPE, SRC, DST)`
//!
//! # Ports
//! One input, one output; agnostic.
//!
//! # Configuration
//! - `ETHERTYPE`: EtherType of the payload, 0x0800 for IPv4
//! - `SRC`, `DST`: Ethernet addresses
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `src`, `dst` | read, write | Ethernet address |
//! | `ethertype`, `etht` | read, write | number |
//! | `config` | read, write | the arguments |
//!
//! # Drops
//! - `too long`: the frame would exceed the maximum packet length
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! … -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Queue -> ToDevice(eth0);
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, EtherAddress};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::Batch;
use warpswitch_packet::packet::PACKET_BYTES_MAX;

use super::{header, push_header};
use warpswitch_elements_support::format::parse;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("EtherEncap", "1/1", "a/a", || Box::<EtherEncap>::default())
        .drops(&["too long"])
        .live();

/// Reason for drops, by number.
const LONG: usize = 0;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct EtherEncap {
    ether_type: u16,
    src: EtherAddress,
    dst: EtherAddress,
}

impl Element for EtherEncap {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("ETHERTYPE", &mut self.ether_type)
            .read_mp("SRC", &mut self.src)
            .read_mp("DST", &mut self.dst)
            .complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        let header = header(self.dst, self.src, self.ether_type);
        cx.sort(batch, |_, packet| {
            if packet.len() + header.len() > PACKET_BYTES_MAX {
                return Fate::Drop(LONG);
            }
            push_header(packet, &header);
            Fate::Pass
        });
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::both("src"),
                HandlerSpec::both("dst"),
                HandlerSpec::both("ethertype"),
                HandlerSpec::both("etht"),
            ]
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "src" => self.src.to_string(),
            "dst" => self.dst.to_string(),
            _ => self.ether_type.to_string(),
        })
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "src" => self.src = parse(value)?,
            "dst" => self.dst = parse(value)?,
            _ => self.ether_type = parse(value)?,
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
    use warpswitch_graph::simulate::{router, run};

    #[test]
    fn a_header_comes_in_front_and_can_be_changed() {
        let config = r"i :: InfiniteSource(DATA \<AABB>, LIMIT 1)
            -> e :: EtherEncap(0x86dd, 1:2:3:4:5:6, ff:0:0:0:0:1) -> Tap -> Discard;";
        assert_eq!(frames(config), ["ff0000000001 010203040506 86dd aabb"]);
        let config = "Idle -> e :: EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("e.ethertype"), Ok("2048".into()));
        router.write("e.ethertype", "0x0801").expect("it obeys");
        assert_eq!(router.read("e.etht"), Ok("2049".into()));
        router.write("e.src", "0:0:5e:0:0:1").expect("it obeys");
        assert_eq!(router.read("e.src"), Ok("00-00-5E-00-00-01".into()));
        assert!(router.write("e.dst", "nobody").is_err());
        assert_eq!(router.read("e.dst"), Ok("02-02-02-02-02-02".into()));
    }

    #[test]
    fn what_goes_round_gets_no_longer_than_packets_can_be() {
        let elements = [
            "EtherEncap(0x800, 1:1:1:1:1:1, 2:2:2:2:2:2)",
            "VLANEncap(1)",
            "EtherVLANEncap(0x800, 1:1:1:1:1:1, 2:2:2:2:2:2, 1)",
            "SetAnnoByte(0, 100) -> UnstripAnno(0)",
            "Unstrip(1000)",
            "SetIPAddress(10.0.0.2) -> [0] a :: ARPQuerier(10.0.0.1, 1:1:1:1:1:1); Idle -> [1] a;
             Script(write a.insert 10.0.0.2 2:2:2:2:2:2); a",
            "SetIP6Address(ff02::1) -> [0] n :: IP6NDSolicitor(fe80::1, 1:1:1:1:1:1);
             Idle -> [1] n; n",
            "Strip(100000) -> Pad(250000) -> c :: Counter(COUNT_CALL 50 stop)",
        ];
        for element in elements {
            let source = "InfiniteSource(LIMIT 1) -> q :: Queue -> Unqueue";
            run(&format!("{source} -> {element} -> q;"), &crate::registry());
        }
    }

    #[test]
    fn types_are_sixteen_bits() {
        let config = "Idle -> EtherEncap(65536, 1:1:1:1:1:1, 2:2:2:2:2) -> Discard;";
        let errors = router(config, &crate::registry()).err().expect("it is wrong").to_click();
        assert!(errors.contains("ETHERTYPE: out of range, bound 65535"), "{errors}");
        assert!(errors.contains("DST: parse error"), "{errors}");
    }
}
