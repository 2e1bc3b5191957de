//! Processes IPv4 options as a router: record route and timestamp.
//!
//! # Synopsis
//! `IPGWOptions(MYADDR [, OTHERADDRS])`
//!
//! # Ports
//! One input, one or two outputs; push or pull, output 1 is push. Packets with invalid options are
//! emitted unchanged on output 1 if it is connected. The ICMP pointer annotation then has the
//! offset of the error in the header, for an ICMP parameter problem.
//!
//! # Configuration
//! - `MYADDR`: address to record
//! - `OTHERADDRS`: other addresses of this router, for timestamp options with prespecified
//!   addresses
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `drops` | read | packets with invalid options, also those on output 1 |
//!
//! # Drops
//! - `bad option`: invalid length or pointer, or not enough room for the entry
//! - `no header`: no IPv4 header
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! ... -> gio :: IPGWOptions(10.0.0.1) -> ...;
//! gio[1] -> ICMPError(10.0.0.1, parameterproblem) -> ...;
//! ```
//!
//! # Source
//! RFC 791, 3.1; RFC 1812, 5.3.13. A pointer beyond the end of its option marks a full option; such
//! a packet is forwarded.

use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing,
    Time,
};
use warpswitch_packet::packet::annotation;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::ipv4::{HEADER_BYTES, OPTIONS_BYTES_MAX};

use super::support::{ipv4, ipv4_mut};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("IPGWOptions", "1/1-2", "a/ah", || Box::<IpGwOptions>::default())
        .drops(&["bad option", "no header"]);

/// Reasons for drops, by number.
const BAD_OPTION: usize = 0;
const NO_HEADER: usize = 1;

/// Types of options.
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;

/// Who this router is.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses {
    own: [u8; 4],
    /// All of them.
    all: Vec<[u8; 4]>,
}

impl Addresses {
    pub(super) fn new(own: Ipv4Addr, others: &[Ipv4Addr]) -> Self {
        let all = others.iter().chain([&own]).map(Ipv4Addr::octets).collect();
        Self { own: own.octets(), all }
    }
}

/// What was wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// The byte of the header at this place.
    Option(u8),
    /// There is no header.
    NoHeader,
}

/// Processes the options of the packet. Leaves a packet with an error unchanged.
#[inline]
pub(super) fn handle(packet: &mut Packet, addresses: &Addresses, now: Time) -> Result<(), Wrong> {
    let view = ipv4(packet).ok_or(Wrong::NoHeader)?;
    if view.header_bytes() == HEADER_BYTES {
        return Ok(());
    }
    handle_options(packet, addresses, now)
}

fn handle_options(packet: &mut Packet, addresses: &Addresses, now: Time) -> Result<(), Wrong> {
    let mut view = ipv4_mut(packet).ok_or(Wrong::NoHeader)?;
    let mut options = [0; OPTIONS_BYTES_MAX];
    let len = view.options().len();
    options[..len].copy_from_slice(view.options());
    let wrong = |at: usize| Wrong::Option((HEADER_BYTES + at) as u8);
    let changed = process(&mut options[..len], addresses, now).map_err(wrong)?;
    if changed {
        let bytes = ipv4_mut(packet).ok_or(Wrong::NoHeader)?.into_inner();
        bytes[HEADER_BYTES..HEADER_BYTES + len].copy_from_slice(&options[..len]);
        view = ipv4_mut(packet).ok_or(Wrong::NoHeader)?;
        view.fill_checksum();
    }
    Ok(())
}

