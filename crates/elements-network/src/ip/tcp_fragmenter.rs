//! Splits TCP segments that exceed the MTU of a link.
//!
//! # Synopsis
//! `TCPFragmenter([MTU], MTU_ANNO)`
//!
//! # Ports
//! One input, one output; push.
//!
//! # Configuration
//! - `MTU`: maximum length of a packet from its IPv4 header on, in bytes; at least 68, the minimum
//!   MTU of every link (RFC 791, 3.2). 0: use `MTU_ANNO` only
//! - `MTU_ANNO`: two-byte annotation with the MTU of the packet; 0 means not set, less than 68
//!   means 68. The smaller of `MTU` and the annotation applies. At least one of the two arguments
//!   is required
//!
//! An oversized segment is split in order, like TCP segmentation offload of network cards. Each
//! part repeats the bytes in front of the data. Sequence numbers and identifications increase,
//! `FIN` and `PSH` stay on the last part, `CWR` on the first (RFC 9293, 3.8.1; RFC 3168, 6.1.2),
//! and lengths and checksums are set. All other packets are forwarded unchanged: within the MTU,
//! not TCP, fragments, segments with `SYN`, `RST` or `URG`, truncated packets, and packets whose
//! headers leave less than eight bytes for data. Packets need the network header set.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `fragments` | read | segments created |
//! | `config` | read, write | the arguments |
//!
//! # Drops
//! - `too many segments`: one batch creates at most 65536 segments, about 150 MB; packets beyond
//!   that are dropped. At an MTU of 576, 256 packets of maximum length create half of that
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! ... -> CheckIPHeader -> CheckTCPHeader -> TCPFragmenter(1500) -> ...;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::packet::Header;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::Ipv4;
use warpswitch_wire::tcp::{Tcp, TcpFlags};

use super::support::{ipv4, is_fragment};
use warpswitch_elements_support::Anno;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("TCPFragmenter", "1/1", "h/h", || Box::<TcpFragmenter>::default())
        .live()
        .drops(&["too many segments"]);
const TOO_MANY: usize = 0;

/// The least MTU that a link may have.
const MTU_MIN: u16 = 68;
/// The least data of a segment that packets are cut into.
const DATA_BYTES_MIN: usize = 8;
/// The most segments that the packets of a batch are cut into: all are held until they are handed
/// on.
const SEGMENTS_MAX: usize = 1 << 16;

/// Where the lower eight flags are in a TCP header, and some of them.
const FLAGS_AT: usize = 13;
const FIN: u8 = TcpFlags::FIN.0 as u8;
const PSH: u8 = TcpFlags::PSH.0 as u8;
const CWR: u8 = TcpFlags::CWR.0 as u8;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct TcpFragmenter {
    mtu: u16,
    mtu_anno: Option<usize>,
    fragments: u64,
}

/// Where the parts of a packet are that is to be cut.
#[derive(Clone, Copy)]
struct Cut {
    /// Where its IPv4 header, its TCP header, its data and what is behind them begin.
    ip: usize,
    tcp: usize,
    data: usize,
    end: usize,
    /// Bytes of data in each, at most.
    data_bytes_max: usize,
}

impl TcpFragmenter {
    #[inline]
    fn mtu(&self, packet: &Packet) -> usize {
        let noted = self.mtu_anno.map_or(0, |at| packet.anno_u16(at));
        let noted = if noted > 0 { noted.max(MTU_MIN) } else { 0 };
        usize::from(match (self.mtu, noted) {
            (mtu, 0) => mtu,
            (0, noted) => noted,
            (mtu, noted) => mtu.min(noted),
        })
    }

    /// How `packet`, which is longer than `mtu`, is to be cut; none if it is not.
    fn plan(packet: &Packet, mtu: usize) -> Option<Cut> {
        let ip = packet.header_offset(Header::Network)?;
        let view = ipv4(packet)?;
        let (header_bytes, total_bytes) = (view.header_bytes(), view.total_bytes());
        if view.proto() != IpProto::TCP || is_fragment(&view) || total_bytes <= mtu {
            return None;
        }
        let segment = view.into_inner().get(header_bytes..total_bytes)?;
        let tcp = Tcp::new_checked(segment).ok()?;
        let uncut = [TcpFlags::SYN, TcpFlags::RST, TcpFlags::URG];
        if uncut.into_iter().any(|flag| tcp.flags().contains(flag)) {
            return None;
        }
        let headers_bytes = header_bytes + tcp.header_bytes();
        let data_bytes_max =
            mtu.checked_sub(headers_bytes).filter(|&bytes| bytes >= DATA_BYTES_MIN)?;
        let (tcp, data, end) = (ip + header_bytes, ip + headers_bytes, ip + total_bytes);
        Some(Cut { ip, tcp, data, end, data_bytes_max })
    }

