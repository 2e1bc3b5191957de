//! Emits packets on the output of their paint color.
//!
//! # Synopsis
//! `PaintSwitch([ANNO])`
//!
//! # Ports
//! One push input, any number of push outputs. A packet of color `n` is emitted on output `n`; a
//! packet of color 255 is copied to all outputs.
//!
//! # Configuration
//! - `ANNO`: annotation byte to read; default: the paint annotation
//!
//! # Handlers
//! None.
//!
//! # Drops
//! - `no such output`: no output has the number of the color
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! … -> s :: PaintSwitch; s[0] -> ToDevice(eth0); s[1] -> ToDevice(eth1);
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Sharing};
use warpswitch_packet::Batch;
use warpswitch_packet::packet::annotation;

use warpswitch_elements_support::Anno;

/// The class.
pub static CLASS: ElementClass = ElementClass::new("PaintSwitch", "1/-", "h/h", || {
    Box::new(PaintSwitch { anno: annotation::PAINT })
})
.drops(&["no such output"]);

/// Reason for drops, by number.
const NO_OUTPUT: usize = 0;
/// The color that goes everywhere.
const ALL: usize = 255;

/// See the module.
#[derive(Clone, Debug)]
pub struct PaintSwitch {
    anno: usize,
}

impl Element for PaintSwitch {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut anno = Anno::<1>(self.anno);
        args.read_p("ANNO", &mut anno);
        self.anno = anno.0;
        args.complete()
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        let outputs = cx.outputs();
        for packet in batch.drain() {
            let color = usize::from(packet.anno_u8(self.anno));
            if color == ALL && outputs > 0 {
                for port in 0..outputs - 1 {
                    let copy = cx.pool().copy(&packet);
                    cx.emit(port, copy);
                }
                cx.emit(outputs - 1, packet);
            } else {
                cx.emit_or_drop(color, packet, NO_OUTPUT);
            }
        }
        cx.pool().recycle_empty(batch);
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::run;

    #[test]
    fn colors_are_outputs() {
        let config = "InfiniteSource(LIMIT 1) -> Paint(1) -> s :: PaintSwitch;
            InfiniteSource(LIMIT 2) -> Paint(255) -> s; InfiniteSource(LIMIT 4) -> Paint(2) -> s;
            s[0] -> a :: Counter -> Discard; s[1] -> b :: Counter -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        let mut read = |handler: &str| router.read(handler).expect("it is there");
        assert_eq!((read("a.count"), read("b.count")), ("2".into(), "3".into()));
        assert_eq!(read("s.drops_by_reason"), "4\tno such output\n");
    }
}
