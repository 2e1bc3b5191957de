//! Rewrites ICMP errors about packets of rewritten flows.
//!
//! # Synopsis
//! `ICMPRewriter(MAPS, DST_ANNO, REPLY_ANNO)`
//!
//! # Ports
//! One input, any number of outputs; all push. Requires the network header annotation.
//!
//! # Configuration
//! - `MAPS`: names of rewriters, separated by spaces; the first one that has the flow is used. With
//!   the suffix `:OFFSET`, errors are emitted on the output of the flow's replies plus `OFFSET`,
//!   otherwise on output 0
//! - `DST_ANNO`: whether to set the destination address annotation to the new destination; default:
//!   true
//! - `REPLY_ANNO`: annotation byte to set on errors, to its value in the first packet of the flow
//!
//! An error quotes the packet that caused it, as rewritten here. The quoted addresses, ports or
//! identifier and checksums are restored, and the error is addressed to the source of the original
//! packet. Rewritten types: unreachable, source quench, redirect, time exceeded, parameter problem.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! `no IP header`, `not ICMP`, `no error about a known flow`. Packets with the last reason are
//! emitted on output 1 instead, if it is connected and no name has an offset.
//!
//! # Threads
//! Runs on one worker, the same as its rewriters.
//!
//! # Example
//! ```text
//! rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop);
//! errors -> ICMPRewriter(rw) -> to_inside;
//! ```

use warpswitch_graph::language::FlatGraph;
use warpswitch_graph::language::args::split::split_words;
use warpswitch_graph::language::args::{Args, ArgsError, FromArg, NoNames, Raw};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass};
use warpswitch_packet::packet::Header;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::checksum::{update_bytes, update_u16, update_u32};
use warpswitch_wire::checksum::{update_udp_u16, update_udp_u32};
use warpswitch_wire::icmp;
use warpswitch_wire::ipv4::{self, Ipv4};
use warpswitch_wire::tcp::{self, Tcp};
use warpswitch_wire::udp::Udp;

use super::apply::{self, Shape};
use super::flow::{FORWARD, FlowId, REPLY};
use super::rewriter::{Rewriter, is_rewriter, read_anno};
use super::set::Kind;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("ICMPRewriter", "1/1-", "h/h", || Box::<IcmpRewriter>::default()).drops(&[
        "no IP header",
        "not ICMP",
        "no error about a known flow",
    ]);
const NO_HEADER: usize = 0;
const NOT_ICMP: usize = 1;
const UNKNOWN: usize = 2;

/// Types of errors: unreachable, source quench, redirect, time exceeded, parameter problem.
const ERRORS: [u8; 5] = [3, 4, 5, 11, 12];
/// The most bytes of a quoted packet that are changed: both headers.
const QUOTED_BYTES_MAX: usize = ipv4::HEADER_BYTES + ipv4::OPTIONS_BYTES_MAX + tcp::HEADER_BYTES;

/// See the module.
#[derive(Debug, Default)]
pub struct IcmpRewriter {
    /// Elements, and what is added to their outputs.
    maps: Vec<(usize, Option<usize>)>,
    is_dst_not_noted: bool,
    reply_anno: Option<usize>,
}

/// The mapping that a rewriter has for a flow.
struct Known {
    /// What replies of the flow become.
    new: FlowId,
    output: usize,
    /// What replies are annotated with, if it was a reply's flow.
    reply_anno: Option<u8>,
}

/// Number of connected outputs.
fn outputs(graph: &FlatGraph, element: usize) -> usize {
    let from = graph.connections.iter().map(|connection| connection.from);
    from.filter(|from| from.element == element).map(|from| from.port + 1).max().unwrap_or(0)
}

impl IcmpRewriter {
    fn read_map(&mut self, word: &str, context: &ConfigureContext<'_>) -> Result<(), String> {
        let unknown = |name: &str| format!("{name} not an IP rewriter");
        let (name, offset) = match word.split_once(':') {
            Some((name, offset)) => {
                let offset = i32::from_arg(offset, &NoNames).map_err(|_| unknown(word))?;
                (name, usize::try_from(offset).ok())
            }
            None => (word, None),
        };
        let element = context.names.element(name).ok_or_else(|| unknown(name))?;
        let needed = offset.map_or(0, |offset| offset + outputs(context.graph, element));
        if needed > context.outputs {
            let n = context.outputs;
            let plural = if n == 1 { "output" } else { "outputs" };
            return Err(format!("{word} port offset requires more than {n} {plural}"));
        }
        if !is_rewriter(&context.graph.elements[element].class) {
            return Err(unknown(name));
        }
        self.maps.push((element, offset));
        Ok(())
    }

