//! The options of a rule: `keyword;` and `keyword:value;`, between parentheses.

use std::ops::Range;

use warpswitch_rules::diagnostic::Diagnostics;

use super::buffers::{self, Arounds, Sorted, Word};
use super::bytes::{Bytes, Names};
use super::classes::{PRIORITY_USUAL, class};
use super::flowbits::{self, BitOption};
use super::numbers::FlowWords;
use super::payload::{self, Draft, Modifier};
use super::said::Said;
use super::source::{Part, Skip, Source};
use super::threshold::threshold;
use super::{never, note, numbers, pcre, quotes, said};
use crate::http::Buffer;
use crate::rule::{About, Check, Field, FlowTest, InBuffer, RemarkKind, STEPS_MAX, Size, Step};
use crate::threshold::Threshold;

/// Options that say nothing about packets: what a rule is about, how to search for it
/// (`prefilter`), and what else to record once it was found (`tag`, `logto`, `session`). `service`
/// names what a flow carries, for a detection that is not here: rules look at their ports.
const SILENT: [&str; 10] = [
    "reference",
    "metadata",
    "service",
    "rem",
    "target",
    "rawbytes",
    "prefilter",
    "tag",
    "logto",
    "session",
];

/// Options that have modifiers as `nocase` and `offset`.
const CONTENTS: [&str; 3] = ["content", "uricontent", "protected_content"];

/// Newer names of options, and those that they have here.
const NEWER: [(&str, &str); 4] =
    [("tcp.flags", "flags"), ("tcp.seq", "seq"), ("tcp.ack", "ack"), ("tcp.window", "window")];

/// What the options of a rule say.
pub(super) struct Body {
    pub(super) about: About,
    pub(super) flow: FlowTest,
    pub(super) checks: Vec<Check>,
    pub(super) steps: Vec<Step>,
    pub(super) buffers: Vec<InBuffer>,
    pub(super) bits: Vec<BitOption>,
    pub(super) no_alert: bool,
    pub(super) threshold: Option<Threshold>,
    /// What was hardly meant so.
    pub(super) odd: Vec<RemarkKind>,
}

/// One option.
struct Opt {
    name: Range<usize>,
    value: Option<Range<usize>>,
}

/// A payload option whose modifiers may still come.
enum Open {
    Content(Draft),
    Ready(Step),
}

/// The options of one rule, as they are read.
pub(super) struct Options<'a> {
    source: &'a Source<'a>,
    /// Where the rule begins, and where it ends at the latest.
    rule: usize,
    at: usize,
    end: usize,
}

impl<'a> Options<'a> {
    /// Those that begin behind a parenthesis, of the rule that begins at `rule`.
    pub(super) fn new(source: &'a Source<'a>, rule: usize, span: Range<usize>) -> Self {
        Self { source, rule, at: span.start, end: span.end }
    }

    /// Tells an error at `span`, unless it is that reading stopped at `at`, where the rule has
    /// become longer than rules may be.
    fn tell(
        &self,
        errors: &mut Diagnostics,
        at: usize,
        span: Range<usize>,
        (message, expected): (&str, &str),
    ) {
        match at >= self.end && self.end < self.source.bytes.len() {
            true => self.source.tell_long_rule(errors, self.rule),
            false => _ = self.source.tell(errors, span, message, expected, ""),
        }
    }

    /// Where reading stopped: behind the rule once it was read.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Reads all options.
    ///
    /// An error, which was told, means that the rule does not end.
    pub(super) fn read(
        &mut self,
        errors: &mut Diagnostics,
        keywords: &mut Vec<String>,
    ) -> Result<Body, ()> {
        let start = self.at;
        let mut rule = Draftsman::new(self.source);
        while let Some(option) = self.next(start - 1, errors)? {
            rule.option(&option, errors, keywords);
        }
        let whole = start - 1..self.at;
        Ok(rule.finish(whole, errors, keywords))
    }

