//! Sets the checksum of TCP and UDP headers.
//!
//! # Synopsis
//! `SetTCPChecksum([FIXOFF])`, `SetUDPChecksum`
//!
//! # Ports
//! `SetTCPChecksum`: one input, one output. `SetUDPChecksum`: one input, one or two outputs, output
//! 1 is push; fragments and packets with wrong lengths are emitted there if it is connected. Push
//! or pull.
//!
//! # Configuration
//! Packets with a source route get the checksum that their final destination expects.
//!
//! - `FIXOFF`: correct a data offset that is out of range; default: false
//!
//! # Handlers
//! None.
//!
//! # Drops
//! - `bad lengths`: no IPv4 header, or length fields that are invalid or exceed the packet
//! - `fragment`: UDP only, where the checksum covers more than the fragment
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! ... -> MarkIPHeader -> SetUDPChecksum -> ...;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Fate, Sharing};
use warpswitch_packet::packet::Header;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::checksum::PseudoHeader;
use warpswitch_wire::tcp::{self, Tcp};
use warpswitch_wire::udp::{self, Udp};

use super::support::{get_u16, ipv4, is_fragment, transport_mut};

/// The class `SetTCPChecksum`.
pub static TCP: ElementClass =
    ElementClass::new("SetTCPChecksum", "1/1", "a/a", || Box::<SetTcpChecksum>::default())
        .drops(&["bad lengths"]);
/// The class `SetUDPChecksum`.
pub static UDP: ElementClass =
    ElementClass::new("SetUDPChecksum", "1/1-2", "a/ah", || Box::<SetUdpChecksum>::default())
        .drops(&["bad lengths", "fragment"]);

/// Reasons for drops, by number.
const BAD_LENGTHS: usize = 0;
const FRAGMENT: usize = 1;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct SetTcpChecksum {
    fixes_offset: bool,
    has_told: bool,
}

/// Addresses, whether it is a fragment, and whether all bytes are there that the header promises.
fn outline(packet: &Packet) -> Option<(PseudoHeader, bool, bool)> {
    let view = ipv4(packet)?;
    let is_whole = packet.from_header(Header::Network).len() >= view.total_bytes();
    Some((view.pseudo_header(), is_fragment(&view), is_whole))
}

impl SetTcpChecksum {
    fn set(&self, packet: &mut Packet) -> Option<()> {
        let (pseudo, is_fragment, is_whole) = outline(packet)?;
        let bytes = transport_mut(packet);
        if !is_whole || bytes.len() < tcp::HEADER_BYTES {
            return None;
        }
        if self.fixes_offset {
            let words = bytes[12] >> 4;
            let fixed = if usize::from(words) * 4 < tcp::HEADER_BYTES {
                5
            } else if usize::from(words) * 4 > bytes.len() && !is_fragment {
                (bytes.len() / 4) as u8
            } else {
                words
            };
            bytes[12] = fixed << 4 | bytes[12] & 0x0f;
        }
        Tcp::new_unchecked(bytes).fill_checksum(&pseudo);
        Some(())
    }
}

impl Element for SetTcpChecksum {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("FIXOFF", &mut self.fixes_offset).complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |cx, packet| {
            if self.set(packet).is_some() {
                return Fate::Pass;
            }
            if !std::mem::replace(&mut self.has_told, true) {
                cx.say("SetTCPChecksum: bad lengths");
            }
            Fate::Drop(BAD_LENGTHS)
        });
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct SetUdpChecksum {
    has_told: bool,
}

impl SetUdpChecksum {
    fn set(packet: &mut Packet) -> Result<(), usize> {
        let (pseudo, is_fragment, _) = outline(packet).ok_or(BAD_LENGTHS)?;
        if is_fragment {
            return Err(FRAGMENT);
        }
        let bytes = transport_mut(packet);
        if bytes.len() < udp::HEADER_BYTES {
            return Err(BAD_LENGTHS);
        }
        let datagram_bytes = usize::from(get_u16(bytes, 4));
        if !(udp::HEADER_BYTES..=bytes.len()).contains(&datagram_bytes) {
            return Err(BAD_LENGTHS);
        }
        Udp::new_unchecked(&mut bytes[..datagram_bytes]).fill_checksum(&pseudo);
        Ok(())
    }
}