    /// Queries the rewriters in order for the flow of replies like `id`; returns the first mapping.
    fn ask(&self, cx: &mut Context<'_>, proto: u8, id: FlowId) -> Option<Known> {
        self.maps.iter().find_map(|&(element, offset)| {
            let known = cx.with_element(element, |rewriter: &mut Rewriter, cx| {
                rewriter.with_set(cx, |rewriter, set, _| {
                    let (flow, direction) = rewriter.find(set, proto, id, true)?;
                    let flow = set.flow(flow);
                    let new = merged(rewriter.kind, direction, id, flow.rewritten(direction));
                    let output = offset.map_or(0, |add| add + flow.outputs[direction] as usize);
                    let reply_anno = (direction == REPLY).then_some(flow.reply_anno);
                    Some(Known { new, output, reply_anno })
                })
            });
            known.flatten().flatten()
        })
    }

    /// Rewrites an error and gives its output, or why it is dropped.
    fn rewrite(&self, cx: &mut Context<'_>, packet: &mut Packet) -> Result<usize, usize> {
        let bytes = packet.from_header_mut(Header::Network);
        let outer = Shape::read(bytes).ok_or(NO_HEADER)?;
        if outer.proto != apply::ICMP {
            return Err(NOT_ICMP);
        }
        let icmp = &bytes[outer.header_bytes..];
        let is_error = outer.is_first && icmp.first().is_some_and(|kind| ERRORS.contains(kind));
        let quoted = icmp.get(icmp::HEADER_BYTES..).filter(|_| is_error).ok_or(UNKNOWN)?;
        let inner = Shape::read(quoted).ok_or(UNKNOWN)?;
        let id = reply_to(&inner);
        let known = self.ask(cx, inner.proto, id).ok_or(UNKNOWN)?;
        if outer.id.dst == id.dst {
            let mut ip = Ipv4::new_unchecked(&mut *bytes);
            let checksum = update_u32(ip.checksum(), id.dst, known.new.dst);
            ip.set_dst(known.new.dst());
            ip.set_checksum(checksum);
        }
        restore(&mut bytes[outer.header_bytes..], &inner, id, known.new);
        if outer.id.dst == id.dst && !self.is_dst_not_noted {
            packet.set_dst_ipv4(known.new.dst().octets());
        }
        if let (Some(at), Some(value)) = (self.reply_anno, known.reply_anno) {
            packet.set_anno_u8(at, value);
        }
        Ok(known.output)
    }
}

/// What replies to the quoted packet look like.
fn reply_to(inner: &Shape) -> FlowId {
    let FlowId { src, dst, src_port, .. } = inner.id;
    match inner.proto {
        // A ping has one identifier, and the reply the same.
        apply::ICMP if inner.icmp_type == apply::ECHO => {
            FlowId { src: dst, src_port, dst: src, dst_port: 0 }
        }
        apply::ICMP => FlowId { src: dst, dst: src, ..FlowId::default() },
        _ => inner.id.reverse(),
    }
}

/// `new`, with the places that a rewriter of `kind` leaves alone as they are in `old`.
pub(super) fn merged(kind: Kind, direction: usize, old: FlowId, new: FlowId) -> FlowId {
    match kind {
        Kind::Address if direction == FORWARD => FlowId { src: new.src, ..old },
        Kind::Address => FlowId { dst: new.dst, ..old },
        Kind::AddressPair => FlowId { src: new.src, dst: new.dst, ..old },
        Kind::Ip | Kind::Tcp | Kind::Udp | Kind::Ping => new,
    }
}