    /// The next option of those that `open` begins; none behind the last.
    fn next(&mut self, open: usize, errors: &mut Diagnostics) -> Result<Option<Opt>, ()> {
        let bytes = self.source.bytes;
        self.skip_blanks();
        if self.at < self.end && bytes[self.at] == b')' {
            self.at += 1;
            return Ok(None);
        }
        let start = self.at;
        while self.at < self.end && quotes::is_name(bytes[self.at]) {
            self.at += 1;
        }
        let name = start..self.at;
        if name.is_empty() {
            let (at, message) = if start >= self.end {
                (open, "the rule does not end")
            } else {
                (start, "no option begins so")
            };
            self.tell(errors, start, at..at + 1, (message, "a keyword, or ) at the end"));
            return Err(());
        }
        self.skip_blanks();
        match bytes[..self.end].get(self.at) {
            Some(b';') => {
                self.at += 1;
                Ok(Some(Opt { name, value: None }))
            }
            Some(b':') => {
                let value = self.value(self.at + 1, &name, errors)?;
                Ok(Some(Opt { name, value: Some(value) }))
            }
            // The next rule: this one has no end.
            _ if super::ACTIONS.contains(&&*self.source.text(&name)) => {
                let line = self.source.line_of(start);
                let help = format!("what stands in line {line} looks like the next rule");
                let (at, message) = (open..open + 1, "the rule does not end");
                self.source.tell(errors, at, message, "a ) behind its options", &help);
                Err(())
            }
            _ => {
                let message = "an option that does not end";
                self.tell(errors, self.at, name, (message, "; or :VALUE; behind it"));
                Err(())
            }
        }
    }

    /// The value from `start` to the next semicolon that is not quoted.
    fn value(
        &mut self,
        start: usize,
        name: &Range<usize>,
        errors: &mut Diagnostics,
    ) -> Result<Range<usize>, ()> {
        let bytes = self.source.bytes;
        let first = bytes[start..self.end].iter().find(|b| !b.is_ascii_whitespace() && **b != b'!');
        let has_quotes = first == Some(&b'"');
        let (mut at, mut is_quoted) = (start, false);
        while at < self.end {
            match bytes[at] {
                b'\\' => at += self.source.blank_bytes(at, self.end).max(2) - 1,
                b'"' if has_quotes && !is_quoted => is_quoted = true,
                // A quote within, as expressions have it: only one before an end ends the text.
                b'"' if has_quotes => is_quoted = !self.ends_text(at + 1),
                b';' if !is_quoted => {
                    self.at = at + 1;
                    return Ok(self.source.trim(start..at));
                }
                b'\n' => break,
                _ => {}
            }
            at += 1;
        }
        let end = at.min(self.end);
        let is_expression = bytes[name.clone()] == *b"pcre";
        let behind = quotes::behind(bytes, start..end, is_expression).filter(|_| is_quoted);
        let (span, told) = match behind {
            // It is the semicolon that is not there.
            Some(behind) if quotes::ends_rule(&bytes[behind..end]) => {
                (behind..behind, ("a value that does not end", "; behind it"))
            }
            Some(behind) => (behind..behind, quotes::GOES_ON),
            None if is_quoted => {
                let told = ("quotes that do not end", "a quote before the line ends");
                (name.start..end, told)
            }
            None => (name.start..end, ("a value that does not end", "; behind it")),
        };
        self.tell(errors, at, span, told);
        Err(())
    }

    /// Whether a text may end before `at`: a value or a modifier ends there.
    fn ends_text(&self, at: usize) -> bool {
        let rest = self.source.bytes[..self.end].get(at..).unwrap_or(&[]);
        let next = rest.iter().find(|byte| !byte.is_ascii_whitespace());
        next.is_none_or(|byte| b";,".contains(byte))
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.source.blank_bytes(self.at.min(self.end), self.end) {
                0 => return,
                blank => self.at += blank,
            }
        }
    }
}

/// Puts a rule's options together.
struct Draftsman<'a> {
    source: &'a Source<'a>,
    about: About,
    /// Options that name the rule, and what they said.
    said: Said,
    flow: FlowWords,
    checks: Vec<Check>,
    steps: Vec<Open>,
    /// What the steps are about.
    arounds: Arounds,
    bits: Vec<BitOption>,
    no_alert: bool,
    threshold: Option<Threshold>,
    /// Its variables.
    names: Names,
    /// The content before is not supported: its modifiers are not read.
    is_content_lost: bool,
    /// The old word behind the content, or the expression, at hand.
    named: Option<String>,
    /// The last option about the bytes of a buffer.
    size_name: String,
    /// Contents of two buffers, unless the rule is one of Snort 3.
    odd: Vec<RemarkKind>,
}

