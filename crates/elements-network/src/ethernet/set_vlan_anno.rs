//! Sets the VLAN annotation: the tag control information of packets.
//!
//! # Synopsis
//! `SetVLANAnno([VLAN_TCI, VLAN_PCP], VLAN_ID)`, also called `SetVlanAnno`
//!
//! # Ports
//! One input, one output; agnostic.
//!
//! # Configuration
//! - `VLAN_TCI`: the whole tag control information, or
//! - `VLAN_ID`: VLAN id, 0 to 0xFFF
//! - `VLAN_PCP`: priority, 0 to 7
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `vlan_tci`, `vlan_id`, `vlan_pcp` | read, write | as the arguments |
//! | `config` | read | VLAN id and priority |
//!
//! # Drops
//! None.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! … -> SetVLANAnno(2, 1) -> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, ANNO) -> …;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::Batch;

use super::{bounded, set_vlan_tci};
use warpswitch_elements_support::format::parse;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("SetVLANAnno", "1/1", "a/a", || Box::<SetVlanAnno>::default());
/// The same under its older name.
pub static OLDER_NAME: ElementClass =
    ElementClass::new("SetVlanAnno", "1/1", "a/a", || Box::<SetVlanAnno>::default());

/// Bits of the VLAN in tag control information.
pub(super) const VLAN_BITS: u16 = 0x0fff;
/// Where the priority lies in it.
pub(super) const PRIORITY_SHIFT: u32 = 13;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct SetVlanAnno {
    tci: u16,
}

/// Obeys a write to the handlers `vlan_tci`, `vlan_id` and `vlan_pcp`.
pub(super) fn write_tci(tci: &mut u16, name: &str, value: &str) -> Result<(), HandlerError> {
    let number: u16 = parse(value)?;
    let bound = |max: u16| match number <= max {
        true => Ok(number),
        false => Err(HandlerError::failed(format!("out of range, bound {max}"))),
    };
    *tci = match name {
        "vlan_id" => *tci & !VLAN_BITS | bound(VLAN_BITS)?,
        "vlan_pcp" => *tci & ((1 << PRIORITY_SHIFT) - 1) | bound(7)? << PRIORITY_SHIFT,
        _ => number,
    };
    Ok(())
}

/// Answers the handlers `vlan_tci`, `vlan_id` and `vlan_pcp`.
pub(super) fn read_tci(tci: u16, name: &str) -> String {
    match name {
        "vlan_id" => (tci & VLAN_BITS).to_string(),
        "vlan_pcp" => (tci >> PRIORITY_SHIFT).to_string(),
        _ => tci.to_string(),
    }
}

impl Element for SetVlanAnno {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut tci, mut id, mut priority) = (-1, 0, 0);
        args.read_as("VLAN_TCI", false, true, &mut tci, bounded(0, 0xffff))
            .read_as("VLAN_PCP", false, true, &mut priority, bounded(0, 7))
            .read_as("VLAN_ID", false, false, &mut id, bounded(0, i32::from(VLAN_BITS)));
        self.tci = (if tci >= 0 { tci } else { id } | priority << PRIORITY_SHIFT) as u16;
        args.complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            set_vlan_tci(packet, self.tci);
        }
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::both("vlan_tci"),
                HandlerSpec::both("vlan_id"),
                HandlerSpec::both("vlan_pcp"),
                HandlerSpec::read("config"),
            ]
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "config" => {
                let [id, priority] = ["vlan_id", "vlan_pcp"].map(|name| read_tci(self.tci, name));
                format!("VLAN_ID {id}, VLAN_PCP {priority}")
            }
            name => read_tci(self.tci, name),
        })
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        write_tci(&mut self.tci, name, value)?;
        Ok(String::new())
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    #[test]
    fn parts_are_read_and_written() {
        let config = "Idle -> a :: SetVLANAnno(2, 1) -> b :: SetVlanAnno(VLAN_ID 5) -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("a.vlan_tci"), Ok("8194".into()));
        assert_eq!(router.read("b.config"), Ok("VLAN_ID 5, VLAN_PCP 0".into()));
        router.write("a.vlan_pcp", "7").expect("it obeys");
        router.write("a.vlan_id", "0xfff").expect("it obeys");
        assert_eq!(router.read("a.vlan_tci"), Ok("61439".into()));
        assert!(router.write("a.vlan_id", "4096").is_err());
        assert!(router.write("a.vlan_pcp", "8").is_err());
    }

    #[test]
    fn parts_have_bounds() {
        for (config, error) in [
            ("Idle -> SetVLANAnno(1, 8) -> Discard;", "VLAN_PCP: out of range, bound 7"),
            ("Idle -> SetVLANAnno(VLAN_ID -1) -> Discard;", "VLAN_ID: out of range, bound 0"),
            ("Idle -> SetVLANAnno(65536) -> Discard;", "VLAN_TCI: out of range, bound 65535"),
        ] {
            let errors = router(config, &crate::registry()).err().expect("it is wrong").to_click();
            assert!(errors.contains(error), "{errors}");
        }
    }
}
