//! Whole IPv4 headers: checked, routed and made ready to be sent on, in one pass.
//!
//! What `CheckIPHeader`, a lookup and `DecIPTTL` do one after the other, for packets of which only
//! the header goes to a device and comes back.
//!
//! ```text
//! slice in    first 60 bytes from the IPv4 header on, zeros where there are fewer │ bytes, 32 bits
//! slice out   the same, one less to live if it is sent on                 │ hop, 16 │ verdict, 16
//! ```

use warpswitch_routes::NextHop;
use warpswitch_wire::checksum::{is_intact, update_u16};
use warpswitch_wire::ipv4::{HEADER_BYTES, Ipv4};

use crate::image::Patch;
use crate::kernels::Kernel;
use crate::work::{Form, Lookup, PatchWork, Work};

use super::image::{RouteImage, RouteWork};

/// Bytes of a packet that a slice has: the longest header.
pub const SLICE_BYTES: usize = 60;
/// Words of a slice.
pub const SLICE_WORDS: usize = 16;

/// What became of a packet. The first of these that holds, in this order but for the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Verdict {
    /// It is sent on: its header has one less to live.
    SentOn,
    /// It is shorter than a header.
    Tiny,
    /// Its version is not 4.
    BadVersion,
    /// Its header is said to be shorter than one.
    BadHeaderLength,
    /// It is shorter than it says, or says that it is shorter than its header.
    BadLength,
    /// Its checksum is wrong.
    BadChecksum,
    /// No route leads to its destination.
    NoRoute,
    /// Its time to live is 0 or 1.
    Expired,
}

impl Verdict {
    /// Every verdict, by number.
    pub const ALL: [Self; 8] = [
        Self::SentOn,
        Self::Tiny,
        Self::BadVersion,
        Self::BadHeaderLength,
        Self::BadLength,
        Self::BadChecksum,
        Self::NoRoute,
        Self::Expired,
    ];
}

/// A packet's header, on its way in or out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    words: [u32; SLICE_WORDS],
}

impl Slice {
    /// The slice of a packet, whose bytes begin with its IPv4 header.
    pub fn new(packet: &[u8]) -> Self {
        let mut bytes = [0; SLICE_BYTES];
        let len = packet.len().min(SLICE_BYTES);
        bytes[..len].copy_from_slice(&packet[..len]);
        let mut slice = Self { words: [0; SLICE_WORDS] };
        slice.set_bytes(&bytes);
        // No IPv4 packet says that it has more.
        slice.words[SLICE_WORDS - 1] = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        slice
    }

    /// A slice of just these words.
    pub fn from_words(words: [u32; SLICE_WORDS]) -> Self {
        Self { words }
    }

    /// Its words.
    pub fn words(&self) -> &[u32; SLICE_WORDS] {
        &self.words
    }

    /// The packet's first bytes.
    pub fn bytes(&self) -> [u8; SLICE_BYTES] {
        let mut bytes = [0; SLICE_BYTES];
        for (four, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(self.words) {
            *four = word.to_le_bytes();
        }
        bytes
    }

    fn set_bytes(&mut self, bytes: &[u8; SLICE_BYTES]) {
        for (word, four) in self.words.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*four);
        }
    }

    /// What became of it, and the hop, or [`NextHop::NONE`] where none was looked up or found. Of a
    /// slice that came back.
    pub fn outcome(&self) -> (Verdict, NextHop) {
        let word = self.words[SLICE_WORDS - 1];
        let verdict = Verdict::ALL.get((word >> 16) as usize);
        (*verdict.expect("a verdict of ours"), NextHop(word as u16))
    }

    /// Does to a slice what the kernel does, by functions of `wire`; `route` has the hops.
    pub fn forward(&mut self, route: impl FnOnce(u32) -> NextHop) {
        let (mut bytes, mut hop) = (self.bytes(), NextHop::NONE);
        let mut verdict = check(&bytes, self.words[SLICE_WORDS - 1] as usize);
        if verdict == Verdict::SentOn {
            let mut view = Ipv4::new_unchecked(&mut bytes);
            hop = route(view.dst().to_bits());
            if !hop.is_some() {
                verdict = Verdict::NoRoute;
            } else if view.ttl() <= 1 {
                verdict = Verdict::Expired;
            } else {
                let (ttl, proto) = (view.ttl(), view.proto().0);
                let word = |ttl: u8| u16::from_be_bytes([ttl, proto]);
                let checksum = update_u16(view.checksum(), word(ttl), word(ttl - 1));
                view.set_ttl(ttl - 1);
                view.set_checksum(checksum);
                self.set_bytes(&bytes);
            }
        }
        self.words[SLICE_WORDS - 1] = u32::from(hop.0) | (verdict as u32) << 16;
    }
}

/// What is wrong with the header of a packet of `packet_bytes`; [`Verdict::SentOn`] if nothing is.
fn check(bytes: &[u8; SLICE_BYTES], packet_bytes: usize) -> Verdict {
    let view = Ipv4::new_unchecked(bytes);
    let (header_bytes, total_bytes) = (view.header_bytes(), view.total_bytes());
    if packet_bytes < HEADER_BYTES {
        Verdict::Tiny
    } else if view.version() != 4 {
        Verdict::BadVersion
    } else if header_bytes < HEADER_BYTES {
        Verdict::BadHeaderLength
    } else if total_bytes > packet_bytes || total_bytes < header_bytes {
        Verdict::BadLength
    } else if !is_intact(&bytes[..header_bytes]) {
        Verdict::BadChecksum
    } else {
        Verdict::SentOn
    }
}

/// Routes to IPv4 addresses, for the kernel that takes whole headers.
#[derive(Clone, Debug)]
pub struct HeaderImage {
    routes: RouteImage<u32>,
}

impl HeaderImage {
    /// How wide slices are.
    pub const FORM: Form =
        Form { key_words: SLICE_WORDS, answer_bytes: 4 * SLICE_WORDS, packed: false };

    /// Answers a slice on this thread.
    pub fn forward(&self, slice: &mut Slice) {
        slice.forward(|dst| self.routes.lookup(dst));
    }
}

impl PatchWork for HeaderImage {
    fn patch(&mut self, patch: &Patch) {
        self.routes.patch(patch);
    }
}

impl RouteWork for HeaderImage {
    fn new(words: Vec<u32>) -> Self {
        Self { routes: RouteImage::new(words) }
    }
}

impl Lookup for HeaderImage {
    fn answer(&self, keys: &[u32], out: &mut [u32]) {
        let slices = keys.as_chunks::<SLICE_WORDS>().0;
        for (&words, out) in slices.iter().zip(out.as_chunks_mut::<SLICE_WORDS>().0) {
            let mut slice = Slice { words };
            self.forward(&mut slice);
            *out = slice.words;
        }
    }
}

impl Work for HeaderImage {
    type Answer = Slice;

    fn form(&self) -> Form {
        Self::FORM
    }

    fn kernel(&self) -> Kernel {
        Kernel::Header4
    }

    fn words(&self) -> &[u32] {
        self.routes.words()
    }

    fn unpack(words: &[u32], out: &mut [Slice]) {
        for (slice, words) in out.iter_mut().zip(words.as_chunks::<SLICE_WORDS>().0) {
            slice.words = *words;
        }
    }
}
