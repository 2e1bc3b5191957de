//! Forwards packets of one color.
//!
//! # Synopsis
//! `CheckPaint(COLOR [, ANNO])`
//!
//! # Ports
//! One input, push or pull. Output 0: packets of the color. Output 1, optional: all other packets,
//! pushed.
//!
//! # Configuration
//! - `COLOR`: the color, 0 to 255
//! - `ANNO`: annotation byte to compare; default: the paint annotation
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `color` | read, write | as the argument |
//!
//! # Drops
//! - `other color`: output 1 is not connected
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! routes[0] -> c :: CheckPaint(1) -> Queue -> ToDevice(eth1); c[1] -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::Batch;

use super::color::{COLOR_HANDLERS, Color};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("CheckPaint", "1/1-2", "a/ah", || Box::<CheckPaint>::default())
        .drops(&["other color"]);

/// Reason for drops, by number.
const OTHER: usize = 0;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct CheckPaint(Color);

impl Element for CheckPaint {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        self.0.configure(args)
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| match self.0.is_of(packet) {
            true => Fate::Pass,
            false => Fate::EmitOrDrop(1, OTHER),
        });
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        COLOR_HANDLERS
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.0.read())
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.0.write(value)
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::run;

    #[test]
    fn one_color_passes_and_the_others_leave_or_are_dropped() {
        let config = "InfiniteSource(LIMIT 5) -> Paint(3) -> j :: CheckPaint(3) -> a :: Counter
            -> Discard; InfiniteSource(LIMIT 4) -> Paint(4) -> j; j[1] -> b :: Counter
            -> q :: Queue -> k :: CheckPaint(3) -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        let mut read = |handler: &str| router.read(handler).expect("it is there");
        assert_eq!((read("a.count"), read("b.count")), ("5".into(), "4".into()));
        assert_eq!(read("k.drops_by_reason"), "4\tother color\n");
        router.write("j.color", "4").expect("it obeys");
        assert_eq!(router.read("j.color"), Ok("4".into()));
    }
}
