//! Sets an annotation byte.
//!
//! # Synopsis
//! `Paint(COLOR [, ANNO])`, `SetAnnoByte(ANNO, VALUE)`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! - `COLOR`, `VALUE`: the value, 0 to 255
//! - `ANNO`: annotation byte to set; default: the paint annotation, which is byte 16. Required by
//!   `SetAnnoByte`, which is obsolete
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `color`, with `SetAnnoByte` `value` | read, write | as the argument |
//! | `anno` | read | offset of the annotation byte |
//! | `config` | read, write | the arguments |
//!
//! # Drops
//! None.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDevice(eth1) -> Paint(1) -> routes :: StaticIPLookup(…);
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::Batch;
use warpswitch_packet::packet::annotation;

use warpswitch_elements_support::Anno;
use warpswitch_elements_support::format::parse;

/// The class `Paint`.
pub static CLASS: ElementClass =
    ElementClass::new("Paint", "1/1", "a/a", || Box::new(SetByte::new(false))).live();
/// The class `SetAnnoByte`.
pub static SET_ANNO_BYTE: ElementClass =
    ElementClass::new("SetAnnoByte", "1/1", "a/a", || Box::new(SetByte::new(true))).live();

/// See the module.
#[derive(Clone, Debug)]
pub struct SetByte {
    anno: usize,
    value: u8,
    /// Whether its arguments are those of `SetAnnoByte`.
    is_older: bool,
}

impl SetByte {
    fn new(is_older: bool) -> Self {
        Self { anno: annotation::PAINT, value: 0, is_older }
    }
}

impl Element for SetByte {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut anno = Anno::<1>(self.anno);
        if self.is_older {
            let advice = "SetAnnoByte(ANNO, VALUE) is obsolete, use Paint(VALUE, ANNO) instead";
            args.warn_at("", advice);
            args.read_mp("ANNO", &mut anno).read_mp("VALUE", &mut self.value);
        } else {
            args.read_mp("COLOR", &mut self.value).read_p("ANNO", &mut anno);
        }
        self.anno = anno.0;
        args.complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            packet.set_anno_u8(self.anno, self.value);
        }
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        match self.is_older {
            true => const { &[HandlerSpec::both("value"), HandlerSpec::read("anno")] },
            false => const { &[HandlerSpec::both("color"), HandlerSpec::read("anno")] },
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(if name == "anno" { self.anno.to_string() } else { self.value.to_string() })
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.value = parse(value)?;
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
    fn paint_is_put_where_it_is_told() {
        let config = "InfiniteSource(LIMIT 3) -> p :: Paint(2) -> Paint(1, 20)
            -> a :: PaintSwitch; a[0] -> Discard; a[1] -> Discard; a[2] -> c :: Counter
            -> PaintSwitch(20) -> Discard; Idle -> b :: SetAnnoByte(PAINT, 7) -> Discard;";
        let (mut router, transcript) = run(config, &crate::registry());
        assert_eq!(router.read("c.count"), Ok("3".into()));
        assert_eq!(
            (router.read("b.anno"), router.read("b.value")),
            (Ok("16".into()), Ok("7".into()))
        );
        assert!(transcript.said().contains("warning: SetAnnoByte(ANNO, VALUE) is obsolete"));
        assert!(router.write("p.color", "256").is_err());
        router.write("p.color", "3").expect("it obeys");
        assert_eq!(router.read("p.color"), Ok("3".into()));
    }

    #[test]
    fn colors_are_bytes_and_places_exist() {
        for (config, error) in [
            ("Idle -> Paint(256) -> Discard;", "COLOR: out of range, bound 255"),
            ("Idle -> Paint(1, 48) -> Discard;", "ANNO: parse error"),
            ("Idle -> Paint -> Discard;", "COLOR: required argument missing"),
        ] {
            let errors = router(config, &crate::registry()).err().expect("it is wrong").to_click();
            assert!(errors.contains(error), "{errors}");
        }
    }
}
