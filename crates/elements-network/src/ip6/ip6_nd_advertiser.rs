//! Answers IPv6 neighbour solicitations.
//!
//! # Synopsis
//! `IP6NDAdvertiser(ADDR[/MASK] ... ETH, ...)`
//!
//! # Ports
//! One input, agnostic: Ethernet frames with neighbour solicitations. Output 0: Ethernet frames
//! with advertisements. Output 1, optional, push: unanswered frames; they are dropped if it is not
//! connected.
//!
//! # Configuration
//! - `ADDR`: address to answer for; with a mask, all addresses of the prefix, as a proxy
//! - `ETH`: Ethernet address to advertise
//!
//! The longest matching prefix wins.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `table` | read | lines of prefix and Ethernet address |
//! | `lookup` | read, takes an address | Ethernet address |
//!
//! # Drops
//! - `no solicitation`: not a neighbour solicitation, or an invalid one
//! - `not here`: a solicitation for another address
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! c :: Classifier(12/86dd 20/3aff 54/87, -);
//! c[0] -> IP6NDAdvertiser(2001:db8::1 fe80::1 02:00:00:00:00:01) -> q :: Queue;
//! ```
//!
//! # Source
//! RFC 4861, 7.2.3 and 7.2.4.

use std::net::Ipv6Addr;

use warpswitch_graph::language::args::split::split_words;
use warpswitch_graph::language::args::{Args, ArgsError, EtherAddress, FromArg};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::{Batch, Packet};
use warpswitch_routes::Prefix;

use super::neighbour_message::{
    FLAG_OVERRIDE, FLAG_ROUTER, FLAG_SOLICITED, Kind, NeighbourMessage,
};
use super::support::group_ether;
use warpswitch_elements_lookup::routes::{key, parse_prefix};
use warpswitch_elements_support::format::parse_seen;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("IP6NDAdvertiser", "1/1-2", "a/ah", || Box::<Ip6NdAdvertiser>::default())
        .consumes_as("answered")
        .drops(&["no solicitation", "not here"]);

/// Reasons for drops, by number.
const NO_SOLICITATION: usize = 0;
const NOT_HERE: usize = 1;

/// All hosts of a link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

const TABLE: HandlerSpec = HandlerSpec::read("table").expensive();

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Ip6NdAdvertiser {
    entries: Vec<(Prefix<u128>, EtherAddress)>,
}

impl Ip6NdAdvertiser {
    fn find(&self, address: Ipv6Addr) -> Option<(Prefix<u128>, EtherAddress)> {
        let holds = |(prefix, _): &&(Prefix<u128>, _)| prefix.contains(address.into());
        // Of equal ones the first counts: the last one that compares as the largest does.
        self.entries.iter().rev().filter(holds).max_by_key(|(prefix, _)| prefix.len()).copied()
    }

    fn answer(&self, packet: &Packet) -> Result<NeighbourMessage, usize> {
        let asked = NeighbourMessage::parse(packet.data(), Kind::Solicitation);
        let asked = asked.ok_or(NO_SOLICITATION)?;
        let (prefix, ether) = self.find(asked.target).ok_or(NOT_HERE)?;
        // Who answers for others does not drive out who answers for itself.
        let own = if prefix.len() == 128 { FLAG_OVERRIDE } else { 0 };
        let (dst, ether_dst, solicited) = match asked.src.is_unspecified() {
            true => (ALL_NODES, group_ether(ALL_NODES), 0),
            false => (asked.src, asked.link.unwrap_or(asked.ether_src), FLAG_SOLICITED),
        };
        Ok(NeighbourMessage {
            kind: Kind::Advertisement,
            ether_src: ether.0,
            ether_dst,
            src: asked.target,
            dst,
            target: asked.target,
            flags: FLAG_ROUTER | solicited | own,
            link: Some(ether.0),
        })
    }

    /// Reads argument number `idx`.
    fn read_argument(&mut self, idx: usize, text: &str, context: &ConfigureContext<'_>) -> String {
        let (mut prefixes, mut ether) = (Vec::new(), None);
        for word in split_words(text) {
            if let Some(prefix) = parse_prefix(&word, context.names) {
                prefixes.push(key(prefix));
            } else if let Ok(address) = EtherAddress::from_arg(&word, context.names) {
                if ether.replace(address).is_some() {
                    return format!("argument {idx} has more than one Ethernet address");
                }
            } else {
                return format!("argument {idx} should be 'IP6/MASK ETHADDR'");
            }
        }
        let Some(ether) = ether else {
            return format!("argument {idx} should be 'IP6/MASK ETHADDR'");
        };
        if prefixes.is_empty() {
            return format!("argument {idx} had no IP6 address and masks");
        }
        self.entries.extend(prefixes.into_iter().map(|prefix| (prefix, ether)));
        String::new()
    }
}

