//! Rewrites FTP `PORT` commands, and creates the flows of the data connections that they announce.
//!
//! # Synopsis
//! `FTPPortMapper(CONTROL_REWRITER, DATA_REWRITER, DATA_REWRITER_INPUT)`
//!
//! # Ports
//! One input, one output; push or pull. Requires the network header annotation. Place it upstream
//! of `CONTROL_REWRITER`, on packets from clients.
//!
//! # Configuration
//! - `CONTROL_REWRITER`: the `TCPRewriter` or `IPRewriter` that rewrites control connections,
//!   downstream of this element
//! - `DATA_REWRITER`: the rewriter of data connections
//! - `DATA_REWRITER_INPUT`: the input of `DATA_REWRITER` whose input spec creates data flows
//!
//! The address and port in a `PORT` command at the start of a segment are replaced by those that
//! `DATA_REWRITER` assigns to a connection from there to the server's control port minus 1. If that
//! changes the length of the payload, `CONTROL_REWRITER` shifts later sequence numbers. Only
//! control connections that have a flow in `CONTROL_REWRITER` are rewritten; the first packet that
//! passes it creates one.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker, the same as its rewriters.
//!
//! # Example
//! ```text
//! rw :: TCPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop);
//! ftp_from_inside -> FTPPortMapper(rw, rw, 0) -> [0]rw; outside -> [1]rw;
//! ```

use std::io::Write;

use warpswitch_graph::language::FlatGraph;
use warpswitch_graph::language::args::{Args, ArgsError, ElementRef};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass};
use warpswitch_packet::packet::Header;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::checksum::update_u16;
use warpswitch_wire::ipv4::Ipv4;
use warpswitch_wire::tcp::{self, Tcp};

use super::apply::{self, Shape};
use super::flow::{FORWARD, FlowId};
use super::icmp_rewriter::merged;
use super::rewriter::{Rewriter, is_rewriter};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("FTPPortMapper", "1/1", "a/a", || Box::<FtpPortMapper>::default());

/// Bytes of the longest address and port: six numbers and five commas.
const ADDRESS_BYTES_MAX: usize = 6 * 3 + 5;

/// See the module.
#[derive(Debug, Default)]
pub struct FtpPortMapper {
    control: usize,
    data: usize,
    data_input: usize,
}

/// An announcement in a segment.
struct Announced {
    /// The address and port.
    src: u32,
    src_port: u16,
    /// Where their text is, from the start of the payload.
    text: std::ops::Range<usize>,
}

/// Reads `PORT a,b,c,d,p,q` and a line end.
fn read_announcement(payload: &[u8]) -> Option<Announced> {
    let (command, rest) = payload.split_at_checked(5)?;
    if !command.eq_ignore_ascii_case(b"PORT ") {
        return None;
    }
    let start = 5 + rest.iter().position(|&byte| byte != b' ')?;
    let mut numbers = [0u8; 6];
    let mut end = start;
    for (place, number) in numbers.iter_mut().enumerate() {
        if place > 0 {
            end += usize::from(payload.get(end) == Some(&b','));
            if payload[end - 1] != b',' {
                return None;
            }
        }
        while let Some(digit) = payload.get(end).filter(|byte| byte.is_ascii_digit()) {
            *number = number.checked_mul(10)?.checked_add(digit - b'0')?;
            end += 1;
        }
    }
    if !matches!(payload.get(end), Some(b'\r' | b'\n')) {
        return None;
    }
    let [a, b, c, d, p, q] = numbers;
    let (src, src_port) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([p, q]));
    Some(Announced { src, src_port, text: start..end })
}

/// Number of connected inputs.
fn inputs(graph: &FlatGraph, element: usize) -> usize {
    let to = graph.connections.iter().map(|connection| connection.to);
    to.filter(|to| to.element == element).map(|to| to.port + 1).max().unwrap_or(0)
}

impl FtpPortMapper {
    /// What a data connection from `id.src` becomes; its flow is made if there is none.
    fn data_flow(&self, cx: &mut Context<'_>, id: FlowId, reply_anno: u8) -> Option<FlowId> {
        let input = self.data_input;
        let known = cx.with_element(self.data, |rewriter: &mut Rewriter, cx| {
            rewriter.set_reaper(cx);
            rewriter.with_set(cx, |rewriter, set, cx| {
                let (flow, direction) = match rewriter.find(set, apply::TCP, id, false) {
                    Some(found) => found,
                    None => (rewriter.make(cx, set, (apply::TCP, id, input))?, FORWARD),
                };
                let flow = set.flow_mut(flow);
                flow.reply_anno = reply_anno;
                Some(merged(rewriter.kind, direction, id, flow.rewritten(direction)))
            })
        });
        known.flatten().flatten()
    }

    /// What replies of the control connection are annotated with; none if it is not known.
    fn control_anno(&self, cx: &mut Context<'_>, id: FlowId) -> Option<u8> {
        let known = cx.with_element(self.control, |rewriter: &mut Rewriter, cx| {
            rewriter.with_set(cx, |rewriter, set, _| {
                let (flow, _) = rewriter.find(set, apply::TCP, id, false)?;
                Some(set.flow(flow).reply_anno)
            })
        });
        known.flatten().flatten()
    }

