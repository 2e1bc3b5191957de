//! Answers ICMPv6 echo requests on behalf of the addressed host.
//!
//! # Synopsis
//! `ICMP6PingResponder([SRC])`
//!
//! # Ports
//! One input, agnostic. Output 0: echo replies. Output 1, optional, push: packets that are not echo
//! requests; they are dropped if it is not connected.
//!
//! # Configuration
//! - `SRC`: source of replies to multicast requests; without it, these are not answered
//!
//! # Handlers
//! None.
//!
//! # Drops
//! - `no request`: not a complete echo request, or a multicast one without `SRC`
//! - `bad checksum`: the checksum of the request is wrong; dropped even if output 1 is connected
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! rt[0] -> CheckIP6Header -> ICMP6PingResponder -> [0]rt;
//! ```
//!
//! # Source
//! RFC 4443, 4.2. Requests with extension headers and fragments are not answered.

use std::net::Ipv6Addr;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Fate, Sharing};
use warpswitch_packet::packet::{PacketType, annotation};
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::checksum::PseudoHeader;
use warpswitch_wire::icmpv6::{Icmpv6, TYPE_ECHO_REPLY, TYPE_ECHO_REQUEST};
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv6::Ipv6;

use super::support::{ipv6, ipv6_mut, is_one_host};

/// The class.
pub static CLASS: ElementClass = ElementClass::new("ICMP6PingResponder", "1/1-2", "a/ah", || {
    Box::<Icmp6PingResponder>::default()
})
.drops(&["no request", "bad checksum"]);

/// Reasons for drops, by number.
const NO_REQUEST: usize = 0;
const CHECKSUM: usize = 1;

/// Bytes of an echo request without data.
const ECHO_BYTES: usize = 8;
/// Hop limit of answers.
const HOP_LIMIT: u8 = 64;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Icmp6PingResponder {
    src: Option<Ipv6Addr>,
}

impl Icmp6PingResponder {
    /// From whom the answer comes, if there is to be one.
    fn check(&self, packet: &Packet) -> Result<Ipv6Addr, Fate> {
        let other = Fate::EmitOrDrop(1, NO_REQUEST);
        let view = ipv6(packet).ok_or(other)?;
        let view = Ipv6::new_checked(view.into_inner()).map_err(|_| other)?;
        let message = Icmpv6::new_unchecked(view.payload());
        let is_request = view.next_header() == IpProto::ICMPV6
            && view.payload_bytes() >= ECHO_BYTES
            && (message.kind(), message.code()) == (TYPE_ECHO_REQUEST, 0)
            && is_one_host(view.src());
        let (src, dst) = (view.src(), view.dst());
        let me = if dst.is_multicast() { self.src } else { Some(dst) };
        match me.filter(|_| is_request) {
            None => Err(other),
            Some(_) if !message.is_checksum_right(&PseudoHeader::V6 { src, dst }) => {
                Err(Fate::Drop(CHECKSUM))
            }
            Some(me) => Ok(me),
        }
    }

    fn answer(packet: &mut Packet, me: Ipv6Addr) {
        let Some(mut view) = ipv6_mut(packet) else { return };
        let asker = view.src();
        view.set_src(me);
        view.set_dst(asker);
        view.set_hop_limit(HOP_LIMIT);
        let mut message = Icmpv6::new_unchecked(view.payload_mut());
        message.set_kind_and_code(TYPE_ECHO_REPLY, 0);
        message.fill_checksum(&PseudoHeader::V6 { src: me, dst: asker });
        packet.set_dst_ipv6(asker.octets());
        packet.set_packet_type(PacketType::Host);
        packet.set_anno_u8(annotation::PAINT, 0);
    }
}

impl Element for Icmp6PingResponder {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("SRC", &mut self.src).complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| match self.check(packet) {
            Ok(me) => {
                Self::answer(packet, me);
                Fate::Pass
            }
            Err(fate) => fate,
        });
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{addr, icmp, message, run, source};

    #[test]
    fn requests_are_answered_and_nothing_else() {
        let (src, dst) = ("2001:db8::5", "2001:db8::1");
        let echo = [128, 0, 0, 0, 1, 2, 3, 4, 0xaa, 0xbb, 0xcc];
        // By which output it leaves, and from whom it is.
        let check = |bytes: &[u8], arguments: &str, left: Option<(&str, &str)>| {
            let config = format!(
                "{} -> MarkIP6Header -> p :: ICMP6PingResponder({arguments}) -> Show(0);
                 p[1] -> Show(1);",
                source(bytes)
            );
            let (shown, ..) = run(&config);
            let Some((label, from)) = left else { return assert!(shown.is_empty()) };
            let shown = &shown[0];
            assert_eq!(shown.label, label);
            if label == "1" {
                return assert_eq!(shown.bytes, bytes);
            }
            let view = shown.ipv6(0);
            assert_eq!((view.src(), view.dst()), (addr(from), addr(src)));
            assert_eq!((view.hop_limit(), shown.dst6()), (64, addr(src)));
            let message = message(&view);
            assert_eq!((&message[..2], &message[4..]), (&[129, 0][..], &echo[4..]));
        };
        let request = icmp(src, dst, 1, &echo);
        check(&request, "", Some(("0", dst)));
        check(&icmp(src, "ff02::1", 1, &echo), "", Some(("1", "")));
        check(&icmp(src, "ff02::1", 1, &echo), dst, Some(("0", dst)));
        check(&icmp("::", dst, 1, &echo), "", Some(("1", "")));
        check(&icmp(src, dst, 1, &[129, 0, 0, 0, 1, 2, 3, 4]), "", Some(("1", "")));
        check(&icmp(src, dst, 1, &echo[..7]), "", Some(("1", "")));
        check(&request[..50], "", Some(("1", "")));
        let mut wrong = request.clone();
        wrong[50] ^= 1;
        check(&wrong, "", None);
    }
}
