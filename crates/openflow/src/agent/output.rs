//! The bytes that wait to be sent to a controller.

use std::collections::VecDeque;

/// Encoded messages behind one another. Packet-in messages among them are counted, so that their
/// number can be limited.
#[derive(Default)]
pub(super) struct Output {
    bytes: Vec<u8>,
    /// Bytes of `bytes` that were sent.
    sent: usize,
    /// Bytes sent before those in `bytes`.
    offset: u64,
    /// For each packet-in message that waits, the offset of its end in the stream.
    packet_in_ends: VecDeque<u64>,
}

impl Output {
    /// Sent bytes are removed when so many have gathered.
    const COMPACT_BYTES: usize = 64 * 1024;

    pub fn push(&mut self, message: &[u8]) {
        self.bytes.extend_from_slice(message);
    }

    pub fn push_packet_in(&mut self, message: &[u8]) {
        self.push(message);
        self.packet_in_ends.push_back(self.offset + self.bytes.len() as u64);
    }

    pub fn packet_ins(&self) -> usize {
        self.packet_in_ends.len()
    }

    pub fn waiting(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Removes bytes that were sent.
    pub fn advance(&mut self, len: usize) {
        self.sent = (self.sent + len).min(self.bytes.len());
        let position = self.offset + self.sent as u64;
        while self.packet_in_ends.front().is_some_and(|&end| end <= position) {
            self.packet_in_ends.pop_front();
        }
        if self.sent == self.bytes.len() || self.sent >= Self::COMPACT_BYTES {
            self.bytes.drain(..self.sent);
            self.offset = position;
            self.sent = 0;
            self.bytes.shrink_to(2 * Self::COMPACT_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_packet_ins_until_their_last_byte_was_sent() {
        let mut output = Output::default();
        output.push(&[1; 10]);
        output.push_packet_in(&[2; 10]);
        output.push_packet_in(&[3; 10]);
        for (len, packet_ins) in [(10, 2), (9, 2), (1, 1), (0, 1)] {
            output.advance(len);
            assert_eq!(output.packet_ins(), packet_ins);
        }
        assert_eq!(output.waiting(), [3; 10]);
        output.advance(11);
        assert_eq!((output.packet_ins(), output.waiting().len()), (0, 0));
    }
}
