//! Checks IPv4 headers.
//!
//! # Synopsis
//! `CheckIPHeader([OFFSET], INTERFACES, BADSRC, GOODDST, CHECKSUM, VERBOSE, DETAILS)`,
//! `CheckIPHeader2`, the same without checksum verification,
//! and the old form `CheckIPHeader(BADSRC [, OFFSET])`
//!
//! # Ports
//! One input, one or two outputs; push or pull, output 1 is push. Valid packets are emitted on
//! output 0, with bytes behind the IPv4 total length removed, the network and transport headers
//! set, and the destination annotation set. Invalid packets are emitted on output 1 if it is
//! connected.
//!
//! # Configuration
//! - `OFFSET`: bytes in front of the IPv4 header; default: 0
//! - `INTERFACES`: addresses of this router, with prefixes. The broadcast addresses of the
//!   prefixes, 0.0.0.0 and 255.255.255.255 become bad sources, the addresses themselves good
//!   destinations
//! - `BADSRC`: bad sources, as addresses or prefixes. In the old form addresses only, to which
//!   0.0.0.0 and 255.255.255.255 are added
//! - `GOODDST`: good destinations; packets to these may have a bad source
//! - `CHECKSUM`: verify the header checksum; default: true, for `CheckIPHeader2` false
//! - `VERBOSE`: report every invalid packet, not only the first; default: false
//! - `DETAILS`: enable the handler `drop_details`; default: false
//!
//! `INTERFACES`, `BADSRC` and `GOODDST` may be combined; the sets are merged.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `drops` | read | invalid packets, also those on output 1 |
//! | `drop_details` | read | invalid packets by reason |
//!
//! # Drops
//! - `tiny packet`: shorter than an IPv4 header
//! - `bad IP version`: not 4
//! - `bad IP header length`: less than 20 bytes
//! - `bad IP length`: total length less than the header length, or greater than the packet
//! - `bad IP checksum`: wrong header checksum
//! - `bad source address`: bad source, and the destination is not a good one
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> Strip(14) -> CheckIPHeader(INTERFACES 10.0.0.1/24) -> Discard;
//! ```

use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{
    ArgError, Args, ArgsError, BareIpv4Prefix, FromArg, Ipv4Prefix, Names, split,
};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::{Batch, Column, LentFrames, Packet, annotation, header_word};
use warpswitch_wire::ipv4::{HEADER_BYTES, Ipv4};

use super::support::{Failures, numbers};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("CheckIPHeader", "1/1-2", "a/ah", || Box::new(CheckIpHeader::new(true)))
        .drops(&REASONS);
/// The class that does not look at checksums.
pub static CLASS2: ElementClass =
    ElementClass::new("CheckIPHeader2", "1/1-2", "a/ah", || Box::new(CheckIpHeader::new(false)))
        .drops(&REASONS);

/// Reasons for drops.
pub(super) const REASONS: [&str; 6] = [
    "tiny packet",
    "bad IP version",
    "bad IP header length",
    "bad IP length",
    "bad IP checksum",
    "bad source address",
];
const TINY: usize = 0;
const VERSION: usize = 1;
const HEADER_LENGTH: usize = 2;
const LENGTH: usize = 3;
const CHECKSUM: usize = 4;
const SOURCE: usize = 5;

/// Sources that are not to be believed.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources {
    /// Networks and their masks.
    bad: Vec<(u32, u32)>,
    good_dst: Vec<u32>,
}

impl Sources {
    /// Reads `INTERFACES`, `BADSRC` and `GOODDST`.
    pub(super) fn read(&mut self, args: &mut Args<'_>) {
        let (mut bad, mut interfaces) = (Vec::<BareIpv4Prefix>::new(), Vec::new());
        let mut good = Vec::<Ipv4Addr>::new();
        args.read("INTERFACES", &mut interfaces)
            .read("BADSRC", &mut bad)
            .read("GOODDST", &mut good);
        let network = |prefix: &Ipv4Prefix| (prefix.network().into(), prefix.mask.into());
        self.bad = bad.iter().map(|BareIpv4Prefix(prefix)| network(prefix)).collect();
        self.good_dst = numbers(&good);
        for BareIpv4Prefix(prefix) in &interfaces {
            self.add_hosts(&[u32::from(prefix.network()) | !u32::from(prefix.mask)]);
            self.good_dst.push(prefix.address.into());
        }
        if !interfaces.is_empty() {
            self.add_hosts(&[0, u32::MAX]);
        }
    }