    /// Emits `packet` in segments.
    fn cut(&mut self, cx: &mut Context<'_>, mut packet: Packet, cut: Cut) {
        let mut later = cx.pool().batch();
        let mut start = cut.data + cut.data_bytes_max;
        while start < cut.end {
            let bytes = cut.data_bytes_max.min(cut.end - start);
            let mut segment = cx.pool().packet();
            let (headers, data) = segment.put(cut.data + bytes).split_at_mut(cut.data);
            headers.copy_from_slice(&packet.data()[..cut.data]);
            data.copy_from_slice(&packet.data()[start..start + bytes]);
            if let Some(at) = packet.header_offset(Header::Mac) {
                segment.set_header(Header::Mac, at);
            }
            segment.set_ip_header(cut.ip, cut.tcp - cut.ip);
            *segment.annotations_mut() = *packet.annotations();
            segment.trace_as(&packet);
            segment.set_timestamp_ns(packet.timestamp_ns());
            segment.set_packet_type(packet.packet_type());
            let is_last = start + bytes == cut.end;
            finish(&mut segment, cut, start - cut.data, 1 + later.len(), is_last);
            later.push(segment);
            start += bytes;
        }
        packet.take(packet.len() - cut.data - cut.data_bytes_max);
        finish(&mut packet, cut, 0, 0, false);
        self.fragments += 1 + later.len() as u64;
        cx.emit(0, packet);
        cx.emit_batch(0, later);
    }
}

/// Sets what differs between segments: this is number `idx`, and has the data from byte `from` on.
fn finish(segment: &mut Packet, cut: Cut, from: usize, idx: usize, is_last: bool) {
    let bytes = segment.data_mut();
    let total_bytes = (bytes.len() - cut.ip) as u16;
    let flags = &mut bytes[cut.tcp + FLAGS_AT];
    *flags &= !((if idx > 0 { CWR } else { 0 }) | (if is_last { 0 } else { FIN | PSH }));
    let seq = Tcp::new_unchecked(&bytes[cut.tcp..]).seq().wrapping_add(from as u32);
    bytes[cut.tcp + 4..cut.tcp + 8].copy_from_slice(&seq.to_be_bytes());
    let ip = Ipv4::new_unchecked(&mut bytes[cut.ip..]);
    let id = ip.identification().wrapping_add(idx as u16);
    let pseudo = ip.pseudo_header();
    let header = ip.into_inner();
    header[2..4].copy_from_slice(&total_bytes.to_be_bytes());
    header[4..6].copy_from_slice(&id.to_be_bytes());
    Ipv4::new_unchecked(&mut *header).fill_checksum();
    Tcp::new_unchecked(&mut header[cut.tcp - cut.ip..]).fill_checksum(&pseudo);
}