impl Element for Ip6NdAdvertiser {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        for (idx, text) in args.rest().iter().enumerate() {
            let wrong = self.read_argument(idx, text, context);
            args.error_at("", &wrong);
        }
        args.complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |cx, packet| match self.answer(packet) {
            Ok(answer) => {
                let mut answer = answer.packet(cx.pool());
                answer.set_timestamp_ns(cx.now().0);
                answer.trace_as(packet);
                let asked = std::mem::replace(packet, answer);
                cx.consume(asked);
                Fate::Pass
            }
            Err(reason) => Fate::EmitOrDrop(1, reason),
        });
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[TABLE, HandlerSpec::read("lookup").with_param()] }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        if name == "table" {
            let line = |(prefix, ether): &(Prefix<u128>, _)| format!("{prefix} {ether}\n");
            return Ok(self.entries.iter().map(line).collect());
        }
        let found = self.find(parse_seen(cx, param)?);
        Ok(found.map_or_else(String::new, |(_, ether)| ether.to_string()))
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::support::solicited_node;
    use super::super::testing::{addr, errors, frame, icmp, run, source};
    use super::*;

    const MINE: &str = "2001:db8::1 fe80::1 02:00:00:00:00:01, 2001:db8:7::/64 02-0-0-0-0-7";

    fn solicitation(src: &str, target: &str, link: Option<[u8; 6]>) -> Vec<u8> {
        let group = solicited_node(addr(target)).to_string();
        let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
        message.extend(addr(target).octets());
        if let Some(link) = link {
            message.extend([1, 1]);
            message.extend(link);
        }
        frame([0x33, 0x33, 0xff, 0, 0, 1], [4; 6], &icmp(src, &group, 255, &message))
    }

    fn answer(frame: &[u8]) -> Option<NeighbourMessage> {
        let config = format!(
            "{} -> a :: IP6NDAdvertiser({MINE}) -> Show(0); a[1] -> Show(1);",
            source(frame)
        );
        let (shown, ..) = run(&config);
        if shown[0].label == "1" {
            assert_eq!(shown[0].bytes, frame);
            return None;
        }
        NeighbourMessage::parse(&shown[0].bytes, Kind::Advertisement)
    }

    #[test]
    fn questions_are_answered_to_who_asked() {
        let asked = solicitation("2001:db8::5", "2001:db8::1", Some([6; 6]));
        let answered = answer(&asked).expect("an answer");
        assert_eq!((answered.src, answered.dst), (addr("2001:db8::1"), addr("2001:db8::5")));
        assert_eq!((answered.ether_src, answered.ether_dst), ([2, 0, 0, 0, 0, 1], [6; 6]));
        assert_eq!((answered.flags, answered.link), (0xe0, Some([2, 0, 0, 0, 0, 1])));
        let answered = answer(&solicitation("fe80::5", "fe80::1", None)).expect("an answer");
        assert_eq!((answered.target, answered.ether_dst), (addr("fe80::1"), [4; 6]));
        // For an address of a prefix, as a proxy.
        let answered = answer(&solicitation("fe80::5", "2001:db8:7::77", None));
        assert_eq!(answered.map(|answered| answered.flags), Some(0xc0));
        // Who has no address yet is told with all others.
        let answered = answer(&solicitation("::", "2001:db8::1", None)).expect("an answer");
        assert_eq!((answered.dst, answered.flags), (addr("ff02::1"), 0xa0));
        assert_eq!(answered.ether_dst, [0x33, 0x33, 0, 0, 0, 1]);
    }

    #[test]
    fn what_needs_no_answer_goes_on() {
        assert_eq!(answer(&solicitation("2001:db8::5", "2001:db8::2", None)), None);
        assert_eq!(answer(&[0; 20]), None);
        let mut wrong = solicitation("2001:db8::5", "2001:db8::1", None);
        wrong[21] = 254;
        assert_eq!(answer(&wrong), None);
    }

    #[test]
    fn tables_are_read_and_errors_told() {
        let (_, _, mut router) = run(&format!("Idle -> a :: IP6NDAdvertiser({MINE}) -> Discard;"));
        let table = router.read("a.table").expect("it is there");
        assert!(table.contains("2001:db8:7::/64 02-00-00-00-00-07\n"), "{table}");
        assert_eq!(router.read("a.lookup fe80::1"), Ok("02-00-00-00-00-01".into()));
        let told = errors(
            "Idle -> IP6NDAdvertiser(::1, x 02:00:00:00:00:01, 02:00:00:00:00:01,
             ::1 02:00:00:00:00:01 02:00:00:00:00:02) -> Discard;",
        );
        for line in [
            "argument 0 should be 'IP6/MASK ETHADDR'",
            "argument 1 should be 'IP6/MASK ETHADDR'",
            "argument 2 had no IP6 address and masks",
            "argument 3 has more than one Ethernet address",
        ] {
            assert!(told.contains(line), "{told}");
        }
    }
}
