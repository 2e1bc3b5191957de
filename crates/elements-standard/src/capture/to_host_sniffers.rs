//! Discards packets for packet sniffers of the kernel.
//!
//! # Synopsis
//! `ToHostSniffers([DEVNAME], SNIFFERS, ALLOW_NONEXISTENT)`
//!
//! # Ports
//! One push input.
//!
//! # Configuration
//! All arguments are accepted and ignored.
//!
//! In Click's kernel module the element shows packets to packet sniffers, such as `tcpdump`, but
//! not to the network stack. Outside the kernel, sniffers have seen the frames of an interface when
//! `FromDevice` emits them. To record changed packets use `ToDump`.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `count` | read | packets |
//!
//! # Drops
//! None: discarded packets are counted by `count`.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDevice(eth0) -> c :: Classifier(12/0800, -);
//! c[0] -> Discard;
//! c[1] -> ToHostSniffers(eth0);
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, Raw};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::Batch;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("ToHostSniffers", "1/0", "h", || Box::<ToHostSniffers>::default())
        .consumes_as("discarded");

/// See the module.
#[derive(Debug, Default)]
pub struct ToHostSniffers {
    count: u64,
}

impl Element for ToHostSniffers {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut word, mut flag) = (Raw::default(), false);
        args.read_p("DEVNAME", &mut word)
            .read("SNIFFERS", &mut flag)
            .read("ALLOW_NONEXISTENT", &mut flag)
            .complete()
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        self.count += batch.len() as u64;
        cx.consume_batch(batch);
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::read("count")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.count.to_string())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        self.absorb(old);
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(Self::default())
    }

    fn absorb(&mut self, copy: &mut dyn Element) {
        if let Some(copy) = copy.downcast_mut::<Self>() {
            self.count += copy.count;
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::run;

    #[test]
    fn counts_what_it_discards() {
        let config = "InfiniteSource(LIMIT 3) -> s :: ToHostSniffers(eth0, SNIFFERS true);";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("s.count"), Ok("3".into()));
    }
}
