//! Where single bytes occur in a text, found out once for all literals of one byte.
//!
//! Literals of one byte are not searched for ahead: rules that have no others are asked about every
//! text that their ports allow. If each looked through the text for itself, many of them would use
//! up its work, and rules behind them would not be confirmed. So once they have looked at a text a
//! few times over, it is noted where each byte occurs first and last. From there on that answers
//! for every byte that does not occur, and for most that do, without another look.

use std::ops::Range;

use super::Text;

/// Literals of one byte may look at a text so many times over before its bytes are noted: finding
/// one byte is that much faster than noting all.
const LOOKS: usize = 16;

/// And at so many bytes beside: what noting costs for the shortest text.
const LOOKED_MIN: usize = 4096;

/// What is known of texts, all of which stay as they are until [`Singles::clear`].
#[derive(Clone, Debug, Default)]
pub(super) struct Singles {
    /// Those in use come first.
    texts: Vec<Noted>,
    in_use: usize,
}

/// What is known of one text.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    /// Which text it is: where it lies, and its bytes.
    text: (usize, usize),
    /// Bytes of it that were looked at.
    looked: usize,
    is_noted: bool,
    /// Where each byte occurs first, if it does.
    first: [u32; 256],
    /// And where its last occurrence ends; 0 if there is none.
    end: [u32; 256],
}

/// What is known of a byte in a part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It does not occur.
    Absent,
    /// It occurs here first.
    At(usize),
    /// One must look.
    Unknown,
}

impl Singles {
    /// Forgets all texts.
    pub(super) fn clear(&mut self) {
        self.in_use = 0;
    }

    /// What is known of a text.
    pub(super) fn of(&mut self, text: &Text<'_>) -> &mut Noted {
        let text = (text.bytes.as_ptr() as usize, text.bytes.len());
        let known = self.texts[..self.in_use].iter().position(|noted| noted.text == text);
        let idx = known.unwrap_or(self.in_use);
        if known.is_none() {
            self.in_use += 1;
            match self.texts.get_mut(idx) {
                Some(noted) => (noted.text, noted.looked, noted.is_noted) = (text, 0, false),
                None => self.texts.push(Noted::new(text)),
            }
        }
        &mut self.texts[idx]
    }
}

impl Noted {
    fn new(text: (usize, usize)) -> Self {
        Self { text, looked: 0, is_noted: false, first: [0; 256], end: [0; 256] }
    }

    /// Somebody looked at so many bytes. Whether noting all pays now.
    pub(super) fn is_worn(&mut self, looked: usize) -> bool {
        self.looked = self.looked.saturating_add(looked);
        !self.is_noted && self.looked > LOOKS.saturating_mul(self.text.1) + LOOKED_MIN
    }

    /// Notes where each byte occurs in the text.
    pub(super) fn note(&mut self, bytes: &[u8]) {
        debug_assert_eq!(self.text, (bytes.as_ptr() as usize, bytes.len()));
        self.first.fill(u32::MAX);
        self.end.fill(0);
        for (end, &byte) in (1..).zip(bytes) {
            self.end[usize::from(byte)] = end;
        }
        for (start, &byte) in (0..bytes.len() as u32).zip(bytes).rev() {
            self.first[usize::from(byte)] = start;
        }
        self.is_noted = true;
    }

    /// Where a byte occurs first in a part of the text; in lower case if its case counts for
    /// nothing.
    pub(super) fn find(&self, byte: u8, nocase: bool, part: &Range<usize>) -> Known {
        if !self.is_noted {
            return Known::Unknown;
        }
        let (one, other) = (byte, if nocase { byte.to_ascii_uppercase() } else { byte });
        let first = self.first[usize::from(one)].min(self.first[usize::from(other)]) as usize;
        let end = self.end[usize::from(one)].max(self.end[usize::from(other)]) as usize;
        if end <= part.start || first >= part.end {
            Known::Absent
        } else if first >= part.start {
            Known::At(first)
        } else {
            Known::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_so() {
        let bytes = b"xaBbay";
        let folded = bytes.to_ascii_lowercase();
        let text = Text { bytes, folded: &folded, from: 0, is_start: true };
        let mut singles = Singles::default();
        let noted = singles.of(&text);
        assert_eq!(noted.find(b'q', false, &(0..6)), Known::Unknown);
        noted.note(bytes);
        for (start, end) in (0..7).flat_map(|start| (start..7).map(move |end| (start, end))) {
            for (byte, nocase) in (0..=255u8).flat_map(|byte| [(byte, false), (byte, true)]) {
                if nocase && byte.is_ascii_uppercase() {
                    continue;
                }
                let seen: &[u8] = if nocase { &folded } else { bytes };
                let found = memchr::memchr(byte, &seen[start..end]).map(|at| start + at);
                match noted.find(byte, nocase, &(start..end)) {
                    Known::Absent => assert_eq!(found, None),
                    Known::At(at) => assert_eq!(found, Some(at)),
                    // It begins before the part.
                    Known::Unknown => assert!(seen[..start].contains(&byte)),
                }
            }
        }
        // What is known goes with its text.
        assert_eq!(singles.of(&text).find(b'q', false, &(0..6)), Known::Absent);
        let shorter = Text { bytes: &bytes[..5], ..text };
        assert_eq!(singles.of(&shorter).find(b'q', false, &(0..5)), Known::Unknown);
        singles.clear();
        assert_eq!(singles.of(&text).find(b'q', false, &(0..6)), Known::Unknown);
    }
}
