//! Bytes that the payloads of generated frames have.

/// Bytes that go to payloads one behind the other, over and over; without any, payloads stay as
/// they are.
#[derive(Clone, Debug, Default)]
pub struct Payloads {
    bytes: Vec<u8>,
    next: usize,
}

impl From<Vec<u8>> for Payloads {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, next: 0 }
    }
}

impl Payloads {
    /// Fills a payload with the next bytes.
    pub(super) fn fill(&mut self, mut payload: &mut [u8]) {
        while !payload.is_empty() && !self.bytes.is_empty() {
            let rest = &self.bytes[self.next..];
            let len = rest.len().min(payload.len());
            let (now, later) = payload.split_at_mut(len);
            now.copy_from_slice(&rest[..len]);
            self.next = (self.next + len) % self.bytes.len();
            payload = later;
        }
    }
}