    /// From sequence number `from` on, the control connection is longer by `bytes`.
    fn shift_control(&self, cx: &mut Context<'_>, id: FlowId, from: u32, bytes: i32) {
        cx.with_element(self.control, |rewriter: &mut Rewriter, cx| {
            rewriter.with_set(cx, |rewriter, set, _| {
                if let Some((flow, direction)) = rewriter.find(set, apply::TCP, id, false) {
                    let shifts = set.flow_mut(flow).shifts.get_or_insert_default();
                    shifts.add(direction, from, bytes);
                }
            })
        });
    }

    fn map(&self, cx: &mut Context<'_>, packet: &mut Packet) -> Option<()> {
        let bytes = packet.from_header(Header::Network);
        let shape = Shape::read(bytes)?;
        if shape.proto != apply::TCP || !shape.is_first || shape.total_bytes != bytes.len() {
            return None;
        }
        let segment = Tcp::new_checked(&bytes[shape.header_bytes..]).ok()?;
        let (seq, payload_bytes) = (segment.seq(), segment.payload().len());
        let announced = read_announcement(segment.payload())?;
        let start = bytes.len() - payload_bytes;
        let reply_anno = self.control_anno(cx, shape.id)?;
        let Announced { src, src_port, text } = announced;
        let dst_port = shape.id.dst_port.wrapping_sub(1);
        let id = FlowId { src, src_port, dst: shape.id.dst, dst_port };
        let new = self.data_flow(cx, id, reply_anno)?;

        let mut buffer = [0; ADDRESS_BYTES_MAX];
        let ([a, b, c, d], [p, q]) = (new.src.to_be_bytes(), new.src_port.to_be_bytes());
        let mut rest = &mut buffer[..];
        write!(rest, "{a},{b},{c},{d},{p},{q}").ok()?;
        let left = rest.len();
        let new_text = &buffer[..ADDRESS_BYTES_MAX - left];
        let more = new_text.len() as i32 - text.len() as i32;
        u16::try_from(bytes.len() as i32 + more).ok()?;
        replace(packet, start + text.start..start + text.end, new_text);
        fix_lengths(packet.from_header_mut(Header::Network), shape.header_bytes);
        if more != 0 {
            self.shift_control(cx, shape.id, seq.wrapping_add(payload_bytes as u32), more);
        }
        Some(())
    }
}

/// Replaces `range` of a packet, counted from its network header, by `new`.
fn replace(packet: &mut Packet, range: std::ops::Range<usize>, new: &[u8]) {
    let (old_bytes, new_bytes) = (range.len(), new.len());
    if new_bytes > old_bytes {
        packet.put(new_bytes - old_bytes);
    }
    let bytes = packet.from_header_mut(Header::Network);
    let rest = range.end..bytes.len() - new_bytes.saturating_sub(old_bytes);
    bytes.copy_within(rest, range.start + new_bytes);
    bytes[range.start..range.start + new_bytes].copy_from_slice(new);
    packet.take(old_bytes.saturating_sub(new_bytes));
}

/// Puts length and checksums right after the payload changed.
fn fix_lengths(bytes: &mut [u8], header_bytes: usize) {
    let total = bytes.len() as u16;
    let was = u16::from_be_bytes([bytes[2], bytes[3]]);
    bytes[2..4].copy_from_slice(&total.to_be_bytes());
    let mut ip = Ipv4::new_unchecked(&mut *bytes);
    let checksum = update_u16(ip.checksum(), was, total);
    ip.set_checksum(checksum);
    let pseudo = ip.pseudo_header();
    Tcp::new_unchecked(&mut bytes[header_bytes..]).fill_checksum(&pseudo);
}

impl Element for FtpPortMapper {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut control, mut data, mut input) = (ElementRef(0), ElementRef(0), 0i32);
        args.read_mp("CONTROL_REWRITER", &mut control)
            .read_mp("DATA_REWRITER", &mut data)
            .read_mp("DATA_REWRITER_INPUT", &mut input);
        args.complete()?;
        let class = |element: usize| context.graph.elements[element].class.as_str();
        if !matches!(class(control.0), "TCPRewriter" | "IPRewriter") {
            args.error_at("CONTROL_REWRITER", "element type mismatch, expected TCPRewriter");
        }
        if !is_rewriter(class(data.0)) {
            args.error_at("DATA_REWRITER", "element type mismatch, expected IPRewriterBase");
        }
        let inputs = inputs(context.graph, data.0);
        match usize::try_from(input).ok().filter(|&input| input < inputs) {
            Some(input) => self.data_input = input,
            None => args.error_at("", "DATA_REWRITER_INPUT out of range"),
        }
        (self.control, self.data) = (control.0, data.0);
        args.complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            // Packets that announce nothing pass as they are.
            let _: Option<()> = self.map(cx, packet);
        }
    }
}

const _: () = assert!(tcp::HEADER_BYTES >= apply::TCP_CHECKSUM_END);

