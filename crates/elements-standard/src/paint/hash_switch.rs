//! Selects an output by a sum of packet bytes.
//!
//! # Synopsis
//! `HashSwitch(OFFSET, LENGTH)`
//!
//! # Ports
//! One push input, one or more push outputs. Packets that are too short are emitted on output 0.
//!
//! # Configuration
//! - `OFFSET`: offset of the first byte of the sum
//! - `LENGTH`: number of bytes, at least 1
//!
//! The output is the sum of the bytes modulo the number of outputs. With 2, 4 or 8 outputs, the sum
//! is first XORed with itself shifted right by 4 bits.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! By the last byte of the source address of IPv4 in Ethernet frames.
//! ```text
//! FromDevice(eth0) -> s :: HashSwitch(29, 1); s[0] -> Queue -> …; s[1] -> Queue -> …;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Sharing};
use warpswitch_packet::Batch;

/// The class.
pub static CLASS: ElementClass = ElementClass::new("HashSwitch", "1/1-", "h/h", || {
    Box::new(HashSwitch { offset: 0, length: 0 })
});

/// See the module.
#[derive(Clone, Debug)]
pub struct HashSwitch {
    offset: u32,
    length: u32,
}

impl HashSwitch {
    /// Which of `outputs` outputs `data` goes to.
    fn output_of(&self, data: &[u8], outputs: usize) -> usize {
        let from = self.offset as usize;
        let Some(bytes) = data.get(from..from + self.length as usize) else { return 0 };
        let sum: usize = bytes.iter().map(|&byte| usize::from(byte)).sum();
        match outputs {
            2 | 4 | 8 => (sum ^ sum >> 4) & (outputs - 1),
            _ => sum % outputs,
        }
    }
}

impl Element for HashSwitch {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut length = None;
        args.read_mp("OFFSET", &mut self.offset).read_mp("LENGTH", &mut length);
        if length == Some(0) {
            args.error_at("", "length must be > 0");
        }
        self.length = length.unwrap_or(1);
        args.complete()
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        let outputs = cx.outputs();
        for packet in batch.drain() {
            let output = self.output_of(packet.data(), outputs);
            cx.emit(output, packet);
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
    use super::*;
    use warpswitch_graph::simulate::{router, run};

    #[test]
    fn bytes_say_the_output() {
        let check = |offset, length, data: &[u8], outputs, expected| {
            let output = HashSwitch { offset, length }.output_of(data, outputs);
            assert_eq!(output, expected, "{data:?}");
        };
        check(0, 1, &[7], 3, 1);
        check(1, 2, &[9, 7, 8], 5, 0);
        check(0, 1, &[0x10], 2, 1);
        check(0, 1, &[0x25], 8, 7);
        check(0, 1, &[0x11], 4, 0);
        check(2, 2, &[1, 2, 3], 7, 0);
        check(u32::MAX, u32::MAX, &[1, 2, 3], 7, 0);
        check(0, 3, &[255, 255, 255], 1, 0);
    }

    #[test]
    fn packets_go_there() {
        let config = r"InfiniteSource(DATA \<0005>, LIMIT 3) -> s :: HashSwitch(1, 1);
            InfiniteSource(DATA \<05>, LIMIT 2) -> s;
            s[0] -> a :: Counter -> Discard; s[1] -> Discard; s[2] -> b :: Counter -> Discard;";
        let (mut router_, _) = run(config, &crate::registry());
        let counts = ["a", "b"].map(|name| router_.read(&format!("{name}.count")));
        assert_eq!(counts, [Ok("2".into()), Ok("3".into())]);
        let errors = router("Idle -> HashSwitch(0, 0) -> Discard;", &crate::registry()).err();
        assert!(errors.expect("it is wrong").to_click().contains("length must be > 0"));
    }
}
