//! What is searched, and for what: patterns of a file, payloads of captures and of random bytes.

use std::fs;
use std::path::Path;

use anyhow::Context;
use warpswitch_gpu::scan::{PAGE_WORDS, ScanImage, write_pages};
use warpswitch_rules::generate::Prng;
use warpswitch_scan::{Case, PatternId, Patterns};

use super::super::gpu::measure::Words;
use crate::exit::bad_input;

/// Bytes of random payloads: more than a core's caches hold.
const RANDOM_BYTES: usize = 8 << 20;
/// One random payload of so many has a pattern in it.
const PLANTED: usize = 16;

/// Reads patterns: lines `i HEX` (insensitive) or `- HEX`.
///
/// # Errors
/// A file that cannot be read; an invalid line; a list past its bounds.
pub fn patterns(path: &Path) -> anyhow::Result<Patterns> {
    let shown = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let mut list = Patterns::new();
    for (idx, line) in text.lines().enumerate() {
        let Some((case, bytes)) = pattern(line) else {
            let line = idx + 1;
            return Err(bad_input(format!(
                "{shown}:{line}: invalid pattern; expected 'i HEX' or '- HEX', two digits per \
                    byte"
            )));
        };
        list.push(&bytes, case)
            .map_err(|wrong| bad_input(format!("{shown}:{}: {wrong}", idx + 1)))?;
    }
    Ok(list)
}

fn pattern(line: &str) -> Option<(Case, Vec<u8>)> {
    let (flag, hex) = line.split_once(' ')?;
    let case = match flag {
        "i" => Case::Insensitive,
        "-" => Case::Sensitive,
        _ => return None,
    };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let (pairs, []) = hex.as_bytes().as_chunks::<2>() else { return None };
    let bytes = pairs.iter().map(|[a, b]| Some((digit(a)? << 4 | digit(b)?) as u8));
    Some((case, bytes.collect::<Option<_>>()?))
}

/// Payloads of one length, and the pages that they are in.
pub struct Traffic {
    pub name: &'static str,
    /// Bytes of each payload.
    pub size: usize,
    bytes: Vec<u8>,
    pages: Vec<u32>,
}

impl Traffic {
    /// Bytes, cut into payloads.
    pub fn new(name: &'static str, mut bytes: Vec<u8>, size: usize) -> Self {
        bytes.truncate((bytes.len() / size).max(1) * size);
        let size = size.min(bytes.len());
        let pages = write_pages(bytes.chunks_exact(size));
        Self { name, size, bytes, pages }
    }

    /// Random bytes, with patterns in some payloads.
    pub fn random(patterns: &Patterns, size: usize) -> Self {
        let mut draw = Prng::new(21);
        let words = (0..RANDOM_BYTES / 8).flat_map(|_| draw.next_u64().to_le_bytes());
        let mut bytes: Vec<u8> = words.collect();
        for payload in bytes.chunks_exact_mut(size).step_by(PLANTED) {
            if !patterns.is_empty() {
                let id = PatternId(draw.index(patterns.len()) as u32);
                let pattern = patterns.get(id).bytes;
                let len = pattern.len().min(size);
                let at = draw.index(size - len + 1);
                payload[at..at + len].copy_from_slice(&pattern[..len]);
            }
        }
        Self::new("random", bytes, size)
    }

    /// The payloads.
    pub fn payloads(&self) -> Vec<&[u8]> {
        self.bytes.chunks_exact(self.size).collect()
    }

    /// The pages, as keys.
    pub fn words(&self) -> Words<'_> {
        Words::new(&self.pages, ScanImage::FORM)
    }

    /// Payloads of a page, on average.
    pub fn payloads_per_page(&self) -> f64 {
        let pages = self.pages.len() / PAGE_WORDS;
        (self.bytes.len() / self.size) as f64 / pages as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_patterns_or_refused() {
        assert_eq!(pattern("i 41fF"), Some((Case::Insensitive, vec![0x41, 0xff])));
        assert_eq!(pattern("- 00"), Some((Case::Sensitive, vec![0])));
        for line in ["", "i", "x 41", "i 4", "i 4g", "i +1", "- 41 42"] {
            assert_eq!(pattern(line), None, "{line}");
        }
    }

    #[test]
    fn payloads_have_the_size_that_was_asked_for() {
        let traffic = Traffic::new("some", vec![7; 1000], 64);
        assert_eq!((traffic.payloads().len(), traffic.words().len()), (15, 1));
        assert_eq!(traffic.payloads_per_page(), 15.0);
        assert_eq!(Traffic::new("few", vec![7; 10], 64).payloads(), [&[7; 10]]);
    }
}
