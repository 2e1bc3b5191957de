//! Forwards packets from each input to the output of the same number, unless the pair is
//! suppressed.
//!
//! # Synopsis
//! `Suppressor`
//!
//! # Ports
//! Any number of inputs and the same number of outputs; each pair is push or pull.
//!
//! # Configuration
//! None.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `active0`, `active1`, … | read, write | whether the pair forwards packets: true or false |
//! | `reset` | write | activates all pairs |
//!
//! # Drops
//! - `suppressed`: a packet was pushed to an inactive pair
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDevice(eth0) -> s :: Suppressor; FromDevice(eth1) -> [1] s;
//! s[0] -> [0] b :: EtherSwitch; s[1] -> [1] b;
//! ```

use std::sync::LazyLock;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::Batch;

use super::numbered;
use warpswitch_elements_support::format::parse;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Suppressor", "-/=", "a/a", || Box::<Suppressor>::default())
        .flow("#/#")
        .drops(&["suppressed"]);

/// Reason for drops, by number.
const SUPPRESSED: usize = 0;

static HANDLERS: LazyLock<Vec<HandlerSpec>> =
    LazyLock::new(|| numbered::specs(&[HandlerSpec::button("reset")], "active"));

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Suppressor {
    is_suppressed: Vec<bool>,
}

impl Suppressor {
    /// Lets the pair `port` pass packets, or not.
    pub fn set_active(&mut self, cx: &mut Context<'_>, port: usize, is_active: bool) {
        if let Some(is_suppressed) = self.is_suppressed.get_mut(port) {
            *is_suppressed = !is_active;
        }
        if is_active {
            cx.wake();
        }
    }
}

impl Element for Suppressor {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        self.is_suppressed = vec![false; context.inputs];
        args.complete()
    }

    fn push(&mut self, cx: &mut Context<'_>, input: usize, batch: Batch) {
        match self.is_suppressed[input] {
            true => cx.drop_batch(batch, SUPPRESSED),
            false => cx.emit_batch(input, batch),
        }
    }

    fn pull(&mut self, cx: &mut Context<'_>, output: usize, packets_max: usize) -> Batch {
        match self.is_suppressed[output] {
            true => cx.pool().batch(),
            false => cx.pull(output, packets_max),
        }
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        &HANDLERS[..1 + self.is_suppressed.len().min(numbered::PORTS_MAX)]
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        let port = numbered::port(name, "active").ok_or(HandlerError::Missing)?;
        let is_suppressed = self.is_suppressed.get(port).ok_or(HandlerError::Missing)?;
        Ok((!is_suppressed).to_string())
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match numbered::port(name, "active") {
            Some(port) => {
                let is_active = parse(value)
                    .map_err(|_| HandlerError::failed("active value must be boolean"))?;
                self.set_active(cx, port, is_active);
            }
            None => (0..self.is_suppressed.len()).for_each(|port| self.set_active(cx, port, true)),
        }
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>()
            && old.is_suppressed.len() == self.is_suppressed.len()
        {
            self.is_suppressed.clone_from(&old.is_suppressed);
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{SimulatedHost, run};

    #[test]
    fn pairs_are_suppressed_each_for_itself() {
        let config = "i :: InfiniteSource(LIMIT 3) -> s :: Suppressor -> a :: Counter -> Discard;
            InfiniteSource(LIMIT 4) -> q :: Queue -> [1] s; s[1] -> b :: Counter
            -> d :: Discard(ACTIVE false);";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("a.count"), Ok("3".into()));
        router.write("s.active0", "false").expect("it obeys");
        router.write("s.active1", "false").expect("it obeys");
        router.write("i.reset", "").expect("it obeys");
        router.write("d.active", "true").expect("it obeys");
        router.run(&mut SimulatedHost::default());
        let mut read = |handler: &str| router.read(handler).expect("it is there");
        assert_eq!((read("a.count"), read("b.count")), ("3".into(), "0".into()));
        assert_eq!((read("s.active0"), read("q.length")), ("false".into(), "4".into()));
        assert_eq!(read("s.drops_by_reason"), "3\tsuppressed\n");
        router.write("s.reset", "").expect("it obeys");
        router.write("i.reset", "").expect("it obeys");
        router.run(&mut SimulatedHost::default());
        let mut read = |handler: &str| router.read(handler).expect("it is there");
        assert_eq!((read("a.count"), read("b.count")), ("6".into(), "4".into()));
        let error = router.write("s.active1", "2").unwrap_err();
        assert_eq!(error.to_string(), "active value must be boolean");
        assert_eq!(router.packets_unaccounted(), 0);
    }
}