/// Processes options in place. Returns whether that changed any, or the position of the first
/// error.
fn process(options: &mut [u8], addresses: &Addresses, now: Time) -> Result<bool, usize> {
    let (mut at, mut has_changed) = (0, false);
    while at < options.len() {
        match options[at] {
            END => break,
            NO_OPERATION => {
                at += 1;
                continue;
            }
            _ => {}
        }
        // Without a length there is nothing behind the option's type that could be pointed to.
        let option_bytes = usize::from(*options.get(at + 1).ok_or(at)?);
        let bytes_min = match options[at] {
            RECORD_ROUTE => 3,
            TIMESTAMP => 4,
            _ => 2,
        };
        let option = options.get_mut(at..at + option_bytes);
        let option = option.filter(|option| option.len() >= bytes_min).ok_or(at + 1)?;
        let done = match option[0] {
            RECORD_ROUTE => record_route(option, addresses.own),
            TIMESTAMP => record_time(option, addresses, now),
            _ => Ok(false),
        };
        has_changed |= done.map_err(|inside| at + inside)?;
        at += option_bytes;
    }
    Ok(has_changed)
}

/// Puts `own` where the pointer of a record route option points.
fn record_route(option: &mut [u8], own: [u8; 4]) -> Result<bool, usize> {
    // The pointer counts from 1.
    let place = usize::from(option[2]).wrapping_sub(1);
    if place >= option.len() && option[2] > 0 {
        return Ok(false);
    }
    if option[2] < 4 || place + 4 > option.len() {
        return Err(2);
    }
    option[place..place + 4].copy_from_slice(&own);
    option[2] += 4;
    Ok(true)
}

