//! A trace in blocks of whole lines, so that many threads can parse it.
//!
//! The reader only cuts: it looks for the last line end of each block and counts lines. A block
//! has the number of its first line and, in the canonical form, the header line of the trace; so
//! any thread can turn it into keys, and errors are placed as if one reader had read it all.

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use warpswitch_rules::diagnostic::{Diagnostic, Diagnostics};
use warpswitch_rules::format::trace::LINE_BYTES_MAX;
use warpswitch_rules::format::{TraceFormat, TraceReader};
use warpswitch_rules::{KeyBuf, Schema};

/// Bytes of text in a block, about; some thousand keys.
const BLOCK_BYTES: usize = 256 << 10;

/// Text whose lines are whole.
#[derive(Debug, Default)]
pub struct Block {
    text: Vec<u8>,
    /// Lines of the trace before this block.
    lines_before: u32,
    format: Option<TraceFormat>,
    /// The header of the canonical form, if it stands in an earlier block.
    header: Option<Arc<[u8]>>,
}

/// Cuts a trace into blocks.
pub struct TraceBlocks {
    input: Box<dyn BufRead + Send>,
    /// The start of a line that the last block had no room for.
    carry: Vec<u8>,
    lines: u32,
    format: Option<TraceFormat>,
    header: Option<Arc<[u8]>>,
    /// Whether the rest of an overlong line is still to be passed over.
    in_overlong_line: bool,
}

impl Block {
    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Forgets the text and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
    }

    /// Appends the block's keys.
    ///
    /// # Errors
    /// Every error of the block, placed in the whole trace.
    pub fn parse(&self, name: &str, keys: &mut KeyBuf) -> Result<(), Diagnostics> {
        let header: &[u8] = self.header.as_deref().unwrap_or(&[]);
        let header_lines = u32::from(!header.is_empty());
        let input = header.chain(self.text.as_slice());
        let mut reader = TraceReader::new(name, input, keys.schema(), self.format);
        loop {
            match reader.read_batch(keys, usize::MAX) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(errors) => return self.placed(&errors, header_lines),
            }
        }
    }

    /// The errors of a block with their lines in the whole trace.
    fn placed(&self, errors: &Diagnostics, header_lines: u32) -> Result<(), Diagnostics> {
        let mut placed = Diagnostics::default();
        // An error of the header was told with the block that it stands in.
        let (told, own): (Vec<_>, Vec<_>) =
            errors.iter().partition(|error| (1..=header_lines).contains(&error.line));
        for error in own {
            let mut error = error.clone();
            if error.line > 0 {
                error.line = (error.line - header_lines).saturating_add(self.lines_before);
            }
            placed.push(error);
        }
        placed.count_only(errors.len() - told.len() - placed.len());
        placed.into_result(())
    }
}

impl TraceBlocks {
    /// Of `input`; the format is recognised by content if `None`.
    pub fn new(input: Box<dyn BufRead + Send>, format: Option<TraceFormat>) -> Self {
        Self { input, carry: Vec::new(), lines: 0, format, header: None, in_overlong_line: false }
    }

    /// Fills an empty block; it stays empty at the end of the trace.
    ///
    /// # Errors
    /// If the input cannot be read.
    pub fn fill(&mut self, block: &mut Block) -> io::Result<()> {
        if self.in_overlong_line {
            self.input.skip_until(b'\n')?;
            self.in_overlong_line = false;
        }
        block.text.append(&mut self.carry);
        let wanted = (BLOCK_BYTES - block.text.len().min(BLOCK_BYTES)) as u64;
        self.input.by_ref().take(wanted).read_to_end(&mut block.text)?;
        if block.text.len() >= BLOCK_BYTES {
            self.cut(&mut block.text);
        }
        block.lines_before = self.lines;
        block.format = self.format;
        block.header.clone_from(&self.header);
        let lines = block.text.iter().filter(|&&byte| byte == b'\n').count();
        self.lines = self.lines.saturating_add(lines as u32);
        if self.in_overlong_line {
            self.lines = self.lines.saturating_add(1);
        }
        if self.header.is_none() {
            self.find_header(&block.text);
        }
        Ok(())
    }

    /// Leaves whole lines in a full block.
    fn cut(&mut self, text: &mut Vec<u8>) {
        match text.iter().rposition(|&byte| byte == b'\n') {
            Some(last) => self.carry.extend(text.drain(last + 1..)),
            // Longer than any line may be: an error, of which the start of the line tells enough.
            None => {
                const { assert!(BLOCK_BYTES > LINE_BYTES_MAX) };
                self.in_overlong_line = true;
            }
        }
    }

    /// Looks at the first line with content, which determines the format.
    fn find_header(&mut self, text: &[u8]) {
        if self.format == Some(TraceFormat::ClassBench) {
            return;
        }
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut lines = text.split_inclusive(|&byte| byte == b'\n');
        let has_content = |line: &&[u8]| !matches!(line.trim_ascii().first(), None | Some(b'#'));
        let Some(first) = lines.find(has_content) else { return };
        let is_canonical = first.starts_with(b"keys") || self.format.is_some();
        if is_canonical {
            self.format = Some(TraceFormat::Canonical);
            self.header = Some(first.into());
        } else {
            self.format = Some(TraceFormat::ClassBench);
        }
    }
}

