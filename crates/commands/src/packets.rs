//! Packets on their way through a run: read in batches, turned into keys, answered, written.

use std::path::Path;

use anyhow::Context;
use warpswitch_io::{BurstEnd, CaptureReader, IoErrorKind};
use warpswitch_rules::diagnostic::Diagnostics;
use warpswitch_rules::extract::{Extractor, NoKey};
use warpswitch_rules::format::TraceFormat;
use warpswitch_rules::schema::WORDS_MAX;
use warpswitch_rules::{KeyBuf, RuleId, Schema};
use warpswitch_wire::link::LinkType;

use crate::exit::bad_input;
use crate::live;
use crate::load;
use crate::trace_blocks::{Block, TraceBlocks};

/// Frames in a batch: enough to hide the hand-over between threads, few enough for their cache.
const BATCH_FRAMES: usize = 4096;

/// Bytes of frames in a batch, a bound for captures of large frames.
const BATCH_FRAME_BYTES: usize = 2 << 20;

/// Packets, and their fate.
#[derive(Debug)]
pub struct Batch {
    /// Lines of a trace that are not keys yet.
    block: Block,
    /// Frames that are not keys yet.
    frames: Frames,
    /// Keys of the packets that have one, in order.
    pub keys: KeyBuf,
    /// Why each frame has no key; empty for a trace.
    pub no_keys: Vec<Option<NoKey>>,
    /// The winner of each key.
    pub winners: Vec<RuleId>,
}

/// Whole frames, back to back.
#[derive(Debug, Default)]
struct Frames {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    in_port: u32,
}

/// A frame among others.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// Where it ends; it starts where the one before ends.
    end: usize,
    /// Bytes on the wire.
    wire_bytes: usize,
    link: LinkType,
}

impl Batch {
    /// An empty batch of keys of `schema`.
    pub fn new(schema: &'static Schema) -> Self {
        Self {
            block: Block::default(),
            frames: Frames::default(),
            keys: KeyBuf::new(schema),
            no_keys: Vec::new(),
            winners: Vec::new(),
        }
    }

    /// Forgets the packets and keeps the memory.
    pub fn clear(&mut self) {
        self.block.clear();
        self.frames.bytes.clear();
        self.frames.spans.clear();
        self.keys.clear();
        self.no_keys.clear();
        self.winners.clear();
    }

    /// Whether a source had nothing to fill it with.
    pub fn is_unfilled(&self) -> bool {
        self.block.is_empty() && self.frames.spans.is_empty()
    }

    /// Number of packets, once text and frames have become keys.
    pub fn len(&self) -> usize {
        if self.no_keys.is_empty() { self.keys.len() } else { self.no_keys.len() }
    }

    /// Turns lines or frames into keys; `name` is that of the source.
    ///
    /// # Errors
    /// Every error of the lines. A frame without a key is no error.
    pub fn make_keys(&mut self, name: &str) -> Result<(), Diagnostics> {
        if !self.block.is_empty() {
            return self.block.parse(name, &mut self.keys);
        }
        let schema = self.keys.schema();
        let mut key = [0; WORDS_MAX];
        let mut start = 0;
        let mut extractor = Extractor::new(schema, LinkType::Ethernet);
        let mut link = LinkType::Ethernet;
        for span in &self.frames.spans {
            if span.link != link {
                link = span.link;
                extractor = Extractor::new(schema, link);
            }
            let frame = &self.frames.bytes[start..span.end];
            start = span.end;
            let in_port = self.frames.in_port;
            let reason = extractor.extract(frame, span.wire_bytes, in_port, &mut key).err();
            if reason.is_none() {
                self.keys.push(&key);
            }
            self.no_keys.push(reason);
        }
        Ok(())
    }

    /// The answer for each packet in order: a winner, or none where there is no key.
    pub fn answers(&self) -> impl Iterator<Item = RuleId> {
        let mut winners = self.winners.iter().copied();
        let frames = !self.no_keys.is_empty();
        let mut no_keys = self.no_keys.iter();
        std::iter::from_fn(move || match frames {
            false => winners.next(),
            true => match no_keys.next()? {
                Some(_) => Some(RuleId::NONE),
                None => winners.next(),
            },
        })
    }
}

/// Where packets come from.
pub struct Source {
    name: String,
    kind: Kind,
}

enum Kind {
    /// Keys as text.
    Trace(TraceBlocks),
    /// Frames.
    Capture(Box<Capture>),
}

/// A capture that is being read.
struct Capture {
    reader: CaptureReader,
    in_port: u32,
    truncated: Option<String>,
}

impl Source {
    /// Opens a trace.
    ///
    /// # Errors
    /// Bad input if it cannot be read.
    pub fn trace(path: &Path, format: Option<TraceFormat>) -> anyhow::Result<Self> {
        let name = load::display_name(path);
        let kind = Kind::Trace(TraceBlocks::new(load::open(path, "a trace")?, format));
        Ok(Self { name, kind })
    }

    /// Opens a capture; all its frames came in on `in_port`.
    ///
    /// # Errors
    /// Bad input if it cannot be read or is no capture.
    pub fn capture(path: &Path, in_port: u32) -> anyhow::Result<Self> {
        let name = load::display_name(path);
        let reader = live::open(path)?;
        let kind = Kind::Capture(Box::new(Capture { reader, in_port, truncated: None }));
        Ok(Self { name, kind })
    }

    /// Its name, for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Fills an empty batch; none are left if it stays empty.
    ///
    /// # Errors
    /// Bad input if it cannot be read on.
    pub fn fill(&mut self, batch: &mut Batch) -> anyhow::Result<()> {
        match &mut self.kind {
            Kind::Trace(blocks) => blocks
                .fill(&mut batch.block)
                .map_err(bad_input)
                .with_context(|| format!("cannot read {}", self.name)),
            Kind::Capture(capture) => capture.fill(&mut batch.frames),
        }
    }

    /// Where and how the input was cut off, if it was.
    pub fn truncated(&self) -> Option<&str> {
        match &self.kind {
            Kind::Trace(_) => None,
            Kind::Capture(capture) => capture.truncated.as_deref(),
        }
    }
}

impl Capture {
    fn fill(&mut self, frames: &mut Frames) -> anyhow::Result<()> {
        frames.in_port = self.in_port;
        let Frames { bytes, spans, .. } = frames;
        while self.truncated.is_none() {
            let read = self.reader.read_burst(BATCH_FRAMES, |frame| {
                bytes.extend_from_slice(frame.data);
                spans.push(Span {
                    end: bytes.len(),
                    wire_bytes: frame.original_bytes,
                    link: frame.link_type,
                });
                bytes.len() < BATCH_FRAME_BYTES
            });
            match read {
                // Answers to what is there do not wait for more.
                Ok(BurstEnd::Later) if spans.is_empty() => live::wait(),
                Ok(_) => break,
                Err(error) if error.kind() == IoErrorKind::Truncated => {
                    self.truncated = Some(error.to_string());
                }
                Err(error) => return Err(bad_input(error)),
            }
        }
        Ok(())
    }
}
