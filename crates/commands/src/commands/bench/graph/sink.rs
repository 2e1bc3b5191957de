//! A sink that takes the place of `Discard` while a configuration is checked: it takes a
//! fingerprint of all that comes.

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::{BATCH_LEN_MAX, Batch};

/// The class, under the name that configurations use.
pub static CLASS: ElementClass =
    ElementClass::new("Discard", "1/0", "a", || Box::<Sink>::default());

/// What came at a sink, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Packets.
    pub packets: u64,
    /// 64-bit FNV-1a over the bytes of each packet and then their number, as little-endian `u32`.
    pub digest: u64,
}

impl Default for Seen {
    fn default() -> Self {
        Self { packets: 0, digest: 0xcbf2_9ce4_8422_2325 }
    }
}

impl Seen {
    /// Adds a packet.
    pub fn add(&mut self, bytes: &[u8]) {
        let len = (bytes.len() as u32).to_le_bytes();
        self.packets += 1;
        for &byte in bytes.iter().chain(&len) {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Parses the text of the handler `seen`.
    pub fn parse(text: &str) -> Option<Self> {
        let (packets, digest) = text.split_once(' ')?;
        Some(Self { packets: packets.parse().ok()?, digest: digest.parse().ok()? })
    }
}

/// See the module.
#[derive(Default)]
struct Sink {
    burst: u32,
    seen: Seen,
    is_woken: bool,
}

impl Sink {
    fn take(&mut self, cx: &mut Context<'_>, batch: Batch) {
        batch.iter().for_each(|packet| self.seen.add(packet.data()));
        cx.consume_batch(batch);
    }
}

impl Element for Sink {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read("BURST", &mut self.burst).complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if cx.input_is_pull(0) {
            self.is_woken = cx.listen_upstream(0);
            cx.schedule_task();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        self.take(cx, batch);
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        let batch = cx.pull(0, (self.burst as usize).clamp(1, BATCH_LEN_MAX));
        let worked = !batch.is_empty();
        self.take(cx, batch);
        if worked || !self.is_woken {
            cx.schedule_task();
        }
        worked
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::read("seen"), HandlerSpec::button("reset_counts")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(format!("{} {}", self.seen.packets, self.seen.digest))
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _value: &str,
    ) -> Result<String, HandlerError> {
        self.seen = Seen::default();
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_bytes_and_lengths_count() {
        let seen = |packets: &[&str]| {
            let mut seen = Seen::default();
            packets.iter().for_each(|packet| seen.add(packet.as_bytes()));
            seen
        };
        assert_ne!(seen(&["a", "b"]), seen(&["b", "a"]));
        assert_ne!(seen(&["ab", ""]).digest, seen(&["a", "b"]).digest);
        let one = seen(&["abc"]);
        assert_eq!(Seen::parse(&format!("{} {}", one.packets, one.digest)), Some(one));
        assert_eq!(Seen::parse("1"), None);
    }
}
