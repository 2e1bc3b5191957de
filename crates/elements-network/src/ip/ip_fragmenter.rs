//! Fragments IPv4 packets that exceed the MTU of a link.
//!
//! # Synopsis
//! `IPFragmenter(MTU [, HONOR_DF, VERBOSE], HEADROOM)`
//!
//! # Ports
//! One input, one or two outputs; push. Packets within the MTU, and fragments in order, are emitted
//! on output 0. Oversized packets that cannot be fragmented are emitted on output 1 if it is
//! connected.
//!
//! # Configuration
//! - `MTU`: maximum length of a packet from its IPv4 header on, in bytes; at least 8
//! - `HONOR_DF`: do not fragment packets with the don't-fragment flag; default: true. If false,
//!   these are fragmented with a random identification
//! - `VERBOSE`: report every packet that cannot be fragmented, not only the first five; default:
//!   false
//! - `HEADROOM`: minimum headroom of fragments after the first, in bytes; default: 64
//!
//! Only the first fragment contains the bytes in front of the IPv4 header. All fragments have the
//! annotations of the packet, and the options with the copy flag.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `drops` | read | packets that were not fragmented, also those on output 1 |
//! | `fragments` | read | fragments created |
//!
//! # Drops
//! - `not cut`: oversized, and don't-fragment is set or the MTU leaves no room for data
//! - `bad length`: oversized, with a truncated header or a wrong length
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! ... -> fr :: IPFragmenter(1500) -> ...;
//! fr[1] -> ICMPError(10.0.0.1, unreachable, needfrag) -> ...;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing, gso,
};
use warpswitch_packet::packet::{HEADROOM_BYTES, Header, PACKET_BYTES_MAX};
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::ipv4::{HEADER_BYTES, Ipv4, OPTIONS_BYTES_MAX};

use super::support::{get_u16, ipv4, ipv4_mut};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("IPFragmenter", "1/1-2", "h/h", || Box::new(IpFragmenter::new()))
        .drops(&["not cut", "bad length"]);

/// Reasons for drops, by number.
const NOT_CUT: usize = 0;
const BAD_LENGTH: usize = 1;
/// Maximum number of packets reported as not cut.
const TOLD_MAX: u64 = 5;

const MORE_FRAGMENTS: u16 = 0x2000;
const DONT_FRAGMENT: u16 = 0x4000;
const OFFSET_MASK: u16 = 0x1fff;

/// The options of the fragments behind the first.
#[derive(Debug)]
struct CopiedOptions {
    bytes: [u8; OPTIONS_BYTES_MAX],
    len: usize,
}

