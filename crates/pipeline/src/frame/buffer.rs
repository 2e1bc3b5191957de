//! The bytes of a packet in work, copy-on-write: those of the caller until something changes them,
//! then a copy with room in front, so that a push moves the Ethernet addresses and nothing else.

/// Room in front of a copied frame: seven PBB headers, or 32 labels. More room is made on demand.
const HEADROOM_BYTES: usize = 128;

/// Frame bytes, the caller's or a copy.
#[derive(Debug)]
pub(crate) enum Bytes<'f> {
    /// As they came.
    Shared(&'f [u8]),
    /// A copy: `bytes[start..]`.
    Own {
        /// Headroom and frame.
        bytes: Vec<u8>,
        /// Where the frame starts.
        start: usize,
    },
}

impl<'f> Bytes<'f> {
    /// The frame.
    #[inline]
    pub(crate) fn get(&self) -> &[u8] {
        match self {
            Bytes::Shared(frame) => frame,
            Bytes::Own { bytes, start } => &bytes[*start..],
        }
    }

    /// The frame, to be changed in place; `spare` are buffers to use for a copy.
    pub(crate) fn get_mut(&mut self, spare: &mut Vec<Vec<u8>>) -> &mut [u8] {
        let (bytes, start) = self.own(spare);
        &mut bytes[*start..]
    }

    /// Another packet with the same bytes.
    pub(crate) fn fork(&self, spare: &mut Vec<Vec<u8>>) -> Self {
        match self {
            Bytes::Shared(frame) => Bytes::Shared(frame),
            Bytes::Own { .. } => copy(self.get(), spare),
        }
    }

    /// Puts a buffer back.
    pub(crate) fn retire(self, spare: &mut Vec<Vec<u8>>) {
        if let Bytes::Own { bytes, .. } = self {
            spare.push(bytes);
        }
    }

    /// Makes room for `count` bytes, which are zero, behind the first `keep` bytes.
    pub(crate) fn insert(&mut self, keep: usize, count: usize, spare: &mut Vec<Vec<u8>>) {
        let (bytes, start) = self.own(spare);
        if *start < count {
            let missing = count - *start + HEADROOM_BYTES;
            bytes.splice(0..0, std::iter::repeat_n(0, missing));
            *start += missing;
        }
        bytes.copy_within(*start..*start + keep, *start - count);
        *start -= count;
        bytes[*start + keep..*start + keep + count].fill(0);
    }

    /// Takes out `count` bytes behind the first `keep` bytes.
    pub(crate) fn remove(&mut self, keep: usize, count: usize, spare: &mut Vec<Vec<u8>>) {
        let (bytes, start) = self.own(spare);
        bytes.copy_within(*start..*start + keep, *start + count);
        *start += count;
    }

    /// Adds zero bytes behind the frame up to a length.
    pub(crate) fn pad(&mut self, len: usize, spare: &mut Vec<Vec<u8>>) {
        if self.get().len() < len {
            let (bytes, start) = self.own(spare);
            bytes.resize(*start + len, 0);
        }
    }

    /// Takes away what is behind the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        match self {
            Bytes::Shared(frame) => *frame = &frame[..len],
            Bytes::Own { bytes, start } => bytes.truncate(*start + len),
        }
    }

    fn own(&mut self, spare: &mut Vec<Vec<u8>>) -> (&mut Vec<u8>, &mut usize) {
        if let Bytes::Shared(frame) = *self {
            *self = copy(frame, spare);
        }
        match self {
            Bytes::Own { bytes, start } => (bytes, start),
            Bytes::Shared(_) => unreachable!("it was copied above"),
        }
    }
}

fn copy<'f>(frame: &[u8], spare: &mut Vec<Vec<u8>>) -> Bytes<'f> {
    let mut bytes = spare.pop().unwrap_or_default();
    bytes.clear();
    bytes.resize(HEADROOM_BYTES, 0);
    bytes.extend_from_slice(frame);
    Bytes::Own { bytes, start: HEADROOM_BYTES }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_beyond_the_headroom_make_room() {
        let frame: Vec<u8> = (0..20).collect();
        let mut spare = Vec::new();
        let mut bytes = Bytes::Shared(&frame);
        for _ in 0..50 {
            bytes.insert(12, 4, &mut spare);
        }
        assert_eq!(bytes.get().len(), 220);
        assert_eq!((&bytes.get()[..12], &bytes.get()[212..]), (&frame[..12], &frame[12..]));
        assert!(bytes.get()[12..212].iter().all(|&byte| byte == 0));
        for _ in 0..50 {
            bytes.remove(12, 4, &mut spare);
        }
        assert_eq!(bytes.get(), frame);
        bytes.pad(60, &mut spare);
        assert_eq!((bytes.get().len(), &bytes.get()[..20]), (60, &frame[..]));
        bytes.truncate(20);
        assert_eq!(bytes.get(), frame);
        bytes.retire(&mut spare);
        assert_eq!(spare.len(), 1);
    }
}