impl<'a> Draftsman<'a> {
    fn new(source: &'a Source<'a>) -> Self {
        let about = About {
            sid: 0,
            gid: 1,
            rev: 0,
            msg: String::new(),
            classtype: String::new(),
            priority: PRIORITY_USUAL,
            file: 0,
            line: 0,
        };
        Self {
            source,
            about,
            said: Said::default(),
            flow: FlowWords::default(),
            checks: Vec::new(),
            steps: Vec::new(),
            arounds: Arounds::default(),
            bits: Vec::new(),
            no_alert: false,
            threshold: None,
            names: Names::default(),
            is_content_lost: false,
            named: None,
            size_name: String::new(),
            odd: Vec::new(),
        }
    }

    fn option(&mut self, option: &Opt, errors: &mut Diagnostics, keywords: &mut Vec<String>) {
        let mut name = self.source.text(&option.name);
        if let Some((_, known)) = NEWER.iter().find(|(newer, _)| *newer == name) {
            (*known).clone_into(&mut name);
        }
        if name == "service" {
            self.arounds.note_snort();
        }
        if SILENT.contains(&name.as_str()) {
            return;
        }
        let done = match name.as_str() {
            "msg" | "classtype" | "sid" | "gid" | "rev" | "priority" => {
                self.say(&name, option, errors)
            }
            "content" | "pcre" | "isdataat" | "byte_test" | "byte_jump" | "byte_extract"
            | "byte_math" => self.step(&name, option, errors),
            "urilen" | "bufferlen" | "bsize" => self.size(&name, option, errors),
            "flow" | "flags" | "sameip" | "ip_proto" => self.head(&name, option, errors),
            "flowbits" | "noalert" => self.bit(&name, option, errors),
            "threshold" | "detection_filter" => self.often(&name, option, errors),
            _ if Modifier::of(&name).is_some() => self.modify(&name, option, errors),
            _ if Word::of(&name).is_some() => self.word(name.clone(), option),
            _ if numbers::field_of(&name).is_some() => self.head(&name, option, errors),
            _ => Err(Skip::Unsupported(name.clone())),
        };
        if CONTENTS.contains(&name.as_str()) {
            self.is_content_lost = matches!(done, Err(Skip::Unsupported(_)));
        }
        note(done, keywords);
    }

    fn value(&self, option: &Opt, errors: &mut Diagnostics) -> Part<Range<usize>> {
        let value = option.value.clone().filter(|value| !value.is_empty());
        value.ok_or_else(|| {
            let span = option.name.clone();
            self.source.tell(errors, span, "an option without its value", ":VALUE", "")
        })
    }

    /// Options that name the rule.
    fn say(&mut self, name: &str, option: &Opt, errors: &mut Diagnostics) -> Part<()> {
        let value = self.value(option, errors)?;
        let text = self.source.text(&value);
        self.said.once(self.source, name, value.clone(), &text, errors)?;
        match name {
            "msg" => {
                let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                if text.starts_with('"') {
                    let end = value.end - usize::from(quoted.is_some());
                    quotes::check_end(self.source, value.start + 1..end, errors)?;
                }
                self.about.msg = said::plain(quoted.unwrap_or(&text));
            }
            "classtype" => {
                self.about.classtype = text.chars().filter(|c| !c.is_control()).take(128).collect();
            }
            _ => {
                let number = text.parse::<u32>().ok().filter(|&n| n > 0 || name == "rev");
                let Some(number) = number else {
                    let message = format!("{name} without a right number");
                    let expected = "a number from 1 to 4294967295";
                    return Err(self.source.tell(errors, value, &message, expected, ""));
                };
                match name {
                    "sid" => self.about.sid = number,
                    "gid" => self.about.gid = number,
                    "rev" => self.about.rev = number,
                    _ => self.about.priority = number,
                }
            }
        }
        Ok(())
    }

