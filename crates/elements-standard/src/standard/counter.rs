//! Counts packets and bytes.
//!
//! # Synopsis
//! `Counter([COUNT_CALL, BYTE_COUNT_CALL])`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! - `COUNT_CALL`: `N HANDLER [VALUE]`: calls the write handler once when `N` packets were counted
//! - `BYTE_COUNT_CALL`: same for bytes
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `count` | read | packets |
//! | `byte_count` | read | bytes |
//! | `rate` | read | packets per second, moving average |
//! | `bit_rate` | read | bits per second, moving average |
//! | `byte_rate` | read | bytes per second, moving average |
//! | `reset` | write | |
//! | `reset_counts` | write | same as `reset` |
//! | `count_call`, `byte_count_call` | write | same as the arguments |
//!
//! # Drops
//! None.
//!
//! # Threads
//! One instance per worker; reads return the sum. With a call it runs on one worker, as the call
//! requires the total count.
//!
//! # Example
//! ```text
//! InfiniteSource(LIMIT 100) -> c :: Counter -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, Raw};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing, gso,
};
use warpswitch_packet::Batch;

use crate::rate::Rate;
use warpswitch_elements_support::calls::{Due, wrong_call};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Counter", "1/1", "a/a", || Box::<Counter>::default());

/// See the module.
#[derive(Debug, Default)]
pub struct Counter {
    packets: u64,
    bytes: u64,
    packet_rate: Rate,
    byte_rate: Rate,
    packet_call: Option<Due>,
    byte_call: Option<Due>,
}

impl Counter {
    /// Makes the calls whose counts are reached.
    fn call_if_due(&mut self, cx: &mut Context<'_>) {
        let count = self.packets;
        if let Some(due) = self.packet_call.take_if(|call| count >= call.at) {
            cx.lend(self, |cx| cx.call_handler(&due.call));
        }
        let count = self.bytes;
        if let Some(due) = self.byte_call.take_if(|call| count >= call.at) {
            cx.lend(self, |cx| cx.call_handler(&due.call));
        }
    }
}

impl Element for Counter {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut packets, mut bytes) = (Raw(String::new()), Raw(String::new()));
        args.read("COUNT_CALL", &mut packets).read("BYTE_COUNT_CALL", &mut bytes);
        for (keyword, text, call) in [
            ("COUNT_CALL", packets, &mut self.packet_call),
            ("BYTE_COUNT_CALL", bytes, &mut self.byte_call),
        ] {
            match Due::parse(&text.0) {
                Ok(due) => *call = due,
                Err(message) => args.error_at(keyword, &message),
            }
        }
        args.complete()
    }

    fn wrong_calls(&self, cx: &mut Context<'_>) -> Vec<String> {
        let calls = [("COUNT_CALL", &self.packet_call), ("BYTE_COUNT_CALL", &self.byte_call)];
        let wrong = |(keyword, due): (&str, &Option<Due>)| {
            wrong_call(cx, keyword, &due.as_ref()?.call, self.handlers())
        };
        calls.into_iter().filter_map(wrong).collect()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        let (packets, bytes) = gso::wire_counts(batch);
        self.packets += packets;
        self.bytes += bytes;
        self.packet_rate.add(cx.now(), packets);
        self.byte_rate.add(cx.now(), bytes);
        self.call_if_due(cx);
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("count"),
                HandlerSpec::read("byte_count"),
                HandlerSpec::read("rate"),
                HandlerSpec::read("bit_rate"),
                HandlerSpec::read("byte_rate"),
                HandlerSpec::button("reset"),
                HandlerSpec::button("reset_counts"),
                HandlerSpec::write("count_call"),
                HandlerSpec::write("byte_count_call"),
            ]
        }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        let now = cx.now();
        Ok(match name {
            "count" => self.packets.to_string(),
            "byte_count" => self.bytes.to_string(),
            "rate" => self.packet_rate.per_second(now).to_string(),
            "bit_rate" => (self.byte_rate.per_second(now) * 8).to_string(),
            "byte_rate" => self.byte_rate.per_second(now).to_string(),
            _ => return Err(HandlerError::Missing),
        })
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "count_call" => {
                self.packet_call = Due::parse(value).map_err(HandlerError::failed)?;
            }
            "byte_count_call" => {
                self.byte_call = Due::parse(value).map_err(HandlerError::failed)?;
            }
            _ => *self = Self::default(),
        }
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Self>() else { return };
        let (packet_call, byte_call) = (self.packet_call.take(), self.byte_call.take());
        *self = std::mem::take(old);
        (self.packet_call, self.byte_call) = (packet_call, byte_call);
    }

    fn sharing(&self) -> Sharing {
        if self.packet_call.is_some() || self.byte_call.is_some() {
            // Its calls require the whole count.
            return Sharing::OneWorker;
        }
        Sharing::copies(Self {
            packet_rate: self.packet_rate.fresh(),
            byte_rate: self.byte_rate.fresh(),
            ..Self::default()
        })
    }

    fn absorb(&mut self, copy: &mut dyn Element) {
        if let Some(copy) = copy.downcast_mut::<Self>() {
            self.packets += copy.packets;
            self.bytes += copy.bytes;
            self.packet_rate.absorb(&copy.packet_rate);
            self.byte_rate.absorb(&copy.byte_rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::run;

    #[test]
    fn it_counts_packets_and_bytes_and_calls() {
        let config = "InfiniteSource(DATA abcde, LIMIT 10, BURST 3)
            -> c :: Counter(COUNT_CALL 6 d.reset_counts) -> d :: Counter -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        let mut read = |handler: &str| router.read(handler).expect("it is there");
        assert_eq!((read("c.count"), read("c.byte_count")), ("10".into(), "50".into()));
        // The second batch of three reached six before it was delivered further.
        assert_eq!(read("d.count"), "7");
        router.write("c.reset", "").expect("it obeys");
        assert_eq!(router.read("c.count"), Ok("0".into()));
    }

    /// A called handler may read the counter and reset it.
    #[test]
    fn calls_come_back() {
        let config = "InfiniteSource(DATA abcde, LIMIT 10, BURST 1)
            -> c :: Counter(COUNT_CALL 4 s.run) -> Discard;
            s :: Script(TYPE PASSIVE, print $(c.count), write c.reset,
                        write c.count_call 3 s.run)";
        let (mut router, transcript) = run(config, &crate::registry());
        assert_eq!(transcript.printed(), b"4\n3\n3\n");
        assert_eq!(router.read("c.count"), Ok("0".into()));
    }
}
