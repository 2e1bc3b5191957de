//! Lists of patterns: byte strings, each with its case rule and its number.

use crate::error::{ErrorKind, ScanError};

/// The most bytes of one pattern.
pub const PATTERN_BYTES_MAX: usize = 8192;

/// The most patterns of a list.
pub const PATTERNS_MAX: usize = 1 << 20;

/// The most bytes of all patterns of a list together: what bounds the memory of a scanner.
pub const PATTERNS_BYTES_MAX: usize = 16 << 20;

/// The number of a pattern: its place in the list, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PatternId(pub u32);

/// Whether the letters A to Z and a to z are the same to a pattern. No other byte is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Case {
    /// Bytes are what they are.
    Sensitive,
    /// `a` and `A` are the same.
    Insensitive,
}

/// One pattern of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pattern<'a> {
    /// What is searched for: one byte at least.
    pub bytes: &'a [u8],
    /// How letters compare.
    pub case: Case,
}

impl Pattern<'_> {
    /// Whether the pattern is what `bytes` ends with. Defines what an occurrence is.
    pub fn ends(&self, bytes: &[u8]) -> bool {
        let Some(start) = bytes.len().checked_sub(self.bytes.len()) else { return false };
        match self.case {
            Case::Sensitive => bytes[start..] == *self.bytes,
            Case::Insensitive => bytes[start..].eq_ignore_ascii_case(self.bytes),
        }
    }
}

/// Many patterns. Two may be equal: each has its own number, and both occur where one does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns {
    bytes: Vec<u8>,
    /// Where each ends in `bytes`.
    ends: Vec<u32>,
    cases: Vec<Case>,
}

impl Patterns {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a pattern; its number is the next one.
    ///
    /// # Errors
    /// If it is empty or too long, or the list is full.
    pub fn push(&mut self, bytes: &[u8], case: Case) -> Result<PatternId, ScanError> {
        if bytes.is_empty() {
            let message = "empty pattern would match everywhere; remove it";
            return Err(ScanError::new(ErrorKind::EmptyPattern, message));
        }
        if bytes.len() > PATTERN_BYTES_MAX {
            let len = bytes.len();
            let message = format!("pattern of {len} bytes; expected at most {PATTERN_BYTES_MAX}");
            return Err(ScanError::new(ErrorKind::PatternTooLong, message));
        }
        let whole = self.bytes.len() + bytes.len();
        if self.len() == PATTERNS_MAX || whole > PATTERNS_BYTES_MAX {
            let message = format!(
                "too many patterns; expected at most {PATTERNS_MAX} patterns of \
                    {PATTERNS_BYTES_MAX} bytes in total"
            );
            return Err(ScanError::new(ErrorKind::TooManyPatterns, message));
        }
        let id = PatternId(self.len() as u32);
        self.bytes.extend_from_slice(bytes);
        self.ends.push(whole as u32);
        self.cases.push(case);
        Ok(id)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of the longest, 0 if there is none.
    pub fn longest_bytes(&self) -> usize {
        self.iter().map(|(_, pattern)| pattern.bytes.len()).max().unwrap_or(0)
    }

    /// The pattern of that number.
    ///
    /// # Panics
    /// If the list gave no such number.
    pub fn get(&self, id: PatternId) -> Pattern<'_> {
        let idx = id.0 as usize;
        let start = if idx == 0 { 0 } else { self.ends[idx - 1] as usize };
        Pattern { bytes: &self.bytes[start..self.ends[idx] as usize], case: self.cases[idx] }
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = (PatternId, Pattern<'_>)> {
        (0..self.len() as u32).map(|id| (PatternId(id), self.get(PatternId(id))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_numbered_and_bounds_are_said() {
        let mut list = Patterns::new();
        assert_eq!(list.push(b"abc", Case::Sensitive), Ok(PatternId(0)));
        assert_eq!(list.push(b"abc", Case::Insensitive), Ok(PatternId(1)));
        let kind = |result: Result<PatternId, ScanError>| result.unwrap_err().kind();
        assert_eq!(kind(list.push(b"", Case::Sensitive)), ErrorKind::EmptyPattern);
        let long = vec![b'x'; PATTERN_BYTES_MAX + 1];
        assert_eq!(kind(list.push(&long, Case::Sensitive)), ErrorKind::PatternTooLong);
        assert_eq!((list.len(), list.longest_bytes()), (2, 3));
        for _ in 0..PATTERNS_BYTES_MAX / PATTERN_BYTES_MAX - 1 {
            list.push(&long[1..], Case::Sensitive).unwrap();
        }
        assert_eq!(kind(list.push(&long[1..], Case::Sensitive)), ErrorKind::TooManyPatterns);
    }

    #[test]
    fn case_concerns_letters_alone() {
        let ends = |bytes: &[u8], case, text: &[u8]| Pattern { bytes, case }.ends(text);
        assert!(ends(b"Get", Case::Insensitive, b"xgET"));
        assert!(!ends(b"Get", Case::Sensitive, b"xgET"));
        assert!(!ends(b"[", Case::Insensitive, b"{"));
        assert!(!ends(b"\xe4", Case::Insensitive, b"\xc4"));
        assert!(!ends(b"abc", Case::Insensitive, b"bc"));
    }
}