impl CopiedOptions {
    /// Those of `options` with the copied flag, padded to whole words.
    fn of(options: &[u8]) -> Self {
        let mut copied = Self { bytes: [0; OPTIONS_BYTES_MAX], len: 0 };
        let mut rest = options;
        while let Some(&kind) = rest.first() {
            let option_bytes = match kind {
                0 => break,
                1 => 1,
                _ => rest.get(1).map_or(0, |&bytes| usize::from(bytes)),
            };
            let Some(option) = rest.get(..option_bytes).filter(|option| !option.is_empty()) else {
                break;
            };
            if kind != 1 && option_bytes < 2 {
                break;
            }
            if kind & 0x80 != 0 {
                copied.bytes[copied.len..copied.len + option_bytes].copy_from_slice(option);
                copied.len += option_bytes;
            }
            rest = &rest[option_bytes..];
        }
        copied.len = copied.len.next_multiple_of(4);
        copied
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct IpFragmenter {
    mtu: u32,
    honor_df: bool,
    verbose: bool,
    headroom: u32,
    drops: u64,
    fragments: u64,
}

impl IpFragmenter {
    fn new() -> Self {
        let headroom = HEADROOM_BYTES as u32;
        Self { mtu: 0, honor_df: true, verbose: false, headroom, drops: 0, fragments: 0 }
    }

    fn cannot_cut(&mut self, cx: &mut Context<'_>, packet: Packet) {
        if self.verbose || self.drops < TOLD_MAX {
            let (src, dst) = ipv4(&packet)
                .map_or(([0; 4].into(), [0; 4].into()), |view| (view.src(), view.dst()));
            cx.say(&format!("IPFragmenter({}) DF {src} {dst} len={}", self.mtu, packet.len()));
        }
        self.drops += 1;
        cx.emit_or_drop(1, packet, NOT_CUT);
    }

    /// Emits `packet`, in fragments if it is too long.
    fn emit(&mut self, cx: &mut Context<'_>, mut packet: Packet) {
        let at = packet.header_offset(Header::Network).unwrap_or(0);
        let mtu = self.mtu as usize;
        let Some(view) = ipv4(&packet) else { return cx.drop_packet(packet, BAD_LENGTH) };
        let (header_bytes, total_bytes) = (view.header_bytes(), view.total_bytes());
        let flags = get_u16(view.into_inner(), 6);
        let padding_bytes = (packet.len() - at).checked_sub(total_bytes);
        let Some(padding_bytes) = padding_bytes.filter(|_| total_bytes >= header_bytes) else {
            return cx.drop_packet(packet, BAD_LENGTH);
        };
        packet.take(padding_bytes);
        if total_bytes <= mtu {
            return cx.emit(0, packet);
        }
        let cannot_be_cut = flags & DONT_FRAGMENT != 0 && self.honor_df;
        if packet.has_gso() && !cannot_be_cut {
            let mut segments = Vec::new();
            gso::complete(cx.pool(), packet, |_, segment| segments.push(segment));
            return segments.into_iter().for_each(|segment| self.emit(cx, segment));
        }
        let first_bytes = mtu.saturating_sub(header_bytes) & !7;
        if cannot_be_cut || first_bytes < 8 {
            return self.cannot_cut(cx, packet);
        }
        let id = if flags & DONT_FRAGMENT != 0 { Some(cx.random() as u16) } else { None };
        let flags = flags & !DONT_FRAGMENT;
        self.cut(cx, packet, at, first_bytes, flags, id);
    }

    /// Emits `packet`, whose header is `at` bytes behind its start, with `first_bytes` of its data
    /// and then with the rest.
    fn cut(
        &mut self,
        cx: &mut Context<'_>,
        mut packet: Packet,
        at: usize,
        first_bytes: usize,
        flags: u16,
        id: Option<u16>,
    ) {
        let Some(view) = ipv4_mut(&mut packet) else { return };
        let header_bytes = view.header_bytes();
        let copied = CopiedOptions::of(view.options());
        let bytes = view.into_inner();
        if let Some(id) = id {
            bytes[4..6].copy_from_slice(&id.to_be_bytes());
        }
        let mut header = [0; HEADER_BYTES + OPTIONS_BYTES_MAX];
        header[..HEADER_BYTES].copy_from_slice(&bytes[..HEADER_BYTES]);
        let later_header_bytes = HEADER_BYTES + copied.len;
        header[0] = 0x40 | (later_header_bytes / 4) as u8;
        header[HEADER_BYTES..later_header_bytes].copy_from_slice(&copied.bytes[..copied.len]);
        write_fragment(bytes, header_bytes + first_bytes, flags | MORE_FRAGMENTS);

        // The others are made before the first is cut and leaves.
        let mut later = cx.pool().batch();
        let data_bytes = bytes.len() - header_bytes;
        let most_bytes = (self.mtu as usize - later_header_bytes) & !7;
        let mut start = first_bytes;
        while start < data_bytes {
            let bytes = most_bytes.min(data_bytes - start);
            let is_last = start + bytes == data_bytes;
            let more = if is_last { 0 } else { MORE_FRAGMENTS };
            let mut fragment = cx.pool().packet();
            self.make_headroom(&mut fragment);
            let data = at + header_bytes + start;
            fragment.put(later_header_bytes + bytes);
            let target = fragment.data_mut();
            target[..later_header_bytes].copy_from_slice(&header[..later_header_bytes]);
            target[later_header_bytes..].copy_from_slice(&packet.data()[data..data + bytes]);
            let offset = (flags & OFFSET_MASK).wrapping_add((start / 8) as u16) & OFFSET_MASK;
            let flags_and_offset = flags & !OFFSET_MASK | more | offset;
            write_fragment(target, later_header_bytes + bytes, flags_and_offset);
            fragment.set_ip_header(0, later_header_bytes);
            *fragment.annotations_mut() = *packet.annotations();
            fragment.trace_as(&packet);
            fragment.set_timestamp_ns(packet.timestamp_ns());
            fragment.set_packet_type(packet.packet_type());
            later.push(fragment);
            start += bytes;
        }
        self.fragments += 1 + later.len() as u64;
        packet.take(data_bytes - first_bytes);
        cx.emit(0, packet);
        cx.emit_batch(0, later);
    }

    fn make_headroom(&self, packet: &mut Packet) {
        if self.headroom as usize > packet.headroom() {
            packet.grow(self.headroom as usize, packet.tailroom());
        }
    }
}

/// Writes what differs between fragments.
fn write_fragment(bytes: &mut [u8], total_bytes: usize, flags_and_offset: u16) {
    bytes[2..4].copy_from_slice(&(total_bytes as u16).to_be_bytes());
    bytes[6..8].copy_from_slice(&flags_and_offset.to_be_bytes());
    Ipv4::new_unchecked(bytes).fill_checksum();
}

impl Element for IpFragmenter {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("MTU", &mut self.mtu)
            .read_p("HONOR_DF", &mut self.honor_df)
            .read_p("VERBOSE", &mut self.verbose)
            .read("HEADROOM", &mut self.headroom);
        if self.mtu < 8 {
            args.error_at("", "MTU must be at least 8");
        }
        if self.headroom as usize > PACKET_BYTES_MAX / 2 {
            args.error_at("HEADROOM", "more bytes than a packet has");
        }
        args.complete()
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        let mtu = self.mtu as usize;
        let bytes_of = |packet: &Packet| match packet.header_offset(Header::Network) {
            Some(at) => gso::longest_bytes(packet) - at,
            None => 0,
        };
        if batch.iter().all(|packet| bytes_of(packet) <= mtu) {
            return cx.emit_batch(0, batch);
        }
        for packet in batch.drain() {
            if bytes_of(&packet) <= mtu {
                cx.emit(0, packet);
            } else {
                self.emit(cx, packet);
            }
        }
        cx.pool().recycle_empty(batch);
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::read("drops"), HandlerSpec::read("fragments")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(if name == "drops" { self.drops.to_string() } else { self.fragments.to_string() })
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            (self.drops, self.fragments) = (old.drops, old.fragments);
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(Self { drops: 0, fragments: 0, ..self.clone() })
    }

    fn absorb(&mut self, copy: &mut dyn Element) {
        if let Some(copy) = copy.downcast_mut::<Self>() {
            self.drops += copy.drops;
            self.fragments += copy.fragments;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Shown, hex, ipv4, run, source, unhex};

    /// Returns the output packets for an input packet of `bytes`.
    fn cut(bytes: &[u8], arguments: &str) -> Vec<Shown> {
        let source = source(bytes);
        let config = format!(
            "{source} -> MarkIPHeader -> f :: IPFragmenter({arguments}) -> Show(0);
             f[1] -> Show(1);"
        );
        let (shown, _, mut router) = run(&config);
        let fragments = if shown.len() > 1 { shown.len() } else { 0 };
        assert_eq!(router.read("f.fragments"), Ok(fragments.to_string()));
        let drops = shown.iter().filter(|shown| shown.label == "1").count();
        assert_eq!(router.read("f.drops"), Ok(drops.to_string()));
        shown
    }

    #[test]
    fn fragments_put_together_are_the_packet() {
        let payload: Vec<u8> = (0..=255).cycle().take(3000).collect();
        for mtu in [28, 29, 35, 36, 576, 1499, 1500, 3019] {
            for (offset, more) in [(0, false), (7, true), (100, false)] {
                let bytes = ipv4(&payload, |repr| {
                    (repr.fragment_offset, repr.more_fragments) = (offset, more);
                });
                let fragments = cut(&bytes, &mtu.to_string());
                let mut data = Vec::new();
                for (idx, fragment) in fragments.iter().enumerate() {
                    let view = fragment.ipv4();
                    assert!(fragment.bytes.len() <= mtu);
                    assert_eq!(view.fragment_offset(), offset + (data.len() / 8) as u16);
                    assert_eq!(view.more_fragments(), more || idx + 1 < fragments.len());
                    data.extend_from_slice(view.payload());
                }
                assert_eq!(data, payload, "{mtu}");
            }
        }
    }

    #[test]
    fn what_fits_stays_as_it_is_and_padding_goes() {
        let bytes = ipv4(&[1; 80], |repr| repr.dont_fragment = true);
        assert_eq!(cut(&bytes, "100")[0].bytes, bytes);
        let mut padded = bytes.clone();
        padded.extend([0; 9]);
        let shown = cut(&padded, "100");
        assert_eq!((&shown[0].label[..], &shown[0].bytes), ("0", &bytes));
        // A total length larger than the packet.
        assert_eq!(cut(&bytes[..99], "50"), []);
    }

    #[test]
    fn packets_that_must_not_be_cut_leave_whole() {
        let bytes = ipv4(&[1; 80], |repr| repr.dont_fragment = true);
        let shown = cut(&bytes, "99");
        assert_eq!((shown.len(), &shown[0].label[..], &shown[0].bytes), (1, "1", &bytes));
        let shown = cut(&bytes, "99, HONOR_DF false");
        assert_eq!(shown.len(), 2);
        assert!(shown.iter().all(|shown| !shown.ipv4().dont_fragment()));
        let ids = shown.iter().map(|shown| shown.ipv4().identification());
        assert!(ids.clone().all(|id| id == ids.clone().next().expect("two")));
        // No room for eight bytes of data.
        let shown = cut(&ipv4(&[1; 80], |_| {}), "27");
        assert_eq!((shown.len(), &shown[0].label[..]), (1, "1"));
    }

    #[test]
    fn options_are_copied_that_ask_for_it() {
        let check = |options: &str, copied: &str| {
            let options = unhex(options);
            let bytes = ipv4(&[1; 80], |repr| repr.options = &options);
            let shown = cut(&bytes, "80");
            assert_eq!(shown[0].ipv4().options(), options);
            assert!(shown.len() > 1);
            for later in &shown[1..] {
                assert_eq!(hex(later.ipv4().options()), copied, "{options:?}");
            }
        };
        check("01010000", "");
        check("07070400 00000000", "");
        check("83070401 02030400", "8307040102030400");
        check("01070704 00000000 83070401 02030488 04123400", "830704010203048804123400");
        check("82000000", "");
        check("01018203", "");
        check("8201ffff", "");
    }

    #[test]
    fn what_is_in_front_stays_with_the_first() {
        let mut framed = vec![0xee; 14];
        framed.extend(ipv4(&[1; 80], |_| {}));
        let source = source(&framed);
        let (shown, ..) =
            run(&format!("{source} -> MarkIPHeader(14) -> IPFragmenter(60) -> Show(0);"));
        assert_eq!(shown.iter().map(|s| s.bytes.len()).collect::<Vec<_>>(), [14 + 60, 60]);
        assert_eq!(shown[0].bytes[..14], [0xee; 14]);
        assert_eq!(shown[1].ipv4().fragment_offset(), 5);
    }
}