    /// Options that look at headers.
    fn head(&mut self, name: &str, option: &Opt, errors: &mut Diagnostics) -> Part<()> {
        if name == "sameip" {
            self.checks.push(Check::SameIp);
            return Ok(());
        }
        let value = self.value(option, errors)?;
        match name {
            "flow" => self.flow.read(self.source, value, errors)?,
            "flags" => self.checks.push(numbers::flags(self.source, value, errors)?),
            _ => {
                let Some((field, max)) = numbers::field_of(name) else { return Ok(()) };
                let what = (name, field, max);
                self.checks.push(numbers::number(self.source, value, what, errors)?);
            }
        }
        Ok(())
    }

    /// Options about the flow's bits, and whether there is an alert.
    fn bit(&mut self, name: &str, option: &Opt, errors: &mut Diagnostics) -> Part<()> {
        if name == "noalert" {
            self.no_alert = true;
            return Ok(());
        }
        let value = self.value(option, errors)?;
        match flowbits::option(self.source, value, errors)? {
            BitOption::NoAlert => self.no_alert = true,
            bit => self.bits.push(bit),
        }
        Ok(())
    }

    /// How often the rule is told.
    fn often(&mut self, name: &str, option: &Opt, errors: &mut Diagnostics) -> Part<()> {
        let value = self.value(option, errors)?;
        let threshold = threshold(self.source, value, name == "detection_filter", errors)?;
        if self.threshold.replace(threshold).is_some() {
            let message = "the rule says more than once how often it is told";
            let (span, expected) = (option.name.clone(), "one threshold or detection_filter");
            return Err(self.source.tell(errors, span, message, expected, ""));
        }
        Ok(())
    }

    /// Options that look at payloads.
    fn step(&mut self, name: &str, option: &Opt, errors: &mut Diagnostics) -> Part<()> {
        let value = self.value(option, errors)?;
        if self.steps.len() == STEPS_MAX {
            return Err(Skip::Unsupported(format!("{name} (beyond {STEPS_MAX} payload options)")));
        }
        let mut own = None;
        let step = match name {
            "content" => {
                let draft = payload::content(self.source, value, &self.names, errors)?;
                if draft.has_commas {
                    self.arounds.note_snort();
                }
                Open::Content(draft)
            }
            "pcre" => {
                let (expression, buffer) = pcre::expression(self.source, value, errors)?;
                own = buffer;
                Open::Ready(Step::Expression(expression))
            }
            "isdataat" => {
                let data = payload::data_at(self.source, value, &self.names, errors)?;
                Open::Ready(Step::DataAt(data))
            }
            _ => Open::Ready(self.bytes(name, value, errors)?),
        };
        if matches!(name, "content" | "pcre") {
            self.named = None;
        }
        self.arounds.step(matches!(name, "content" | "pcre"), own);
        self.steps.push(step);
        Ok(())
    }

    /// Options that name a buffer.
    fn word(&mut self, name: String, option: &Opt) -> Part<()> {
        if option.value.is_some() {
            return Err(Skip::Unsupported(format!("{name} with a value")));
        }
        let Some(word) = Word::of(&name) else { return Ok(()) };
        self.arounds.word(word);
        if matches!(word, Word::Modifier(_)) && !self.steps.is_empty() {
            let before = self.named.replace(name.clone());
            let other = before.filter(|before| Word::of(before) != Some(word));
            self.odd.extend(other.map(|before| RemarkKind::TwoBuffers(before, name)));
        }
        Ok(())
    }

    /// Options about the bytes of a buffer.
    fn size(&mut self, name: &str, option: &Opt, errors: &mut Diagnostics) -> Part<()> {
        let value = self.value(option, errors)?;
        let (span, own): (Range<usize>, Option<Buffer>) = match name {
            "urilen" => {
                let parts = self.source.split_commas(value.clone()).into_iter();
                let parts: Vec<_> =
                    parts.map(|span| (span.clone(), self.source.text(&span))).collect();
                let Some((span, buffer)) = buffers::urilen(&parts) else {
                    let (message, expected) = ("no such words of urilen", "N,raw or N,norm");
                    return Err(self.source.tell(errors, value, message, expected, ""));
                };
                (span, Some(buffer))
            }
            _ if self.source.text(&value).contains(',') => {
                return Err(Skip::Unsupported(format!("{name} relative")));
            }
            _ => (value, None),
        };
        name.clone_into(&mut self.size_name);
        let what = (name, Field::Dsize, u32::MAX - 1);
        let check = numbers::number(self.source, span, what, errors)?;
        if let Check::Number { low, high, outside, .. } = check {
            self.arounds.size(Size { low, high, outside }, own);
        }
        Ok(())
    }

