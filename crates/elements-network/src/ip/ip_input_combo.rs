//! Combines the input elements of an IP router.
//!
//! # Synopsis
//! `IPInputCombo(COLOR [, BADSRC], INTERFACES, BADSRC, GOODDST)`
//!
//! # Ports
//! One input, one output; push or pull. Equivalent to `Paint(COLOR) -> Strip(14) ->
//! CheckIPHeader(...) -> GetIPAddress(16)`.
//!
//! # Configuration
//! - `COLOR`: value of the paint annotation
//! - `BADSRC` without keyword: bad sources, to which 0.0.0.0 and 255.255.255.255 are added
//! - `INTERFACES`, `BADSRC`, `GOODDST`: see `CheckIPHeader`
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `drops` | read | invalid packets |
//!
//! # Drops
//! See `CheckIPHeader`.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! c[2] -> IPInputCombo(1, INTERFACES 10.0.0.1/24) -> [0]rt;
//! ```

use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::Batch;
use warpswitch_packet::packet::annotation;

use super::check_ip_header::{REASONS, Sources, check};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("IPInputCombo", "1/1", "a/a", || Box::<IpInputCombo>::default())
        .drops(&REASONS);

/// Bytes of an Ethernet header.
const ETHERNET_BYTES: usize = 14;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct IpInputCombo {
    color: u8,
    sources: Sources,
    drops: u64,
}

impl Element for IpInputCombo {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut old = None::<Vec<Ipv4Addr>>;
        args.read_mp("COLOR", &mut self.color).read_p("BADSRC*", &mut old);
        self.sources.read(args);
        if let Some(old) = old {
            self.sources.add_old(&old);
        }
        args.complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |cx, packet| {
            packet.set_anno_u8(annotation::PAINT, self.color);
            packet.pull(ETHERNET_BYTES);
            match check(packet, 0, true, &self.sources) {
                Ok(()) => Fate::Pass,
                Err(reason) => {
                    if self.drops == 0 {
                        cx.say("IP checksum failed");
                    }
                    self.drops += 1;
                    Fate::Drop(reason)
                }
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
    use super::super::testing::{ipv4, run, source, through};

    #[test]
    fn it_does_what_the_elements_do_that_it_stands_for() {
        let mut framed = vec![0xee; 14];
        framed.extend(ipv4(b"data", |_| {}));
        framed.extend([0; 10]);
        let of_one = through(&framed, "IPInputCombo(5)").expect("it passes");
        let of_all =
            through(&framed, "SetAnno(16, 5) -> Strip(14) -> CheckIPHeader -> GetIPAddress(16)");
        assert_eq!(of_one, of_all.expect("it passes"));
        framed[14 + 8] ^= 1;
        let source = source(&framed);
        let (shown, said, mut router) =
            run(&format!("{source} -> i :: IPInputCombo(5) -> Show(0);"));
        assert_eq!((shown, said), (vec![], vec!["IP checksum failed".to_owned()]));
        assert_eq!(router.read("i.drops"), Ok("1".into()));
        for arguments in ["5, 18.26.4.44", "5, INTERFACES 10.0.0.1/24, BADSRC 18.26.4.44"] {
            framed[14 + 8] = 64;
            assert!(through(&framed, &format!("IPInputCombo({arguments})")).is_none());
        }
    }
}