/// All keys of a trace in memory.
///
/// # Errors
/// Every error of the trace.
pub fn read_all(
    name: &str,
    mut blocks: TraceBlocks,
    schema: &'static Schema,
    progress: impl Fn(u64),
) -> Result<KeyBuf, Diagnostics> {
    let mut keys = KeyBuf::new(schema);
    let mut errors = Diagnostics::default();
    let mut block = Block::default();
    loop {
        block.clear();
        if let Err(error) = blocks.fill(&mut block) {
            add_read_error(&mut errors, name, &error);
            break;
        }
        if block.is_empty() {
            break;
        }
        if let Err(more) = block.parse(name, &mut keys) {
            add_errors(&mut errors, &more);
        }
        progress(keys.len() as u64);
    }
    errors.into_result(keys)
}

/// Appends the errors of a block.
pub fn add_errors(errors: &mut Diagnostics, more: &Diagnostics) {
    more.iter().for_each(|error| errors.push(error.clone()));
    errors.count_only(more.len() - more.iter().len());
}

/// Appends that the input cannot be read on.
fn add_read_error(errors: &mut Diagnostics, name: &str, error: &io::Error) {
    let message = format!("cannot read: {error}");
    errors.push(Diagnostic::whole(name, message));
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_rules::schema::IPV4_5TUPLE;

    /// What blocks yield, beside what one reader yields.
    fn check(text: &[u8], format: Option<TraceFormat>) -> Result<usize, Diagnostics> {
        let input = Box::new(io::Cursor::new(text.to_vec()));
        let blocks = TraceBlocks::new(input, format);
        let by_blocks = read_all("t", blocks, &IPV4_5TUPLE, |_| {});
        let mut whole = KeyBuf::new(&IPV4_5TUPLE);
        let mut reader = TraceReader::new("t", text, &IPV4_5TUPLE, format);
        let expected = loop {
            match reader.read_batch(&mut whole, 1000) {
                Ok(0) => break Ok(()),
                Ok(_) => {}
                Err(errors) => break Err(errors),
            }
        };
        // Excerpts of overlong lines depend on how much of one was in memory.
        let told = |errors: Option<&Diagnostics>| {
            errors.map(|errors| {
                let place = |e: &Diagnostic| (e.line, e.column, e.message.clone());
                (errors.iter().map(place).collect::<Vec<_>>(), errors.len())
            })
        };
        assert_eq!(told(by_blocks.as_ref().err()), told(expected.as_ref().err()));
        if let Ok(keys) = &by_blocks {
            assert_eq!(keys.as_batch().words(), whole.as_batch().words());
        }
        by_blocks.map(|keys| keys.len())
    }

    #[test]
    fn blocks_read_as_one_reader_does() {
        let classbench = b"1\t2\t3\t4\t6\t0\n".repeat(60_000);
        assert_eq!(check(&classbench, None), Ok(60_000));
        assert_eq!(check(&classbench[..classbench.len() - 1], None), Ok(60_000));
        let mut canonical = b"\xef\xbb\xbf# a comment\n\nkeys ipv4_5tuple\n".to_vec();
        canonical.extend(b"ipv4_src=10.0.0.1,l4_dst=80\n".repeat(30_000));
        assert_eq!(check(&canonical, None), Ok(30_000));
        assert_eq!(check(&canonical, Some(TraceFormat::Canonical)), Ok(30_000));
        assert_eq!(check(b"", None), Ok(0));
    }

    #[test]
    fn errors_have_their_places_in_the_whole() {
        let mut text = b"1\t2\t3\t4\t6\t0\n".repeat(60_000);
        text.extend(b"1 2 3 x 6\n");
        text.extend(b"1\t2\t3\t4\t6\t0\n".repeat(60_000));
        text.extend(b"1 2 3 4 999\n");
        let errors = check(&text, None).unwrap_err();
        let lines: Vec<u32> = errors.iter().map(|error| error.line).collect();
        assert_eq!(lines, [60_001, 120_002]);
        // More errors than are kept, in many blocks, and a line longer than a block.
        check(&b"x\n".repeat(500_000), None).unwrap_err();
        let mut long = b"1 2 3 4 6\n".to_vec();
        long.extend(vec![b'7'; 3 * BLOCK_BYTES]);
        long.extend(b"\n1 2 3 4 x\n");
        let errors = check(&long, None).unwrap_err();
        assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [2, 3]);
        // A bad header is told once, and the keys behind it are read for their errors.
        let mut bad = b"keys nonsense\n".to_vec();
        bad.extend(b"ipv4_src=10.0.0.1\n".repeat(40_000));
        bad.extend(b"nonsense\n");
        check(&bad, None).unwrap_err();
    }
}