/// Puts the time, and perhaps the address, where the pointer of a timestamp option points.
fn record_time(option: &mut [u8], addresses: &Addresses, now: Time) -> Result<bool, usize> {
    const TIMES: u8 = 0;
    const ADDRESSES_AND_TIMES: u8 = 1;
    const GIVEN_ADDRESSES: u8 = 3;
    let place = usize::from(option[2]).wrapping_sub(1);
    let (missed, kind) = (option[3] >> 4, option[3] & 0x0f);
    if option[2] < 5 {
        return Err(2);
    }
    let entry_bytes = match kind {
        TIMES => 4,
        ADDRESSES_AND_TIMES | GIVEN_ADDRESSES => 8,
        _ => return Err(3),
    };
    if place >= option.len() {
        // Full: routers that find no room are counted, unless the addresses were given.
        return match (kind, missed) {
            (GIVEN_ADDRESSES, _) => Ok(false),
            (_, 15) => Err(3),
            _ => {
                option[3] = (missed + 1) << 4 | kind;
                Ok(true)
            }
        };
    }
    let time_ms = (now.0.div_euclid(1_000_000)).rem_euclid(86_400_000) as u32;
    let entry = option.get_mut(place..place + entry_bytes).ok_or(2usize)?;
    match kind {
        ADDRESSES_AND_TIMES => entry[..4].copy_from_slice(&addresses.own),
        GIVEN_ADDRESSES if !addresses.all.iter().any(|own| entry.starts_with(own)) => {
            return Ok(false);
        }
        _ => {}
    }
    entry[entry_bytes - 4..].copy_from_slice(&time_ms.to_be_bytes());
    option[2] += entry_bytes as u8;
    Ok(true)
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct IpGwOptions {
    addresses: Addresses,
    drops: u64,
}

impl Element for IpGwOptions {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut own, mut others) = (Ipv4Addr::UNSPECIFIED, Vec::<Ipv4Addr>::new());
        args.read_mp("MYADDR", &mut own).read_p("OTHERADDRS", &mut others);
        self.addresses = Addresses::new(own, &others);
        args.complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        let now = cx.now();
        cx.sort(batch, |_, packet| match handle(packet, &self.addresses, now) {
            Ok(()) => Fate::Pass,
            Err(Wrong::Option(place)) => {
                self.drops += 1;
                packet.set_anno_u8(annotation::ICMP_POINTER, place);
                Fate::EmitOrDrop(1, BAD_OPTION)
            }
            Err(Wrong::NoHeader) => Fate::Drop(NO_HEADER),
        });
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::read("drops")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.drops.to_string())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.drops = old.drops;
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(Self { drops: 0, ..self.clone() })
    }

    fn absorb(&mut self, copy: &mut dyn Element) {
        if let Some(copy) = copy.downcast_mut::<Self>() {
            self.drops += copy.drops;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{hex, ipv4, run, source, unhex};
    use super::*;

    /// 12:34:56.789 of some day.
    const NOON: Time = Time((20_000 * 86_400 + 45_296) * Time::SECOND + 789_000_000);

    fn check(options: &str, expected: Result<&str, usize>) {
        let addresses = Addresses::new(Ipv4Addr::new(10, 0, 0, 1), &[Ipv4Addr::new(10, 0, 1, 1)]);
        let mut bytes = unhex(options);
        let result = process(&mut bytes, &addresses, NOON).map(|changed| {
            assert_eq!(changed, bytes != unhex(options), "{options}");
            hex(&bytes)
        });
        let expected = expected.map(|text| hex(&unhex(text)));
        assert_eq!(result, expected, "{options}");
    }

    #[test]
    fn routes_are_recorded_while_there_is_room() {
        check("07 0b 04 00000000 00000000 00", Ok("07 0b 08 0a000001 00000000 00"));
        check("01 07 0b 08 01020304 00000000", Ok("01 07 0b 0c 01020304 0a000001"));
        check("07 07 08 01020304 00", Ok("07 07 08 01020304 00"));
        check("07 07 ff 01020304 00", Ok("07 07 ff 01020304 00"));
        check("07 07 05 01020304 00", Err(2));
        check("01 07 07 03 01020304", Err(3));
        check("07 07 00 01020304 00", Err(2));
        check("07 02 00 00", Err(1));
    }

    #[test]
    fn times_are_recorded_as_asked() {
        let ms = hex(&45_296_789u32.to_be_bytes());
        check("440c 05 00 00000000 00000000", Ok(&format!("440c 09 00 {ms} 00000000")));
        check("440c 05 01 00000000 00000000", Ok(&format!("440c 0d 01 0a000001 {ms}")));
        check("440c 05 03 0a000101 00000000", Ok(&format!("440c 0d 03 0a000101 {ms}")));
        check("440c 05 03 0a000102 00000000", Ok("440c 05 03 0a000102 00000000"));
        check("440c 0d 03 0a000101 00000000", Ok("440c 0d 03 0a000101 00000000"));
        check("4408 09 00 00000001", Ok("4408 09 10 00000001"));
        check("4408 09 e1 00000001", Ok("4408 09 f1 00000001"));
        check("4408 09 f0 00000001", Err(3));
        check("4408 06 00 00000001", Err(2));
        check("4408 04 00 00000001", Err(2));
        check("4408 05 02 00000001", Err(3));
        check("4403 05 00", Err(1));
    }

    #[test]
    fn other_options_pass_and_broken_ones_do_not() {
        check("8307 04 01020304 00", Ok("8307 04 01020304 00"));
        check("00 07 01 ff", Ok("00 07 01 ff"));
        check("01010107", Err(3));
        check("83 00 00 00", Err(1));
        check("01 83 04 00", Err(2));
    }

    #[test]
    fn packets_stay_whole_and_wrong_ones_unchanged() {
        let check = |options: &str, label: &str, pointer: u8, options_then: &str| {
            let options = unhex(options);
            let bytes = ipv4(b"data", |repr| repr.options = &options);
            let source = source(&bytes);
            let (shown, _, mut router) = run(&format!(
                "{source} -> CheckIPHeader -> g :: IPGWOptions(10.0.0.1) -> Show(0);
                 g[1] -> Show(1);"
            ));
            assert_eq!((&shown[0].label[..], shown[0].annotations[17]), (label, pointer));
            assert_eq!(shown[0].ipv4().options(), unhex(options_then), "{options:?}");
            assert_eq!(router.read("g.drops"), Ok(label.into()));
        };
        check("07070400 00000000", "0", 0, "0707080a 00000100");
        // The first option could be served, the second is wrong: nothing was done.
        check("07070400 00000007 05040000", "1", 20 + 9, "07070400 00000007 05040000");
    }
}
