//! Options that name a buffer: which one the options around them are about.
//!
//! Three ways are in use. Suricata's new words (`http.uri`) and `file_data` are about what follows
//! them; so are all words of Snort 3. The old words (`http_uri`) are about the content before them
//! in Snort 2 and Suricata; in expressions letters say the same. Which of the two an old word means
//! is known when the rule was read.

use std::ops::Range;

use super::source::{Part, Skip};
use crate::http::{Buffer, Kind};
use crate::rule::{Direction, InBuffer, Size, Step};

/// What a word about buffers names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// What follows is about this buffer; about the payload, if it is none.
    Sticky(Option<Buffer>),
    /// The content before it is, or in Snort 3 what follows.
    Modifier(Buffer),
}

impl Word {
    pub(super) fn of(keyword: &str) -> Option<Self> {
        let sticky = |buffer| Some(Self::Sticky(Some(buffer)));
        if keyword == "pkt_data" {
            return Some(Self::Sticky(None));
        }
        // Both are the same but for how they are spelt.
        let (is_new, name) = match keyword.strip_prefix("http.") {
            Some(name) => (true, name),
            None => (false, keyword.strip_prefix("http_").unwrap_or("")),
        };
        if let Some(buffer) = of_either(name) {
            return sticky(buffer);
        }
        let buffer = match (is_new, name) {
            (_, "uri") => Buffer::Uri,
            (_, "header") => Buffer::Header,
            (_, "method") => Buffer::Method,
            (_, "cookie") => Buffer::Cookie,
            (_, "user_agent") => Buffer::UserAgent,
            (_, "host") => Buffer::Host,
            (_, "stat_code") => Buffer::StatusCode,
            (_, "stat_msg") => Buffer::StatusMessage,
            (true, "uri.raw") | (false, "raw_uri") => Buffer::RawUri,
            (true, "header.raw") | (false, "raw_header") => Buffer::RawHeader,
            (true, "host.raw") | (false, "raw_host") => Buffer::RawHost,
            (false, "raw_cookie") => Buffer::Cookie,
            (true, "request_body") | (false, "client_body") => Buffer::RequestBody,
            (true, "response_body") | (false, "server_body") => Buffer::ResponseBody,
            _ if matches!(keyword, "file_data" | "file.data") => {
                return sticky(Buffer::ResponseBody);
            }
            _ => return None,
        };
        Some(if is_new { Self::Sticky(Some(buffer)) } else { Self::Modifier(buffer) })
    }
}

/// Words that are about what follows, with a dot and without.
fn of_either(name: &str) -> Option<Buffer> {
    Some(match name {
        "accept" => Buffer::Accept,
        "accept_enc" => Buffer::AcceptEncoding,
        "accept_lang" => Buffer::AcceptLanguage,
        "referer" => Buffer::Referer,
        "connection" => Buffer::Connection,
        "content_type" => Buffer::ContentType,
        "content_len" => Buffer::ContentLength,
        "location" => Buffer::Location,
        "server" => Buffer::Server,
        "header_names" => Buffer::HeaderNames,
        "request_line" => Buffer::RequestLine,
        "response_line" => Buffer::ResponseLine,
        "protocol" => Buffer::Protocol,
        "start" => Buffer::Start,
        _ => return None,
    })
}

/// The buffer that a letter behind an expression names.
pub(super) fn of_letter(letter: char) -> Option<Buffer> {
    Some(match letter {
        'U' => Buffer::Uri,
        'I' => Buffer::RawUri,
        'H' => Buffer::Header,
        'D' => Buffer::RawHeader,
        'M' => Buffer::Method,
        'C' | 'K' => Buffer::Cookie,
        'P' => Buffer::RequestBody,
        'Q' => Buffer::ResponseBody,
        'S' => Buffer::StatusCode,
        'Y' => Buffer::StatusMessage,
        'V' => Buffer::UserAgent,
        'W' => Buffer::Host,
        'Z' => Buffer::RawHost,
        _ => return None,
    })
}

/// What stands before an option, and behind it.
#[derive(Clone, Debug, Default)]
pub(super) struct Around {
    /// The buffer of the last word that is about what follows.
    sticky: Option<Buffer>,
    /// The same where old words are such too.
    sticky_snort: Option<Buffer>,
    /// The buffer that is named behind the option, or within it.
    own: Option<Buffer>,
}

/// Which buffers the options of a rule are about, as they are read.
#[derive(Debug, Default)]
pub(super) struct Arounds {
    now: Around,
    /// Of each payload option.
    each: Vec<Around>,
    /// The option that an old word would be about.
    named: Option<usize>,
    /// The rule is one of Snort 3.
    is_snort: bool,
    /// Sizes, each with whether it is about what `now` was, or a buffer it names.
    sizes: Vec<(Around, Size)>,
    /// Words so far.
    words: Vec<Named>,
}

/// A word, and how many options and sizes stand before it.
#[derive(Clone, Copy, Debug)]
struct Named {
    /// Whether it is about what follows in any rule; an old word is so only in those of Snort 3.
    is_sticky: bool,
    /// None for the payload.
    buffer: Option<Buffer>,
    before: usize,
}

/// Options by what they are about.
pub(super) struct Sorted {
    /// Of rules without buffers.
    pub(super) payload: Vec<Step>,
    pub(super) buffers: Vec<InBuffer>,
}

impl Arounds {
    /// A word that only Snort 3 has, or in a place that only it has.
    pub(super) fn note_snort(&mut self) {
        self.is_snort = true;
    }