/// Puts the packet that is quoted in an ICMP error back: replies to it were `old` and become `new`.
fn restore(icmp: &mut [u8], inner: &Shape, old: FlowId, new: FlowId) {
    let (head, quoted) = icmp.split_at_mut(icmp::HEADER_BYTES);
    // Checksums lie at even places, so no change reaches into an odd last byte.
    let bytes = quoted.len().min(QUOTED_BYTES_MAX) & !1;
    let mut before = [0; QUOTED_BYTES_MAX];
    before[..bytes].copy_from_slice(&quoted[..bytes]);

    let mut ip = Ipv4::new_unchecked(&mut *quoted);
    let checksum = update_u32(ip.checksum(), old.dst, new.dst);
    let checksum = update_u32(checksum, old.src, new.src);
    ip.set_src(new.dst());
    ip.set_dst(new.src());
    ip.set_checksum(checksum);
    let l4 = &mut quoted[inner.header_bytes..];
    if inner.has_ports() {
        restore_ports(l4, inner.proto, old, new);
    } else if inner.proto == apply::ICMP && inner.icmp_type == apply::ECHO && inner.is_first {
        let checksum = u16::from_be_bytes([l4[2], l4[3]]);
        let checksum = update_u16(checksum, old.src_port, new.dst_port);
        l4[2..4].copy_from_slice(&checksum.to_be_bytes());
        l4[4..6].copy_from_slice(&new.dst_port.to_be_bytes());
    }

    let checksum = u16::from_be_bytes([head[2], head[3]]);
    let checksum = update_bytes(checksum, &before[..bytes], &quoted[..bytes]);
    head[2..4].copy_from_slice(&checksum.to_be_bytes());
}

fn restore_ports(l4: &mut [u8], proto: u8, old: FlowId, new: FlowId) {
    let mut ports = Udp::new_unchecked(&mut *l4);
    ports.set_src_port(new.dst_port);
    ports.set_dst_port(new.src_port);
    if proto == apply::TCP && l4.len() >= apply::TCP_CHECKSUM_END {
        let mut tcp = Tcp::new_unchecked(l4);
        let checksum = update_u32(tcp.checksum(), old.dst, new.dst);
        let checksum = update_u32(checksum, old.src, new.src);
        let checksum = update_u16(checksum, old.dst_port, new.dst_port);
        tcp.set_checksum(update_u16(checksum, old.src_port, new.src_port));
    } else if proto == apply::UDP {
        let checksum = update_udp_u32(ports_checksum(l4), old.dst, new.dst);
        let checksum = update_udp_u32(checksum, old.src, new.src);
        let checksum = update_udp_u16(checksum, old.dst_port, new.dst_port);
        let checksum = update_udp_u16(checksum, old.src_port, new.src_port);
        Udp::new_unchecked(l4).set_checksum(checksum);
    }
}

fn ports_checksum(l4: &[u8]) -> u16 {
    Udp::new_unchecked(l4).checksum()
}

