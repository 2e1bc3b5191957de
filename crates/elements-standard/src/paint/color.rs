//! Color arguments and handlers, for elements that compare an annotation byte.

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{HandlerError, HandlerSpec};
use warpswitch_packet::Packet;
use warpswitch_packet::packet::annotation;

use warpswitch_elements_support::Anno;
use warpswitch_elements_support::format::parse;

/// A color, and the annotation byte that is compared with it: the state of elements that match one.
#[derive(Clone, Debug)]
pub(super) struct Color {
    color: u8,
    anno: usize,
}

impl Default for Color {
    fn default() -> Self {
        Self { color: 0, anno: annotation::PAINT }
    }
}

impl Color {
    /// Reads `COLOR [, ANNO]`.
    pub(super) fn configure(&mut self, args: &mut Args<'_>) -> Result<(), ArgsError> {
        let mut anno = Anno::<1>(self.anno);
        args.read_mp("COLOR", &mut self.color).read_p("ANNO", &mut anno);
        self.anno = anno.0;
        args.complete()
    }

    /// Whether `packet` has the color.
    #[inline]
    pub(super) fn is_of(&self, packet: &Packet) -> bool {
        packet.anno_u8(self.anno) == self.color
    }

    /// The handler `color`, read.
    pub(super) fn read(&self) -> String {
        self.color.to_string()
    }

    /// The handler `color`, written.
    pub(super) fn write(&mut self, value: &str) -> Result<String, HandlerError> {
        self.color = parse(value)?;
        Ok(String::new())
    }
}

/// The handlers of a color.
pub(super) const COLOR_HANDLERS: &[HandlerSpec] = &[HandlerSpec::both("color")];
