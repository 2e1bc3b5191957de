//! Replies to ICMP echo requests.
//!
//! # Synopsis
//! `ICMPPingResponder`
//!
//! # Ports
//! One input, one or two outputs; push or pull, output 1 is push. Echo requests are turned into
//! replies and emitted on output 0, with the destination annotation set. Other packets are emitted
//! on output 1 if it is connected.
//!
//! # Configuration
//! None.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! - `no ping`: not an echo request
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! rt[0] -> IPReassembler -> ping :: ICMPPingResponder -> [0]rt; ping[1] -> host;
//! ```
//!
//! # Source
//! RFC 792; RFC 1812, 4.3.3.6.

use warpswitch_graph::{Context, Element, ElementClass, Fate, Sharing};
use warpswitch_packet::packet::annotation;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::checksum;
use warpswitch_wire::ip::IpProto;

use super::support::{get_u16, ipv4, ipv4_mut, set_word, transport, transport_mut};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("ICMPPingResponder", "1/1-2", "a/ah", || Box::new(IcmpPingResponder))
        .drops(&["no ping"]);

/// Reasons for drops, by number.
const NO_PING: usize = 0;

/// Bytes of an echo message without data.
const ECHO_BYTES: usize = 8;
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
/// Time to live of replies.
const TTL: u8 = 255;

/// See the module.
#[derive(Clone, Debug)]
pub struct IcmpPingResponder;

fn is_ping(packet: &Packet) -> bool {
    let message = transport(packet);
    // A later fragment begins with anything.
    ipv4(packet).is_some_and(|view| view.proto() == IpProto::ICMP && view.fragment_offset() == 0)
        && message.len() >= ECHO_BYTES
        && message[0] == ECHO_REQUEST
}

fn answer(packet: &mut Packet) {
    let Some(view) = ipv4_mut(packet) else { return };
    let (src, proto) = (view.src().octets(), view.proto().0);
    let header = view.into_inner();
    let (from, to) = header[12..20].split_at_mut(4);
    from.swap_with_slice(to);
    // The reply is not a fragment and lives anew.
    set_word(header, 6, 0);
    set_word(header, 8, u16::from_be_bytes([TTL, proto]));
    let message = transport_mut(packet);
    let word = u16::from_be_bytes([ECHO_REPLY, 0]);
    let sum = checksum::update_u16(get_u16(message, 2), get_u16(message, 0), word);
    message[..2].copy_from_slice(&word.to_be_bytes());
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    // A message that is all zero has another sum than the difference says.
    if message[4..].iter().all(|&byte| byte == 0) {
        message[2..4].fill(0xff);
    }
    packet.set_dst_ipv4(src);
    packet.set_anno_u8(annotation::PAINT, 0);
}

impl Element for IcmpPingResponder {
    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        let now = cx.now();
        cx.sort(batch, |_, packet| {
            if !is_ping(packet) {
                return Fate::EmitOrDrop(1, NO_PING);
            }
            answer(packet);
            packet.set_timestamp_ns(now.0);
            Fate::Pass
        });
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ipv4, run, source, through};
    use warpswitch_wire::icmp::Icmp;
    use warpswitch_wire::ip::IpProto;

    fn ping(kind: u8, data: &[u8]) -> Vec<u8> {
        let mut message = vec![kind, 0, 0, 0];
        message.extend_from_slice(data);
        Icmp::new_unchecked(&mut message[..]).fill_checksum();
        ipv4(&message, |repr| (repr.proto, repr.ttl, repr.dont_fragment) = (IpProto::ICMP, 3, true))
    }

    #[test]
    fn pings_come_back_whole() {
        for data in [&[0u8; 4][..], &[0; 60], &[1, 2, 3, 4, 5], &[0xf7, 0xff, 0, 0, 0]] {
            let shown = through(&ping(8, data), "MarkIPHeader -> ICMPPingResponder");
            let shown = shown.expect("a reply");
            let view = shown.ipv4();
            assert_eq!((view.src().octets(), view.ttl()), ([10, 0, 0, 4], 255));
            assert_eq!((view.dst(), view.dst().octets()), (shown.dst(), [18, 26, 4, 44]));
            assert!(!view.dont_fragment());
            let message = Icmp::new_checked(view.payload()).expect("a message");
            assert!(message.is_checksum_right(), "{data:?}");
            let mut fresh = view.payload().to_vec();
            Icmp::new_unchecked(&mut fresh[..]).fill_checksum();
            assert_eq!(view.payload(), fresh);
            assert_eq!((message.kind(), &view.payload()[4..]), (0, data));
        }
    }

    #[test]
    fn what_is_no_ping_stays_as_it_is() {
        let mut others = vec![ping(0, &[1; 20]), ping(8, &[1; 3]), ipv4(&[8; 20], |_| {})];
        others.push(ipv4(&[8; 20], |repr| {
            (repr.proto, repr.fragment_offset) = (IpProto::ICMP, 9);
        }));
        others.push(b"nothing".to_vec());
        for bytes in others {
            let source = source(&bytes);
            let config = format!(
                "{source} -> MarkIPHeader -> p :: ICMPPingResponder -> Show(0); p[1] -> Show(1);"
            );
            let (shown, ..) = run(&config);
            assert_eq!((&shown[0].label[..], &shown[0].bytes), ("1", &bytes));
        }
    }
}