impl Element for TcpFragmenter {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut anno = None::<Anno<2>>;
        args.read_p("MTU", &mut self.mtu).read("MTU_ANNO", &mut anno);
        self.mtu_anno = anno.map(|anno| anno.0);
        if self.mtu == 0 && self.mtu_anno.is_none() {
            args.error_at("", "At least one of MTU and MTU_ANNO must be set");
        }
        if (1..MTU_MIN).contains(&self.mtu) {
            args.error_at("MTU", &format!("must be at least {MTU_MIN}, or 0 for MTU_ANNO"));
        }
        args.complete()
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        let bytes_of = |packet: &Packet| packet.from_header(Header::Network).len();
        let is_short = |packet: &Packet| {
            let mtu = self.mtu(packet);
            mtu == 0 || bytes_of(packet) <= mtu
        };
        if batch.iter().all(is_short) {
            return cx.emit_batch(0, batch);
        }
        let mut made = 0;
        for packet in batch.drain() {
            let mtu = self.mtu(&packet);
            let Some(cut) = Self::plan(&packet, mtu).filter(|_| mtu > 0) else {
                cx.emit(0, packet);
                continue;
            };
            let count = (cut.end - cut.data).div_ceil(cut.data_bytes_max);
            if made + count > SEGMENTS_MAX {
                cx.drop_packet(packet, TOO_MANY);
                continue;
            }
            made += count;
            self.cut(cx, packet, cut);
        }
        cx.pool().recycle_empty(batch);
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::read("fragments")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.fragments.to_string())
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(Self { fragments: 0, ..self.clone() })
    }

    fn absorb(&mut self, copy: &mut dyn Element) {
        if let Some(copy) = copy.downcast_mut::<Self>() {
            self.fragments += copy.fragments;
        }
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.fragments = old.fragments;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use warpswitch_wire::checksum::PseudoHeader;
    use warpswitch_wire::tcp::TcpRepr;

    use super::super::testing::{Shown, errors, ipv4, run, source};
    use super::*;

    /// A TCP segment in Ethernet.
    fn segment(data: &[u8], flags: TcpFlags, options: &[u8]) -> Vec<u8> {
        let repr = TcpRepr {
            src_port: 1000,
            dst_port: 80,
            seq: u32::MAX - 5,
            ack: 7,
            flags,
            window: 100,
            urgent: 0,
            options,
        };
        let mut tcp = vec![0; repr.header_bytes()];
        repr.emit(&mut Tcp::new_unchecked(&mut tcp[..]));
        tcp.extend_from_slice(data);
        let packet = ipv4(&tcp, |ip| {
            (ip.proto, ip.identification) = (IpProto::TCP, 0xffff);
        });
        [vec![0xee; 14], packet].concat()
    }

    fn through(bytes: &[u8], args: &str, annotate: &str) -> Vec<Shown> {
        let config = format!(
            "{} {annotate} -> MarkIPHeader(14) -> TCPFragmenter({args}) -> Show(0);",
            source(bytes)
        );
        run(&config).0
    }

    proptest! {
        /// Segments put together are the segment that was cut.
        #[test]
        fn segments_put_together_are_the_segment(
            data_bytes in 0usize..4000,
            mtu in 68u16..1600,
            flags in 0u16..0x100,
            words in 0usize..11,
        ) {
            let data: Vec<u8> = (0..data_bytes).map(|at| (at * 7) as u8).collect();
            let (flags, options) = (TcpFlags(flags), vec![1; words * 4]);
            let bytes = segment(&data, flags, &options);
            let shown = through(&bytes, &format!("MTU {mtu}"), "");
            let whole_bytes = bytes.len() - 14;
            let headers_bytes = 40 + options.len();
            let is_cut = whole_bytes > usize::from(mtu)
                && usize::from(mtu) >= headers_bytes + 8
                && flags.0 & (TcpFlags::SYN.0 | TcpFlags::RST.0 | TcpFlags::URG.0) == 0;
            if !is_cut {
                prop_assert_eq!(&shown[0].bytes, &bytes);
                prop_assert_eq!(shown.len(), 1);
                return Ok(());
            }
            let each = usize::from(mtu) - headers_bytes;
            prop_assert_eq!(shown.len(), data.len().div_ceil(each));
            let mut joined = Vec::new();
            for (idx, part) in shown.iter().enumerate() {
                prop_assert_eq!(&part.bytes[..14], &[0xee; 14][..]);
                let ip = Ipv4::new_checked(&part.bytes[14..]).expect("a whole packet");
                prop_assert!(ip.is_checksum_right() && ip.total_bytes() <= usize::from(mtu));
                prop_assert_eq!(ip.total_bytes(), part.bytes.len() - 14);
                prop_assert_eq!(ip.identification(), 0xffffu16.wrapping_add(idx as u16));
                let tcp = Tcp::new_checked(ip.payload()).expect("a whole segment");
                let pseudo = PseudoHeader::V4 { src: ip.src(), dst: ip.dst() };
                prop_assert!(tcp.is_checksum_right(&pseudo));
                prop_assert_eq!(tcp.seq(), (u32::MAX - 5).wrapping_add(joined.len() as u32));
                prop_assert_eq!(tcp.options(), &options[..]);
                let mut expected = flags.0;
                if idx > 0 {
                    expected &= !TcpFlags::CWR.0;
                }
                if idx + 1 < shown.len() {
                    expected &= !(TcpFlags::FIN.0 | TcpFlags::PSH.0);
                }
                prop_assert_eq!(tcp.flags().0, expected);
                joined.extend_from_slice(tcp.payload());
            }
            prop_assert_eq!(joined, data);
        }
    }

    #[test]
    fn the_smaller_of_argument_and_annotation_counts() {
        let bytes = segment(&[5; 100], TcpFlags::ACK, &[]);
        let note = |mtu: u16| {
            let [high, low] = mtu.to_ne_bytes();
            format!("-> SetAnno(20, {high}) -> SetAnno(21, {low})")
        };
        let count = |args: &str, note: &str| through(&bytes, args, note).len();
        assert_eq!(count("MTU_ANNO 20", ""), 1);
        assert_eq!(count("MTU_ANNO 20", &note(90)), 2);
        assert_eq!(count("MTU 80, MTU_ANNO 20", &note(90)), 3);
        assert_eq!(count("MTU 90, MTU_ANNO 20", &note(80)), 3);
        assert_eq!(count("MTU 90, MTU_ANNO 20", ""), 2);
        assert_eq!(count("90", ""), 2);
        // Less than links may have counts as the least of it: 28 bytes of data.
        assert_eq!(count("MTU_ANNO 20", &note(41)), 4);
        assert_eq!(count("MTU_ANNO 20", &note(68)), 4);
    }

    #[test]
    fn what_is_no_whole_segment_passes() {
        let bytes = segment(&[5; 100], TcpFlags::ACK, &[]);
        let edited = |edit: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = bytes.clone();
            edit(&mut bytes);
            bytes
        };
        let cases = [
            edited(&|bytes| bytes[14 + 9] = 17),
            edited(&|bytes| bytes[14 + 6] = 0x20),
            edited(&|bytes| bytes[14 + 7] = 1),
            edited(&|bytes| bytes[14 + 20 + 12] = 0xf0),
            edited(&|bytes| bytes[14 + 20 + 12] = 0x40),
            edited(&|bytes| bytes.truncate(100)),
        ];
        for bytes in cases {
            let shown = through(&bytes, "MTU 70", "");
            assert_eq!(shown.into_iter().map(|s| s.bytes).collect::<Vec<_>>(), [bytes]);
        }
        let padded = edited(&|bytes| bytes.extend([0; 6]));
        let shown = through(&padded, "MTU 139", "");
        assert_eq!(shown.iter().map(|s| s.bytes.len()).collect::<Vec<_>>(), [153, 55]);
        assert_eq!(through(&padded, "MTU 140", "")[0].bytes, padded);
    }

    #[test]
    fn one_of_both_is_needed() {
        let config = "Idle -> TCPFragmenter -> Discard";
        let told = errors(config);
        assert!(told.contains("At least one of MTU and MTU_ANNO must be set"), "{told}");
        for mtu in [1, 45, 67] {
            let told = errors(&format!("Idle -> TCPFragmenter({mtu}) -> Discard"));
            assert!(told.contains("MTU: must be at least 68"), "{told}");
        }
    }

    #[test]
    fn a_batch_is_cut_into_a_bounded_number_of_segments() {
        let bytes = segment(&vec![5; 65_495], TcpFlags::ACK, &[]);
        let source = source(&bytes).replace("LIMIT 1", "LIMIT 40, BURST 40");
        let config = format!(
            "{source} -> MarkIPHeader(14) -> f :: TCPFragmenter(68) -> c :: Counter -> Discard;"
        );
        let (mut router, _) = warpswitch_graph::simulate::run(&config, &crate::registry());
        let mut read = |handler: &str| router.read(handler).expect("it is there");
        // 2340 segments of 28 bytes each; of 40 packets, 12 would be too many.
        assert_eq!(read("c.count"), (28 * 2340).to_string());
        assert_eq!(read("f.fragments"), (28 * 2340).to_string());
    }
}