#[cfg(test)]
mod tests {
    use super::super::testing::{error, lines, run, run_through};
    use super::*;

    #[test]
    fn announcements_are_read() {
        fn read(text: &str) -> Option<(u32, u16, &str)> {
            let found = read_announcement(text.as_bytes())?;
            Some((found.src, found.src_port, &text[found.text]))
        }
        assert_eq!(read("PORT 1,2,3,4,5,6\n"), Some((0x0102_0304, 0x0506, "1,2,3,4,5,6")));
        assert_eq!(read("pOrT   255,0,0,1,255,255\r\nX").map(|found| found.1), Some(65535));
        for wrong in [
            "PORT 1,2,3,4,5,6",
            "PORT 1,2,3,4,5\n",
            "PORT 1,2,3,4,5,6,7\n",
            "PORT 1,2,3,4,5,256\n",
            "PORT\n",
            "PORT ",
            "PORT x\n",
            "PORT 1;2,3,4,5,6\n",
            "PASV 1,2,3,4,5,6\n",
            "",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    /// Text that becomes shorter and, the other way, longer: all later numbers are shifted.
    #[test]
    fn addresses_are_rewritten_and_sequence_numbers_follow() {
        let config = "IPRewriterPatterns(pat 1.0.0.1 1024-65535# - -);
            f :: TestFeed(
                0 0 T 200.200.200.200 30 2.0.0.2 21 seq=0 len=1 paint=2,
                1 0 T 200.200.200.200 30 2.0.0.2 21 seq=1 text=PORT_200;200;200;200;200;200 paint=2,
                2 0 T 200.200.200.200 30 2.0.0.2 21 seq=30 text=fubar paint=2,
                3 0 T 2.0.0.2 21 1.0.0.1 1024 ack=1,
                4 0 T 2.0.0.2 21 1.0.0.1 1024 ack=18,
                5 0 T 2.0.0.2 21 1.0.0.1 1024 ack=24 opt=0101050a0000000100000012,
                6 0 T 200.200.200.200 30 2.0.0.2 21 seq=36 text=PORT_200;200;200;200;200;201,
                7 0 T 200.200.200.200 30 2.0.0.2 21 seq=65 text=fobar,
                8 0 T 2.0.0.2 21 1.0.0.1 1024 seq=0 text=PORT_9;9;9;9;9;9,
                9 0 T 200.200.200.200 30 2.0.0.2 21 seq=71 ack=18,
                10 0 T 2.0.0.2 20 1.0.0.1 1025 text=data,
                11 0 T 9.9.9.9 30 2.0.0.2 21 seq=1 text=PORT_9;9;9;9;9;9)
            -> FTPPortMapper(rw, rw, 0) -> rw :: TCPRewriter(pattern pat 0 0, REPLY_ANNO PAINT)
            -> TestLog(PAYLOAD true);";
        let expect = "0 T 1.0.0.1 1024 2.0.0.2 21 paint 2 0 0 x
            0 T 1.0.0.1 1024 2.0.0.2 21 paint 2 1 0 PORT 1,0,0,1,4,1
            0 T 1.0.0.1 1024 2.0.0.2 21 paint 2 18 0 fubar
            0 T 2.0.0.2 21 200.200.200.200 30 paint 2 0 1
            0 T 2.0.0.2 21 200.200.200.200 30 paint 2 0 30
            0 T 2.0.0.2 21 200.200.200.200 30 paint 2 0 36 0101050a000000010000001e
            0 T 1.0.0.1 1024 2.0.0.2 21 24 0 PORT 1,0,0,1,4,2
            0 T 1.0.0.1 1024 2.0.0.2 21 41 0 fobar
            0 T 2.0.0.2 21 200.200.200.200 30 paint 2 0 0 PORT 1,0,0,1,4,3
            0 T 1.0.0.1 1024 2.0.0.2 21 47 18
            0 T 2.0.0.2 20 200.200.200.200 51400 paint 2 0 0 data
            0 T 1.0.0.1 1028 2.0.0.2 21 1 0 PORT 9,9,9,9,9,9";
        let said = run(config);
        let said: Vec<&str> = said.lines().map(str::trim_end).collect();
        for (said, expect) in said.iter().zip(lines(expect)) {
            assert_eq!(*said, expect);
        }
        assert_eq!(said.len(), 12);
    }

    #[test]
    fn any_bytes_pass_and_wrong_words_do_not() {
        run_through(
            "input -> FTPPortMapper(rw, rw, 0) -> rw :: IPRewriter(pattern 9.9.9.9 - - - 0 0) \
             -> output",
        );
        let wrong = "rw :: UDPRewriter(drop); Idle -> FTPPortMapper(rw, i, 1) -> rw -> i :: Idle;";
        let expect = [
            "CONTROL_REWRITER: element type mismatch, expected TCPRewriter",
            "DATA_REWRITER: element type mismatch, expected IPRewriterBase",
            "DATA_REWRITER_INPUT out of range",
        ];
        assert_eq!(error(wrong), expect);
    }
}