    fn add_hosts(&mut self, addresses: &[u32]) {
        self.bad.extend(addresses.iter().map(|address| (*address, u32::MAX)));
    }

    /// Adds the addresses of the old argument, and those that it means.
    pub(super) fn add_old(&mut self, addresses: &[Ipv4Addr]) {
        self.add_hosts(&numbers(addresses));
        self.add_hosts(&[0, u32::MAX]);
    }

    #[inline]
    fn is_bad(&self, src: u32, dst: u32) -> bool {
        let is_bad = self.bad.iter().any(|(network, mask)| src & mask == *network);
        is_bad && !self.good_dst.contains(&dst)
    }
}

/// Checks the header that is `at` bytes behind the start of the data. If it is good, the packet is
/// cut, its headers and its destination annotation are set; else the number of the reason is given.
#[inline]
pub(super) fn check(
    packet: &mut Packet,
    at: usize,
    has_checksum: bool,
    sources: &Sources,
) -> Result<(), usize> {
    let good = check_bytes(packet.data(), at, has_checksum, sources)?;
    packet.take(good.behind);
    packet.set_ip_header(at, good.header_bytes);
    packet.set_dst_ipv4(good.dst.octets());
    Ok(())
}

/// What a check finds of a good header.
struct Good {
    header_bytes: usize,
    dst: Ipv4Addr,
    /// Bytes behind the end of the packet.
    behind: usize,
}

/// See [`check`].
#[inline(always)]
fn check_bytes(
    data: &[u8],
    at: usize,
    has_checksum: bool,
    sources: &Sources,
) -> Result<Good, usize> {
    let bytes = data.get(at..).filter(|bytes| bytes.len() >= HEADER_BYTES).ok_or(TINY)?;
    let view = Ipv4::new_unchecked(bytes);
    let (header_bytes, total_bytes) = (view.header_bytes(), view.total_bytes());
    if view.version() != 4 {
        return Err(VERSION);
    }
    if header_bytes < HEADER_BYTES {
        return Err(HEADER_LENGTH);
    }
    if total_bytes > bytes.len() || total_bytes < header_bytes {
        return Err(LENGTH);
    }
    if has_checksum && !is_intact(&bytes[..header_bytes]) {
        return Err(CHECKSUM);
    }
    let (dst, behind) = (view.dst(), bytes.len() - total_bytes);
    if sources.is_bad(view.src().into(), dst.into()) {
        return Err(SOURCE);
    }
    Ok(Good { header_bytes, dst, behind })
}

/// The same for headers that are not usual, out of line.
#[cold]
#[inline(never)]
fn check_other(data: &[u8], at: usize, has_checksum: bool, sources: &Sources) -> Option<Good> {
    check_bytes(data, at, has_checksum, sources).ok()
}

/// Whether the checksum of a header is right: a sum of few words, which cannot overflow. It is
/// folded a fixed number of times: a branch on the number of folds that it needs would occasionally
/// be mispredicted.
#[inline]
fn is_intact(header: &[u8]) -> bool {
    let sum_of = |words: &[[u8; 4]]| -> u64 {
        words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum()
    };
    let sum = match header.as_chunks().0 {
        plain @ [_, _, _, _, _] => sum_of(plain),
        words => sum_of(words),
    };
    // At most 15 words of 32 bits: 36 bits, then 33, then 17, then 16.
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    (sum >> 16) + (sum & 0xffff) == 0xffff
}

/// See the module.
#[derive(Clone, Debug)]
pub struct CheckIpHeader {
    offset: u32,
    has_checksum: bool,
    sources: Sources,
    failures: Failures,
    /// Of a batch whose packets nobody has looked at: destinations and header words.
    columns: HeaderColumns,
    /// Batches of which each packet is looked at, as one had a bad header.
    one_by_one: u32,
}