    /// Options that read a number of the payload.
    fn bytes(&mut self, name: &str, value: Range<usize>, errors: &mut Diagnostics) -> Part<Step> {
        let (source, names) = (self.source, &mut self.names);
        let mut bytes = Bytes { source, keyword: name, names, errors };
        Ok(match name {
            "byte_test" => Step::ByteTest(bytes.test(value)?),
            "byte_jump" => Step::ByteJump(bytes.jump(value)?),
            "byte_extract" => Step::ByteSet(bytes.extract(value)?),
            _ => Step::ByteSet(bytes.math(value)?),
        })
    }

    /// Modifiers of the content before.
    fn modify(&mut self, name: &str, option: &Opt, errors: &mut Diagnostics) -> Part<()> {
        let Some(modifier) = Modifier::of(name) else { return Ok(()) };
        if self.is_content_lost {
            return Ok(());
        }
        let value = option.value.clone().unwrap_or(option.name.end..option.name.end);
        let span = if value.is_empty() { option.name.clone() } else { value.clone() };
        let source = self.source;
        let draft = self.steps.iter_mut().rev().find_map(|step| match step {
            Open::Content(draft) => Some(draft),
            Open::Ready(_) => None,
        });
        let Some(draft) = draft else {
            let message = "a modifier without a content before it";
            return Err(source.tell(errors, option.name.clone(), message, "content first", ""));
        };
        draft.modify(source, modifier, span, &source.text(&value), &self.names, errors)
    }

    fn finish(
        self,
        whole: Range<usize>,
        errors: &mut Diagnostics,
        keywords: &mut Vec<String>,
    ) -> Body {
        let Self { source, mut about, said, flow, mut checks, steps, .. } = self;
        let (arounds, rebuilt, flow) = (self.arounds, flow.rebuilt(), flow.test());
        if !said.has("sid") {
            let message = "a rule without sid";
            source.tell(errors, whole, message, "sid:NUMBER; among the options", "");
        }
        if !said.has("priority") {
            about.priority = class(&about.classtype).map_or(PRIORITY_USUAL, |class| class.1);
        }
        let finished = steps.into_iter().map(|step| match step {
            Open::Content(draft) => draft.finish(source, errors).map(Step::Content),
            Open::Ready(step) => Ok(step),
        });
        let steps: Vec<Option<Step>> = finished.map(|step| note(step, keywords)).collect();
        // An option that is left out may have been what is said about a buffer.
        if keywords.is_empty() && arounds.has_idle_word() {
            keywords.push("a buffer that nothing is said about".to_owned());
        }
        let sorted = note(arounds.sort(steps), keywords);
        if let (Some(sorted), true) = (&sorted, keywords.is_empty()) {
            let has_checks = !checks.is_empty() || rebuilt == Some(Check::Rebuilt(true));
            let reason = sorted.reason(flow.direction, has_checks);
            keywords.extend(reason.map(str::to_owned));
        }
        let nothing = Sorted { payload: Vec::new(), buffers: Vec::new() };
        let Sorted { payload: steps, buffers } = sorted.unwrap_or(nothing);
        // Messages come in packets that may have been whole or not.
        checks.extend(rebuilt.filter(|_| buffers.is_empty()));
        // In rules of Snort 3 no word is about the content before it.
        let mut odd = if arounds.is_snort() { Vec::new() } else { self.odd };
        odd.extend(
            buffers.iter().find_map(never::capitals_in_host).map(RemarkKind::CapitalsInHost),
        );
        let has_no_length = buffers.iter().any(|of| !never::has_length(of));
        let of_size = has_no_length.then(|| format!("{} that no buffer has", self.size_name));
        let never: Vec<String> = never::contradictions(&checks, &steps).chain(of_size).collect();
        odd.extend(never.iter().cloned().map(RemarkKind::Never));
        keywords.extend(never);
        let (bits, no_alert, threshold) = (self.bits, self.no_alert, self.threshold);
        Body { about, flow, checks, steps, buffers, bits, no_alert, threshold, odd }
    }
}