impl Element for IcmpRewriter {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut maps, mut is_dst_noted) = (Raw(String::new()), true);
        args.read_mp("MAPS", &mut maps).read("DST_ANNO", &mut is_dst_noted);
        read_anno(args, "REPLY_ANNO", &mut self.reply_anno);
        self.is_dst_not_noted = !is_dst_noted;
        args.complete()?;
        for word in split_words(&maps.0) {
            if let Err(message) = self.read_map(&word, context) {
                args.error_at("", &message);
            }
        }
        if self.maps.is_empty() {
            args.error_at("", "no IP rewriters supplied");
        }
        args.complete()
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        let has_offsets = self.maps.iter().any(|map| map.1.is_some());
        for mut packet in batch.drain() {
            match self.rewrite(cx, &mut packet) {
                Ok(output) => cx.emit(output, packet),
                Err(UNKNOWN) if !has_offsets => cx.emit_or_drop(1, packet, UNKNOWN),
                Err(reason) => cx.drop_packet(packet, reason),
            }
        }
        cx.pool().recycle_empty(batch);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Quote, error, lines, run, run_through};

    /// An error about each packet that a rewriter sent is as if about the packet it got.
    #[test]
    fn errors_are_about_the_packet_that_was_sent() {
        let cases = [
            ("IPRewriter(pattern 9.9.9.9 1024-65535# - - 0 0)", "T 1.0.0.1 7 2.0.0.2 80 len=5"),
            ("TCPRewriter(pattern 9.9.9.9 1024-65535# 3.3.3.3 8 0 0)", "T 1.0.0.1 7 2.0.0.2 80"),
            ("IPRewriter(pattern 9.9.9.9 1024-65535# - - 0 0)", "U 1.0.0.1 7 2.0.0.2 53 len=9"),
            ("UDPRewriter(pattern 9.9.9.9 1024# - - 0 0)", "U 1.0.0.1 7 2.0.0.2 53 nosum"),
            ("UDPRewriter(keep 0 0)", "U 1.0.0.1 7 2.0.0.2 53 len=3"),
            ("ICMPPingRewriter(pattern 9.9.9.9 - 100-200# 0 0)", "E 1.0.0.1 7 2.0.0.2 0 len=11"),
            ("IPAddrRewriter(pattern 9.9.9.0/24# - 0 0)", "T 1.0.0.1 7 2.0.0.2 80 len=2"),
            ("IPAddrRewriter(pattern 9.9.9.0/24# - 0 0)", "47 1.0.0.1 7 2.0.0.2 80 len=2"),
            ("IPAddrRewriter(pattern 9.9.9.0/24# - 0 0)", "U 1.0.0.1 7 2.0.0.2 80 frag=64"),
            ("IPAddrPairRewriter(pattern 9.9.9.0/24# 3.3.3.3 0 0)", "U 1.0.0.1 7 2.0.0.2 80"),
        ];
        for (rewriter, words) in cases {
            for quoted_bytes in [28, 29, 38, 40, 60] {
                let config = format!(
                    "f :: TestFeed(0 0 {words}) -> rw :: {rewriter} -> TestQuote(CUT {quoted_bytes})
                    -> ICMPRewriter(rw) -> TestLog(QUOTED true);"
                );
                let rewriter_word = rewriter.split('(').next().expect("a class");
                let config = config.replace("pattern 9.9.9.9 1024# ", "pattern 9.9.9.9 1024 ");
                let said = run(&config);
                let original = Quote::describe_original(words, quoted_bytes);
                let expect = format!("0 I3 5.5.5.5 0 1.0.0.1\n{original}\n");
                assert_eq!(said, expect, "{rewriter_word} {words} {quoted_bytes}");
            }
        }
    }

    #[test]
    fn what_is_unknown_goes_elsewhere() {
        let config = "
            f :: TestFeed(0 0 U 1.0.0.1 7 2.0.0.2 53, 1 1 T 1.0.0.1 7 2.0.0.2 53,
                2 2 E 1.0.0.1 7 2.0.0.2 0, 3 3 U 1.0.0.1 7 2.0.0.2 53);
            f[0] -> rw :: IPRewriter(pattern 9.9.9.9 5 - - 0 0) -> TestQuote
            -> i :: ICMPRewriter(rw) -> [0] log :: TestLog;
            f[1] -> TestQuote -> i; f[2] -> i; i[1] -> [1] log; f[3] -> i;";
        let said = run(config);
        let expect = "0 I3 5.5.5.5 0 1.0.0.1
            1 I3 5.5.5.5 0 1.0.0.1
            1 I8 1.0.0.1 7 2.0.0.2";
        assert_eq!(said.lines().collect::<Vec<_>>(), lines(expect));
    }

    #[test]
    fn offsets_choose_outputs() {
        let config = "
            f :: TestFeed(0 0 U 1.0.0.1 7 2.0.0.2 53)
            -> rw :: IPRewriter(pattern 9.9.9.9 5 - - 0 1);
            rw[0] -> TestQuote -> i :: ICMPRewriter(rw:1); rw[1] -> Idle;
            i[0] -> [0] log :: TestLog; i[1] -> [1] log; i[2] -> [2] log;";
        assert_eq!(run(config), "2 I3 5.5.5.5 0 1.0.0.1\n");
        let wrong = "i :: ICMPRewriter(rw:1 x c rw:y); rw :: IPRewriter(drop); c :: Idle;
            Idle -> rw -> Idle; Idle -> i -> Idle;";
        let expect = [
            "rw:1 port offset requires more than 1 output",
            "x not an IP rewriter",
            "c not an IP rewriter",
            "rw:y not an IP rewriter",
            "no IP rewriters supplied",
        ];
        assert_eq!(error(wrong), expect);
    }

    /// Whatever the bytes, there is no panic and no packet is lost.
    #[test]
    fn any_bytes_pass() {
        run_through(
            "rw :: IPRewriter(keep 0 0); input -> rw -> TestQuote(CUT 60)
            -> ICMPRewriter(rw) -> output",
        );
        // Quoted as they came, right or not.
        run_through(
            "input -> t :: Tee -> a :: IPRewriter(keep 0 0) -> Discard;
            t[1] -> b :: ICMPPingRewriter(keep 0 0) -> Discard;
            t[2] -> TestQuote(CUT 60) -> ICMPRewriter(b a) -> output",
        );
    }
}