impl Element for SetUdpChecksum {
    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |cx, packet| match Self::set(packet) {
            Ok(()) => Fate::Pass,
            Err(reason) => {
                if !cx.has_output(1) && !std::mem::replace(&mut self.has_told, true) {
                    cx.say(&format!("{}: fragment or short packet", cx.declaration()));
                }
                Fate::EmitOrDrop(1, reason)
            }
        });
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ipv4, run, source, through};
    use super::*;
    use warpswitch_wire::ip::IpProto;

    const PSEUDO: PseudoHeader = PseudoHeader::V4 {
        src: std::net::Ipv4Addr::new(18, 26, 4, 44),
        dst: std::net::Ipv4Addr::new(10, 0, 0, 4),
    };

    #[test]
    fn tcp_sums_become_right() {
        let set = |payload: &[u8], arguments: &str| {
            let bytes = ipv4(payload, |repr| repr.proto = IpProto::TCP);
            through(&bytes, &format!("MarkIPHeader -> SetTCPChecksum({arguments})"))
        };
        for len in [20, 21, 64, 1001] {
            let shown = set(&vec![0x77; len], "").expect("it passes");
            assert!(Tcp::new_unchecked(shown.ipv4().payload()).is_checksum_right(&PSEUDO));
            assert_eq!(shown.ipv4().payload()[12], 0x77);
        }
        assert!(set(&[0x77; 19], "").is_none());
        let words = |payload: &[u8]| set(payload, "true").map(|shown| shown.bytes[32] >> 4);
        assert_eq!(words(&[0x00; 24]), Some(5));
        assert_eq!(words(&[0x66; 24]), Some(6));
        assert_eq!(words(&[0xff; 26]), Some(6));
    }

    #[test]
    fn sums_cover_the_final_destination_of_a_source_route() {
        let options = [131, 7, 4, 9, 8, 7, 6, 0];
        let last = PseudoHeader::V4 { src: [18, 26, 4, 44].into(), dst: [9, 8, 7, 6].into() };
        let set = |payload: &[u8], proto, element: &str| {
            let bytes = ipv4(payload, |repr| (repr.proto, repr.options) = (proto, &options));
            through(&bytes, &format!("MarkIPHeader -> {element}")).expect("it passes")
        };
        let shown = set(&[0x77; 24], IpProto::TCP, "SetTCPChecksum");
        let tcp = Tcp::new_unchecked(shown.ipv4().payload().to_vec());
        assert!(tcp.is_checksum_right(&last) && !tcp.is_checksum_right(&PSEUDO));
        let shown = set(&[0, 1, 0, 2, 0, 12, 0, 0, 1, 2, 3, 4], IpProto::UDP, "SetUDPChecksum");
        let udp = Udp::new_unchecked(shown.ipv4().payload().to_vec());
        assert!(udp.is_checksum_right(&last) && !udp.is_checksum_right(&PSEUDO));
        let checked = "SetTCPChecksum -> CheckTCPHeader";
        set(&[0x55; 24], IpProto::TCP, checked);
    }

    #[test]
    fn udp_sums_become_right_and_are_never_zero() {
        let datagram = |length: u8, bytes: usize| {
            let mut datagram = vec![0; bytes];
            datagram[5] = length;
            datagram
        };
        let check = |payload: &[u8], offset: u16, label: &str| {
            let bytes = ipv4(payload, |repr| repr.fragment_offset = offset);
            let source = source(&bytes);
            let (shown, ..) = run(&format!(
                "{source} -> MarkIPHeader -> s :: SetUDPChecksum -> Show(0); s[1] -> Show(1);"
            ));
            assert_eq!(shown[0].label, label);
            if label == "0" {
                let view = shown[0].ipv4();
                let udp = Udp::new_checked(view.payload()).expect("whole");
                assert!(udp.checksum() != 0 && udp.is_checksum_right(&PSEUDO));
            } else {
                assert_eq!(shown[0].bytes, bytes);
            }
        };
        check(&datagram(12, 12), 0, "0");
        check(&datagram(8, 12), 0, "0");
        check(&datagram(13, 12), 0, "1");
        check(&datagram(7, 12), 0, "1");
        check(&datagram(12, 12), 2, "1");
        check(&[0; 7], 0, "1");
        // Whatever word is in front of it, some value makes the sum zero.
        let mut zeros = 0;
        for word in 0..=255u8 {
            let mut payload = datagram(10, 10);
            payload[8..10].copy_from_slice(&[0xd2, word]);
            let bytes = ipv4(&payload, |_| {});
            let shown = through(&bytes, "MarkIPHeader -> SetUDPChecksum").expect("it passes");
            zeros += usize::from(shown.bytes[26..28] == [0xff, 0xff]);
        }
        assert!(zeros <= 1);
        assert!(through(b"no header", "SetUDPChecksum").is_none());
    }
}
