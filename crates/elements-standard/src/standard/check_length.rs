//! Drops packets that exceed a maximum length.
//!
//! # Synopsis
//! `CheckLength(LENGTH, EXTRA_LENGTH)`
//!
//! # Ports
//! One input, one or two outputs; push or pull. Packets that are too long are emitted on output 1
//! if it is connected.
//!
//! # Configuration
//! - `LENGTH`: maximum packet length in bytes
//! - `EXTRA_LENGTH`: whether to add the extra length annotation, the number of bytes that were cut
//!   off, to the packet length; default: false
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `length` | read, write | bytes |
//!
//! # Drops
//! - `too long`: packet longer than `LENGTH`
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> c :: CheckLength(1500) -> Discard; c[1] -> Print(long) -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::{Batch, annotation};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("CheckLength", "1/1-2", "a/ah", || Box::<CheckLength>::default())
        .drops(&["too long"]);

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct CheckLength {
    bytes_max: u32,
    counts_extra: bool,
}

impl Element for CheckLength {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("LENGTH", &mut self.bytes_max)
            .read("EXTRA_LENGTH", &mut self.counts_extra)
            .complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| {
            let extra = match self.counts_extra {
                true => packet.anno_u32(annotation::EXTRA_LEN),
                false => 0,
            };
            let bytes = packet.len() as u64 + u64::from(extra);
            if bytes <= u64::from(self.bytes_max) { Fate::Pass } else { Fate::EmitOrDrop(1, 0) }
        });
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::both("length")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.bytes_max.to_string())
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.bytes_max = warpswitch_elements_support::format::parse(value)?;
        Ok(String::new())
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::run;

    #[test]
    fn long_packets_go_elsewhere() {
        for (arguments, passes) in
            [("10", true), ("9", false), ("10, EXTRA_LENGTH true", false), ("0", false)]
        {
            let config = format!(
                "InfiniteSource(LENGTH 20, LIMIT 3) -> Truncate(10) -> c :: CheckLength({arguments})
                 -> a :: Counter -> Discard;"
            );
            let count = |is: bool| Ok(if is { "3" } else { "0" }.to_owned());
            let (mut router, _) = run(&config, &crate::registry());
            assert_eq!(router.read("a.count"), count(passes), "{arguments}");
            let (mut router, _) =
                run(&format!("{config} c[1] -> b :: Counter -> Discard;"), &crate::registry());
            assert_eq!(router.read("b.count"), count(!passes), "{arguments}");
        }
    }
}
