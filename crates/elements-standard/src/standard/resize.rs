//! Adds or removes bytes at both ends of packets.
//!
//! # Synopsis
//! `Resize([HEAD, TAIL])`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! - `HEAD`: bytes to add in front, at most 65536, or to remove if negative; default: 0
//! - `TAIL`: same at the end
//!
//! Bytes that were removed in front are restored with their old values; other added bytes are
//! zeros.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `head`, `tail` | read, write | bytes |
//! | `config` | read, write | arguments |
//!
//! # Drops
//! None. A packet shorter than the bytes to remove becomes empty. A packet that would exceed the
//! maximum packet length is forwarded unchanged.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! Idle -> Resize(-14, 4) -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::packet::PACKET_BYTES_MAX;
use warpswitch_packet::{Batch, Packet};

use warpswitch_elements_support::format::parse;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Resize", "1/1", "a/a", || Box::<Resize>::default()).live();

/// The most bytes that are added at either end: many packets grow by them.
const BYTES_MAX: u32 = PACKET_BYTES_MAX as u32 / 4;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Resize {
    head: i32,
    tail: i32,
}

impl Resize {
    fn resize(&self, packet: &mut Packet) {
        let (head, tail) = (self.head.unsigned_abs() as usize, self.tail.unsigned_abs() as usize);
        let grows = usize::from(self.head > 0) * head + usize::from(self.tail > 0) * tail;
        if packet.len() + grows > PACKET_BYTES_MAX {
            return;
        }
        if self.head < 0 {
            packet.pull(head.min(packet.len()));
        } else {
            packet.unpull(head);
        }
        if self.tail < 0 {
            packet.take(tail.min(packet.len()));
        } else {
            packet.put(tail).fill(0);
        }
    }
}

fn is_allowed(bytes: i32) -> bool {
    bytes <= BYTES_MAX as i32
}

impl Element for Resize {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("HEAD", &mut self.head).read_p("TAIL", &mut self.tail);
        for (keyword, bytes) in [("HEAD", self.head), ("TAIL", self.tail)] {
            if !is_allowed(bytes) {
                args.error_at(keyword, &format!("{bytes} bytes are more than {BYTES_MAX}"));
            }
        }
        args.complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        batch.iter_mut().for_each(|packet| self.resize(packet));
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::both("head"), HandlerSpec::both("tail")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(if name == "head" { self.head } else { self.tail }.to_string())
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let bytes: i32 = parse(value)?;
        if !is_allowed(bytes) {
            let told = format!("{bytes} bytes are more than {BYTES_MAX}");
            return Err(HandlerError::failed(told));
        }
        *(if name == "head" { &mut self.head } else { &mut self.tail }) = bytes;
        Ok(String::new())
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    fn shown(chain: &str) -> String {
        let config =
            format!("InfiniteSource(DATA abcdef, LIMIT 1) -> {chain} -> Print -> Discard;");
        let (_, transcript) = run(&config, &crate::registry());
        transcript.said().trim().to_owned()
    }

    #[test]
    fn both_ends_move() {
        let cases = [
            ("Resize", "6 | 61626364 6566"),
            ("Resize(-2, 1)", "5 | 63646566 00"),
            ("Resize(-4) -> Resize(HEAD 2, TAIL -1)", "3 | 636465"),
            ("Resize(-9)", "0"),
            ("Resize(TAIL -9)", "0"),
        ];
        for (chain, expected) in cases {
            assert_eq!(shown(chain), expected, "{chain}");
        }
        assert!(shown("Resize(300)").starts_with("306 | "));
    }

    #[test]
    fn packets_stay_within_their_limit() {
        let errors = router("Idle -> Resize(70000) -> Discard;", &crate::registry()).err();
        let errors = errors.expect("it is wrong").to_click();
        assert!(errors.contains("70000 bytes are more than 65536"), "{errors}");
        let long = ["Resize(TAIL 65536)"; 6].join(" -> ");
        let config =
            format!("InfiniteSource(DATA a, LIMIT 1) -> {long} -> c :: Counter -> Discard;");
        let (mut router, _) = run(&config, &crate::registry());
        assert_eq!(router.read("c.byte_count"), Ok("196609".into()));
    }
}
