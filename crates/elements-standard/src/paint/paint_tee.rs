//! Copies packets of one color to a second output.
//!
//! # Synopsis
//! `PaintTee(COLOR [, ANNO])`
//!
//! # Ports
//! One input, push or pull. Output 0: all packets. Output 1: copies of packets of the color,
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
//! | `config` | read, write | the arguments |
//!
//! # Drops
//! None.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! A packet routed back to the interface it came from triggers a redirect.
//! ```text
//! FromDevice(eth1) -> Paint(1) -> routes :: StaticIPLookup(…);
//! routes[1] -> t :: PaintTee(1) -> …; t[1] -> ICMPError(10.0.0.1, redirect, host) -> routes;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::Batch;

use super::color::{COLOR_HANDLERS, Color};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("PaintTee", "1/2", "a/ah", || Box::<PaintTee>::default()).live();

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct PaintTee(Color);

impl Element for PaintTee {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        self.0.configure(args)
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter().filter(|packet| self.0.is_of(packet)) {
            let copy = cx.pool().copy(packet);
            cx.emit(1, copy);
        }
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
    fn all_pass_and_one_color_is_copied() {
        let config = "InfiniteSource(LIMIT 6, BURST 4) -> s :: RoundRobinSwitch;
            s[0] -> Paint(1) -> t :: PaintTee(2); s[1] -> Paint(2) -> t;
            t[0] -> a :: Counter -> Discard; t[1] -> b :: Counter -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        let counts = ["a", "b"].map(|name| router.read(&format!("{name}.count")));
        assert_eq!(counts, [Ok("6".into()), Ok("3".into())]);
    }
}