/// What a check finds of the packets of a batch.
#[derive(Clone, Debug, Default)]
struct HeaderColumns {
    destinations: Vec<u32>,
    headers: Vec<u32>,
}

impl HeaderColumns {
    /// Checks the headers that are `at` bytes behind the start of `frames`: whether all
    /// [header words](header_word) are the same; `None` if a header is not good.
    ///
    /// `is_good` checks what the configuration wants of a header without options whose lengths are
    /// good, `others` checks the frames of all other headers.
    #[inline(always)]
    fn fill<'f>(
        &mut self,
        frames: impl ExactSizeIterator<Item = &'f [u8]>,
        at: usize,
        is_good: impl Fn(&[u8; HEADER_BYTES]) -> bool,
        others: impl Fn(&[u8]) -> Option<Good>,
    ) -> Option<bool> {
        let count = frames.len();
        self.destinations.resize(count, 0);
        self.headers.resize(count, 0);
        let (mut differs, mut first) = (0, None);
        let columns = self.destinations.iter_mut().zip(&mut self.headers);
        for ((destination, header), frame) in columns.zip(frames) {
            let good = match usual(frame, at, &is_good) {
                Some(good) => good,
                None => others(frame)?,
            };
            *destination = u32::from_ne_bytes(good.dst.octets());
            *header = header_word(good.header_bytes as u8, good.behind as u32);
            differs |= *header ^ *first.get_or_insert(*header);
        }
        Some(differs == 0)
    }
}

/// What [`check_bytes`] finds of a good header without options; `None` for any other one.
#[inline(always)]
fn usual(data: &[u8], at: usize, is_good: impl Fn(&[u8; HEADER_BYTES]) -> bool) -> Option<Good> {
    let bytes = data.get(at..)?;
    let head: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
    let total_bytes = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let behind = bytes.len().wrapping_sub(total_bytes);
    let is_usual = head[0] == 0x45 && total_bytes >= HEADER_BYTES && behind <= bytes.len();
    let dst = Ipv4Addr::from_octets([head[16], head[17], head[18], head[19]]);
    (is_usual && is_good(head)).then_some(Good { header_bytes: HEADER_BYTES, dst, behind })
}

/// Batches that are checked packet by packet behind one with a bad header.
const ONE_BY_ONE: u32 = 16;

/// Addresses between spaces, or a number of bytes: what may stand without a keyword.
fn old_arguments(
    rest: &[String],
    names: &dyn Names,
) -> Result<(Option<Vec<Ipv4Addr>>, Option<u32>), ArgError> {
    let offset = |text: &str| u32::from_arg(text, names);
    let addresses = |text: &str| -> Result<Vec<Ipv4Addr>, ArgError> {
        let words = split::split_words(text);
        words.iter().map(|word| Ipv4Addr::from_arg(word, names)).collect()
    };
    Ok(match rest {
        [] => (None, None),
        [one] => match offset(one) {
            Ok(bytes) => (None, Some(bytes)),
            Err(_) => (Some(addresses(one)?), None),
        },
        [first, second] => (Some(addresses(first)?), Some(offset(second)?)),
        _ => return Err(ArgError::new("too many arguments")),
    })
}

impl CheckIpHeader {
    fn new(has_checksum: bool) -> Self {
        let (sources, failures, columns) = Default::default();
        Self { offset: 0, has_checksum, sources, failures, columns, one_by_one: 0 }
    }

