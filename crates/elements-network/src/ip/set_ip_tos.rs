//! Sets DSCP and ECN in the IPv4 header.
//!
//! # Synopsis
//! `SetIPDSCP(DSCP)`, `SetIPECN(ECN)`, `MarkIPCE([FORCE])`
//!
//! # Ports
//! One input, one output; push or pull. The header checksum is updated.
//!
//! # Configuration
//! - `DSCP`: 0 to 63
//! - `ECN`: 0 to 3, or `no` (also `-`), `ect1` (`ECT(1)`), `ect2` (`ECT(0)`), `ce` (`CE`)
//! - `FORCE`: `MarkIPCE` also marks packets that are not ECN-capable; default: false, which drops
//!   them
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `dscp` | read, write | `SetIPDSCP`: as the argument |
//! | `ecn` | read, write | `SetIPECN`: as the argument |
//! | `drops` | read | `MarkIPCE`: packets |
//! | `config` | read, write | `SetIPDSCP`, `SetIPECN`: the arguments |
//!
//! # Drops
//! - `no header`: no IPv4 header
//! - `not ECT`: `MarkIPCE`: the packet is not ECN-capable
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! ... -> CheckIPHeader -> SetIPDSCP(46) -> ...;
//! ```

use warpswitch_graph::language::args::{ArgError, Args, ArgsError, FromArg, Names};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::{Batch, Packet};

use super::support::{get_u16, ipv4_mut, set_word};
use warpswitch_elements_support::format::parse_seen;

/// The class `SetIPDSCP`.
pub static DSCP: ElementClass =
    ElementClass::new("SetIPDSCP", "1/1", "a/a", || Box::<SetIpDscp>::default())
        .live()
        .drops(&["no header"]);
/// The class `SetIPECN`.
pub static ECN: ElementClass =
    ElementClass::new("SetIPECN", "1/1", "a/a", || Box::<SetIpEcn>::default())
        .live()
        .drops(&["no header"]);
/// The class `MarkIPCE`.
pub static CE: ElementClass =
    ElementClass::new("MarkIPCE", "1/1", "a/a", || Box::<MarkIpCe>::default())
        .drops(&["no header", "not ECT"]);

/// Reasons for drops, by number.
const NO_HEADER: usize = 0;
const NOT_ECT: usize = 1;

/// The two ECN bits of the codepoint "congestion experienced".
const CONGESTION: u8 = 3;

/// Replaces the bits of the second byte that are not in `keep`.
fn set(packet: &mut Packet, keep: u8, bits: u8) -> Fate {
    let Some(view) = ipv4_mut(packet) else { return Fate::Drop(NO_HEADER) };
    let bytes = view.into_inner();
    let word = get_u16(bytes, 0) & (0xff00 | u16::from(keep)) | u16::from(bits);
    set_word(bytes, 0, word);
    Fate::Pass
}

/// A code point of differentiated services.
#[derive(Clone, Copy, Debug, Default)]
struct CodePoint(u8);

impl FromArg for CodePoint {
    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        match u32::from_arg(text, names)? {
            point @ 0..=63 => Ok(Self(point as u8)),
            _ => Err(ArgError::new("diffserv code point out of range")),
        }
    }
}

/// The ECN field.
#[derive(Clone, Copy, Debug, Default)]
struct Ecn(u8);

impl FromArg for Ecn {
    fn from_arg(text: &str, _: &dyn Names) -> Result<Self, ArgError> {
        Ok(Self(match text {
            "0" | "no" | "-" => 0,
            "1" | "ect1" | "ECT(1)" => 1,
            "2" | "ect2" | "ECT(0)" => 2,
            "3" | "ce" | "CE" => CONGESTION,
            _ => return Err(ArgError::new("bad ECN argument")),
        }))
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct SetIpDscp {
    point: CodePoint,
}

impl Element for SetIpDscp {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("DSCP", &mut self.point).complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| set(packet, 3, self.point.0 << 2));
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::both("dscp")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.point.0.to_string())
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.point = parse_seen(cx, value)?;
        Ok(String::new())
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct SetIpEcn {
    ecn: Ecn,
}

impl Element for SetIpEcn {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("ECN", &mut self.ecn).complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| set(packet, !3, self.ecn.0));
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::both("ecn")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(["no", "ect1", "ect2", "ce"][usize::from(self.ecn.0)].to_owned())
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.ecn = parse_seen(cx, value)?;
        Ok(String::new())
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct MarkIpCe {
    force: bool,
    drops: u64,
}

impl Element for MarkIpCe {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("FORCE", &mut self.force).complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| {
            let Some(view) = ipv4_mut(packet) else { return Fate::Drop(NO_HEADER) };
            match view.tos() & 3 {
                CONGESTION => Fate::Pass,
                0 if !self.force => {
                    self.drops += 1;
                    Fate::Drop(NOT_ECT)
                }
                _ => set(packet, 0xff, CONGESTION),
            }
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
    use super::super::testing::{ipv4, run, through};

    #[test]
    fn bits_are_set_and_the_sum_stays_right() {
        for tos in 0..=255u8 {
            let bytes = ipv4(b"", |repr| repr.tos = tos);
            let check = |element: &str, then: Option<u8>| {
                let shown = through(&bytes, &format!("MarkIPHeader -> {element}"));
                let found = shown.map(|shown| shown.ipv4().tos());
                assert_eq!(found, then, "{element} {tos}");
            };
            check("SetIPDSCP(46)", Some(46 << 2 | tos & 3));
            check("SetIPECN(ect2)", Some(tos & !3 | 2));
            check("SetIPECN(-)", Some(tos & !3));
            check("MarkIPCE", (tos & 3 != 0).then_some(tos | 3));
            check("MarkIPCE(FORCE true)", Some(tos | 3));
        }
        assert!(through(b"nothing", "SetIPDSCP(1)").is_none());
        assert!(through(b"nothing", "MarkIPCE").is_none());
    }

    #[test]
    fn values_are_read_and_written() {
        let (_, _, mut router) =
            run("Idle -> s :: SetIPDSCP(DSCP 10) -> e :: SetIPECN(ECT(1)) -> Idle;");
        assert_eq!(router.read("s.dscp"), Ok("10".into()));
        router.write("s.dscp", "2").expect("it obeys");
        assert_eq!(router.read("s.dscp"), Ok("2".into()));
        let error = router.write("s.dscp", "64").expect_err("too large");
        assert_eq!(error.to_string(), "diffserv code point out of range");
        assert_eq!(router.read("e.ecn"), Ok("ect1".into()));
        router.write("e.ecn", "CE").expect("it obeys");
        assert_eq!(router.read("e.ecn"), Ok("ce".into()));
        assert!(router.write("e.ecn", "4").is_err());
    }
}