    /// Whether old words are about what follows them, too.
    pub(super) fn is_snort(&self) -> bool {
        self.is_snort
    }

    /// Takes a word.
    pub(super) fn word(&mut self, word: Word) {
        let (is_sticky, buffer) = match word {
            Word::Sticky(buffer) => (true, buffer),
            Word::Modifier(buffer) => (false, Some(buffer)),
        };
        let before = self.each.len() + self.sizes.len();
        self.words.push(Named { is_sticky, buffer, before });
        match word {
            Word::Sticky(buffer) => {
                (self.now.sticky, self.now.sticky_snort) = (buffer, buffer);
            }
            Word::Modifier(buffer) => {
                self.now.sticky_snort = Some(buffer);
                match self.named {
                    Some(idx) => self.each[idx].own = Some(buffer),
                    None => self.is_snort = true,
                }
            }
        }
    }

    /// A payload option follows; `own` is the buffer that it names itself.
    pub(super) fn step(&mut self, is_named: bool, own: Option<Buffer>) {
        if is_named {
            self.named = Some(self.each.len());
        }
        self.each.push(Around { own, ..self.now.clone() });
    }

    /// How many bytes a buffer must have: the one it names, or the one at hand.
    pub(super) fn size(&mut self, size: Size, own: Option<Buffer>) {
        self.sizes.push((Around { own, ..self.now.clone() }, size));
    }

    fn buffer(&self, around: &Around) -> Option<Buffer> {
        match self.is_snort {
            true => around.sticky_snort,
            false => around.own.or(around.sticky),
        }
    }

    /// Whether a buffer is named and nothing is said about it before another one is.
    pub(super) fn has_idle_word(&self) -> bool {
        let sticky = self.words.iter().filter(|word| word.is_sticky || self.is_snort);
        let ends = sticky.clone().skip(1).map(|next| (next.before, next.buffer));
        let all = self.each.len() + self.sizes.len();
        let mut words = sticky.zip(ends.chain([(all, None)]));
        words.any(|(word, (end, next))| {
            word.buffer.is_some() && word.before == end && word.buffer != next
        })
    }

    /// Sorts options, of which some may have been left out.
    pub(super) fn sort(&self, steps: Vec<Option<Step>>) -> Part<Sorted> {
        let mut sorted = Sorted { payload: Vec::new(), buffers: Vec::new() };
        let mut last = None;
        for (around, step) in self.each.iter().zip(steps) {
            let mut buffer = self.buffer(around);
            let Some(step) = step else { continue };
            let has_own = matches!(step, Step::Content(_) | Step::Expression(_));
            if buffer.is_none() && !self.is_snort && !has_own && step.is_relative() {
                // It goes on where the option before it ended.
                buffer = last;
            }
            last = buffer;
            sorted.of(buffer.unwrap_or(Buffer::Whole)).steps.push(step);
        }
        for (around, size) in &self.sizes {
            let buffer = around.own.or(self.buffer(around));
            let none = || Skip::Unsupported("bsize of the payload".into());
            sorted.of(buffer.ok_or_else(none)?).sizes.push(*size);
        }
        if let [InBuffer { buffer: Buffer::Whole, steps, .. }] = &mut sorted.buffers[..] {
            sorted.payload = std::mem::take(steps);
            sorted.buffers.clear();
        }
        Ok(sorted)
    }
}

impl Sorted {
    fn of(&mut self, buffer: Buffer) -> &mut InBuffer {
        let place = self.buffers.iter().position(|of| of.buffer == buffer);
        let place = place.unwrap_or_else(|| {
            self.buffers.push(InBuffer { buffer, sizes: Vec::new(), steps: Vec::new() });
            self.buffers.len() - 1
        });
        &mut self.buffers[place]
    }

    /// Why a rule with these options cannot be looked for, if it cannot.
    pub(super) fn reason(&self, direction: Option<Direction>, has_checks: bool) -> Option<&str> {
        if self.buffers.is_empty() {
            return None;
        }
        if has_checks {
            return Some("header options beside buffers");
        }
        let has = |kind| self.buffers.iter().any(|of| of.buffer.kind() == Some(kind));
        let (asks, answers) = (has(Kind::Request), has(Kind::Response));
        if asks && answers {
            return Some("buffers of requests and of responses");
        }
        if asks && direction == Some(Direction::ToClient)
            || answers && direction == Some(Direction::ToServer)
        {
            return Some("a buffer of the other direction");
        }
        let is_foreign = self.buffers.iter().any(|of| has_foreign_variables(&of.steps));
        is_foreign.then_some("variables of another buffer")
    }
}

/// Whether options ask for a variable that none before them sets.
fn has_foreign_variables(steps: &[Step]) -> bool {
    let mut known = Vec::new();
    for step in steps {
        if step.variables().any(|variable| !known.contains(&variable)) {
            return true;
        }
        if let Step::ByteSet(set) = step {
            known.push(set.variable);
        }
    }
    false
}

/// The buffer of `urilen`, and the place of its number: `N[,raw|norm]`.
pub(super) fn urilen(parts: &[(Range<usize>, String)]) -> Option<(Range<usize>, Buffer)> {
    match parts {
        [(span, _)] => Some((span.clone(), Buffer::Uri)),
        [(span, _), (_, word)] if word == "norm" => Some((span.clone(), Buffer::Uri)),
        [(span, _), (_, word)] if word == "raw" => Some((span.clone(), Buffer::RawUri)),
        _ => None,
    }
}