    /// Checks frames shared with a batch whose packets have not been accessed yet, and attaches the
    /// results to the batch as columns. Returns false, and leaves the batch unchanged, if a frame
    /// is bad.
    fn check_frames(&mut self, batch: &mut Batch) -> bool {
        let at = self.offset as usize;
        let Self { has_checksum, sources, columns, .. } = self;
        let others = |frame: &[u8]| check_other(frame, at, *has_checksum, sources);
        // Without bad sources to compare, a separate loop keeps all its values in registers.
        let are_alike = match (batch.lent_frames(), *has_checksum) {
            (None, _) => None,
            (Some(frames), has_checksum) if !sources.bad.is_empty() => {
                let is_good = |head: &[u8; HEADER_BYTES]| {
                    let view = Ipv4::new_unchecked(head);
                    let is_bad = sources.is_bad(view.src().into(), view.dst().into());
                    !is_bad && (!has_checksum || is_intact(head))
                };
                columns.fill(frames, at, is_good, others)
            }
            (Some(LentFrames::Span(frames)), true) => {
                columns.fill(frames, at, |head| is_intact(head), others)
            }
            (Some(LentFrames::Span(frames)), false) => columns.fill(frames, at, |_| true, others),
            (Some(frames), has_checksum) => {
                columns.fill(frames, at, |head| !has_checksum || is_intact(head), others)
            }
        };
        let Some(are_alike) = are_alike else { return false };
        let headers = match columns.headers.first() {
            Some(&first) if are_alike => Column::All(first),
            _ => Column::Each(&columns.headers),
        };
        batch.set_ip_headers(self.offset, headers);
        batch.set_annos(annotation::DST, Column::Each(&columns.destinations));
        true
    }
}

impl Element for CheckIpHeader {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        self.sources.read(args);
        args.read("OFFSET", &mut self.offset)
            .read("VERBOSE", &mut self.failures.verbose)
            .read("DETAILS", &mut self.failures.details)
            .read("CHECKSUM", &mut self.has_checksum);
        let rest = args.rest();
        match old_arguments(&rest, context.names) {
            Ok((addresses, offset)) => {
                addresses.iter().for_each(|addresses| self.sources.add_old(addresses));
                self.offset = offset.unwrap_or(self.offset);
            }
            // What has a space behind a word in capitals was meant to have a keyword.
            Err(ArgError::Parse) => match rest[0].split_once(char::is_whitespace) {
                Some((word, _)) if word.bytes().all(|b| b.is_ascii_uppercase()) => {
                    args.error_at(word, "unknown argument");
                }
                _ => args.error_at("BADSRC", "parse error"),
            },
            Err(ArgError::Message(message)) => args.error_at("", &message),
        }
        args.complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        if self.one_by_one > 0 {
            self.one_by_one -= 1;
        } else if batch.lent_frames().is_some() {
            if self.check_frames(batch) {
                return;
            }
            self.one_by_one = ONE_BY_ONE;
        }
        let at = self.offset as usize;
        cx.sort(batch, |cx, packet| match check(packet, at, self.has_checksum, &self.sources) {
            Ok(()) => Fate::Pass,
            Err(reason) => self.failures.fail(cx, reason, |cx| {
                format!("{}: IP header check failed: {}", cx.name(), REASONS[reason])
            }),
        });
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        self.failures.handlers()
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.failures.read(name, &REASONS))
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.failures.take(&old.failures);
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(Self { failures: self.failures.fresh(), ..self.clone() })
    }

    fn absorb(&mut self, copy: &mut dyn Element) {
        if let Some(copy) = copy.downcast_mut::<Self>() {
            self.failures.absorb(&copy.failures);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ipv4, run, source, through};
    use super::*;

    fn reason_of(bytes: &[u8], arguments: &str) -> &'static str {
        let source = source(bytes);
        let (shown, said, mut router) = run(&format!(
            "{source} -> c :: CheckIPHeader({arguments}) -> Show(0); c[1] -> Show(1);"
        ));
        assert_eq!(shown.len(), 1);
        if shown[0].label == "0" {
            return "good";
        }
        let details = router.read("c.drop_details").expect("asked for");
        let reason = REASONS.iter().find(|reason| details.contains(&format!("1\t{reason}\n")));
        let reason = reason.expect("a bad packet has a reason");
        assert_eq!(said, [format!("c: IP header check failed: {reason}")]);
        assert_eq!(router.read("c.drops"), Ok("1".into()));
        assert_eq!(shown[0].bytes, bytes, "a bad packet stays what it is");
        reason
    }

    #[test]
    fn every_wrong_is_named() {
        let good = ipv4(b"payload!", |_| {});
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            bytes
        };
        let check = |bytes: &[u8], reason: &str| {
            assert_eq!(reason_of(bytes, "DETAILS true"), reason, "{bytes:?}");
        };
        check(&good, "good");
        check(&good[..19], "tiny packet");
        check(&with(0, 0x65), "bad IP version");
        check(&with(0, 0x44), "bad IP header length");
        check(&with(0, 0x4f), "bad IP length");
        check(&with(3, 19), "bad IP length");
        check(&good[..27], "bad IP length");
        check(&with(8, 9), "bad IP checksum");
        assert_eq!(reason_of(&with(8, 9), "CHECKSUM false, DETAILS true"), "good");
        assert!(through(&with(8, 9), "CheckIPHeader2").is_some());
    }

    #[test]
    fn sums_are_what_they_are_elsewhere() {
        let mut state = 9u32;
        for words in 5..=15 {
            for _ in 0..200 {
                let options: Vec<u8> = (20..words * 4)
                    .map(|_| {
                        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        (state >> 24) as u8
                    })
                    .collect();
                let mut bytes = ipv4(b"", |repr| {
                    (repr.options, repr.identification) = (&options, state as u16);
                });
                assert!(is_intact(&bytes));
                bytes[state as usize % (words * 4)] ^= 1 << (state % 8);
                assert!(!is_intact(&bytes));
            }
        }
        assert!(!is_intact(&[0; 20]), "all zero is not a header");
    }

    #[test]
    fn padding_goes_and_the_destination_is_noted() {
        let mut framed = vec![0xee; 14];
        framed.extend(ipv4(b"abc", |repr| repr.dst = Ipv4Addr::new(10, 1, 2, 3)));
        framed.extend([0; 23]);
        let shown = through(&framed, "CheckIPHeader(14)").expect("a good packet");
        assert_eq!(shown.bytes, framed[..14 + 23]);
        assert_eq!(shown.dst(), Ipv4Addr::new(10, 1, 2, 3));
    }

    #[test]
    fn sources_are_bad_except_to_us() {
        let from = |src: [u8; 4], dst: [u8; 4]| {
            ipv4(b"", |repr| (repr.src, repr.dst) = (src.into(), dst.into()))
        };
        let other = [9, 9, 9, 9];
        let check = |arguments: &str, src: [u8; 4], dst: [u8; 4], is_good: bool| {
            let arguments = format!("{arguments}, DETAILS true");
            let expected = if is_good { "good" } else { "bad source address" };
            assert_eq!(reason_of(&from(src, dst), &arguments), expected, "{arguments} {src:?}");
        };
        let interfaces = "INTERFACES 18.26.4.9/24 18.32.9.44/28";
        check(interfaces, [18, 26, 4, 255], other, false);
        check(interfaces, [18, 32, 9, 47], other, false);
        check(interfaces, [0, 0, 0, 0], other, false);
        check(interfaces, [255; 4], other, false);
        check(interfaces, [255; 4], [18, 32, 9, 44], true);
        check(interfaces, [18, 26, 4, 254], other, true);
        check("BADSRC 1.2.3.4 1.2.3.5", [1, 2, 3, 5], other, false);
        check("BADSRC 1.2.3.4", [0; 4], other, true);
        check("BADSRC 1.2.3.4/16 224.0.0.0/3", [1, 2, 255, 5], other, false);
        check("BADSRC 1.2.3.4/16 224.0.0.0/3", [239, 1, 2, 3], other, false);
        check("BADSRC 1.2.3.4/16 224.0.0.0/3", [1, 3, 3, 4], other, true);
        check("BADSRC 1.2.3.4, GOODDST 9.9.9.9", [1, 2, 3, 4], other, true);
        check("1.2.3.4 1.2.3.5, 0", [0; 4], other, false);
        check("1.2.3.4", [1, 2, 3, 4], other, false);
    }

    #[test]
    fn wrong_arguments_are_told() {
        let check = |arguments: &str, message: &str| {
            let config = format!("Idle -> CheckIPHeader({arguments}) -> Discard;");
            let errors = warpswitch_graph::simulate::router(&config, &crate::registry());
            let errors = errors.map(|_| ()).expect_err("it is wrong").to_click();
            assert!(errors.contains(message), "{errors}");
        };
        check("CHECKSUM maybe", "CHECKSUM: parse error");
        check("SPEED 5", "SPEED: unknown argument");
        check("1.2.3.4, 14, 15", "too many arguments");
        check("1.2.3", "BADSRC: parse error");
    }
}
