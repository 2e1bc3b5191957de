//! Errors of a configuration: all of them, each with its place.
//!
//! A diagnostic reads in two ways. [`Diagnostic::to_click`] is the text that Click prints, which
//! scripts compare: `file:line: message`. [`std::fmt::Display`] shows the line and a caret, in the
//! look of the other readers of this project; the `annotate-snippets` crate draws it.
//!
//! ```text
//! error: undeclared element 'Prnt'
//!  --> router.click:3:10
//!   |
//! 3 | src -> Prnt -> Discard;
//!   |        ^^^^
//!   |
//!   = help: a similar class exists: Print
//! ```
//!
//! # Invariants
//! - D1: memory is bounded: at most [`DIAGNOSTICS_KEPT_MAX`] are kept, the rest is counted, and
//!   an excerpt is cut to a window around the place, however long the line is.
//! - D2: an excerpt is one line without control characters, and the marked range lies on its
//!   character boundaries: nothing of the input can upset a terminal or the renderer.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use super::source::{Landmark, SourceMap, Span};

/// How errors of elements that cannot be initialized begin.
pub(crate) const INITIALIZING: &str = "While initializing";

/// The most diagnostics that are kept; the rest is counted.
pub const DIAGNOSTICS_KEPT_MAX: usize = 100;

/// The most characters kept of a line, before the place and from it on.
const EXCERPT_CHARS_MAX: usize = 100;

/// The most places that one diagnostic shows.
const MARKS_MAX: usize = 16;

/// The most characters kept of a message.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// Stands in a rendered text before the place of an excerpt that was cut on its left. No text that
/// is shown has this character: [`printable`] replaces it.
const COLUMN_FOLLOWS: char = '\u{f0000}';

/// How grave a diagnostic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The configuration cannot run.
    Error,
    /// The configuration runs, though perhaps not as meant.
    Warning,
}

/// One error or warning.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// How grave it is.
    pub severity: Severity,
    /// File and line; none where it concerns a whole configuration.
    pub landmark: Option<Landmark>,
    /// Name of the file, where the place within is not known.
    pub file: Arc<str>,
    /// 1-based column in characters, 0 if not known.
    pub column: u32,
    /// What is wrong, in Click's words where Click has words for it.
    pub message: String,
    /// What the caret says; may be empty.
    pub label: String,
    /// How to mend it; may be empty.
    pub help: String,
    /// What went wrong in detail, a line each: for a message that only says where it did.
    pub details: Vec<String>,
    /// Further places that explain the first, such as an earlier declaration.
    pub notes: Vec<Note>,
    excerpt: String,
    marked: Range<usize>,
    is_cut: bool,
    click_has_place: bool,
    /// What is shown in place of where Click says it is.
    marks: Vec<Diagnostic>,
    /// Of details that are shown in other words: these, or none if a mark says it.
    reworded: BTreeMap<usize, Option<String>>,
}

/// A remark beside a diagnostic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its place, if it has one.
    pub landmark: Option<Landmark>,
    /// What it says.
    pub message: String,
}

impl Diagnostic {
    /// An error at the bytes `marked` of `line`, the line that holds `landmark`.
    pub(super) fn at(
        landmark: Landmark,
        line: &str,
        marked: Range<usize>,
        message: impl Into<String>,
    ) -> Self {
        let start = boundary(line, marked.start);
        let end = boundary(line, marked.end.max(start));
        let before: Vec<char> = line[..start].chars().rev().take(EXCERPT_CHARS_MAX).collect();
        let lead: String = before.into_iter().rev().map(printable).collect();
        let is_cut = lead.chars().count() < line[..start].chars().count();
        let mut excerpt = if is_cut { format!("…{lead}") } else { lead };
        let from = excerpt.len();
        excerpt.extend(line[start..end].chars().take(EXCERPT_CHARS_MAX).map(printable));
        let to = excerpt.len();
        let left = EXCERPT_CHARS_MAX.saturating_sub(excerpt[from..].chars().count());
        excerpt.extend(line[end..].chars().take(left).map(printable));
        let column = line[..start].chars().count() + 1;
        let mut diagnostic = Self::whole(&landmark.file, message);
        diagnostic.landmark = Some(landmark);
        diagnostic.column = u32::try_from(column).unwrap_or(u32::MAX);
        (diagnostic.excerpt, diagnostic.marked, diagnostic.is_cut) = (excerpt, from..to, is_cut);
        diagnostic
    }

    /// An error that concerns all of `file`.
    pub fn whole(file: &str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            landmark: None,
            file: file.into(),
            column: 0,
            message: bounded(message.into()),
            label: String::new(),
            help: String::new(),
            details: Vec::new(),
            notes: Vec::new(),
            excerpt: String::new(),
            marked: 0..0,
            is_cut: false,
            click_has_place: true,
            marks: Vec::new(),
            reworded: BTreeMap::new(),
        }
    }

    /// The same, as a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    /// The same, with words at the caret.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = bounded(label.into());
        self
    }

    /// The same, with a way to mend it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = bounded(help.into());
        self
    }

    /// The same, with a line of detail.
    #[must_use]
    pub fn detail(mut self, line: impl Into<String>) -> Self {
        self.details.push(bounded(line.into()));
        self
    }

    /// The same, with a remark.
    #[must_use]
    pub fn note(mut self, landmark: Option<Landmark>, message: impl Into<String>) -> Self {
        self.notes.push(Note { landmark, message: bounded(message.into()) });
        self
    }

    /// The same, with a caret at `span` rather than where Click says it is.
    #[must_use]
    pub(super) fn shown_at(mut self, sources: &SourceMap, span: Span) -> Self {
        let mark = sources.error(span, "").label(self.label.as_str());
        if mark.landmark.is_some() && self.marks.len() < MARKS_MAX {
            self.marks.push(mark);
        }
        self
    }

    /// The same, with a caret at `span` that says detail `idx`, as `told`.
    #[must_use]
    pub(super) fn detail_at(
        self,
        sources: &SourceMap,
        span: Span,
        idx: usize,
        told: String,
    ) -> Self {
        let before = self.marks.len();
        let mut shown = self.shown_at(sources, span);
        match shown.marks.get_mut(before) {
            Some(mark) => {
                mark.label = bounded(told);
                shown.reworded.insert(idx, None);
                shown
            }
            None => shown.detail_shown_as(idx, told),
        }
    }

    /// The same, with `told` for detail `idx`, but for Click's words.
    #[must_use]
    pub(super) fn detail_shown_as(mut self, idx: usize, told: String) -> Self {
        self.reworded.insert(idx, Some(bounded(told)));
        self
    }

    /// The same; Click prints it without file and line.
    #[must_use]
    pub(super) fn without_landmark(mut self) -> Self {
        self.click_has_place = false;
        self
    }

    /// Where it is, for sorting; what has no place comes first.
    pub fn span(&self) -> Span {
        self.landmark.as_ref().map_or_else(Span::default, |landmark| landmark.span)
    }

    /// The lines that Click prints: `file:line: message`, details set in, then the remarks.
    pub fn to_click(&self) -> String {
        if !self.click_has_place {
            return format!("{}\n", self.message);
        }
        let place = |landmark: &Option<Landmark>| match landmark {
            Some(landmark) => format!("{landmark}: "),
            None if self.file.is_empty() => String::new(),
            None => format!("{}: ", self.file),
        };
        let mut kind = if self.severity == Severity::Warning { "warning: " } else { "" };
        let mut out = String::new();
        for line in self.message.lines() {
            out.push_str(&format!("{}{kind}{line}\n", place(&self.landmark)));
            kind = "";
        }
        for line in self.details.iter().flat_map(|detail| detail.lines()) {
            out.push_str(&format!("  {line}\n"));
        }
        for note in &self.notes {
            out.push_str(&format!("{}{}\n", place(&note.landmark), note.message));
        }
        out
    }

    /// Adds its place to `group`.
    fn show<'a>(&'a self, group: Group<'a>) -> Group<'a> {
        let Some(landmark) = &self.landmark else {
            return group.element(Origin::path(shown(&self.file)));
        };
        let kind = AnnotationKind::Primary.span(self.marked.clone());
        let label = (!self.label.is_empty()).then_some(self.label.as_str());
        let line = landmark.line as usize;
        let snippet =
            Snippet::source(self.excerpt.as_str()).line_start(line).annotation(kind.label(label));
        // The renderer counts columns from where the excerpt begins.
        let mark = if self.is_cut { COLUMN_FOLLOWS.to_string() } else { String::new() };
        group.element(snippet.path(shown(&landmark.file) + &mark))
    }

    /// Puts the columns of excerpts that were cut where the renderer wrote its own.
    fn put_columns(&self, text: &str) -> String {
        let places = if self.marks.is_empty() { std::slice::from_ref(self) } else { &self.marks };
        let mut parts = text.split(COLUMN_FOLLOWS);
        let mut out = parts.next().unwrap_or_default().to_owned();
        for (part, cut) in parts.zip(places.iter().filter(|place| place.is_cut)) {
            let line = cut.landmark.as_ref().map_or(0, |landmark| landmark.line);
            let rest = part.trim_start_matches(|c: char| c == ':' || c.is_ascii_digit());
            out.push_str(&format!(":{line}:{}{rest}", cut.column));
        }
        out
    }

    /// Whether both report an element that cannot be initialized, for the same reason.
    fn has_same_reason(&self, other: &Diagnostic) -> bool {
        let is_initializing = |diagnostic: &Diagnostic| {
            diagnostic.message.starts_with(INITIALIZING) && !diagnostic.details.is_empty()
        };
        is_initializing(self) && is_initializing(other) && self.details == other.details
    }

    fn render(&self, renderer: &Renderer) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level.primary_title(self.message.as_str());
        let mut group = Group::with_title(title);
        group = match self.marks.is_empty() {
            true => self.show(group),
            false => self.marks.iter().fold(group, |group, mark| mark.show(group)),
        };
        let details = self.details.iter().enumerate().filter_map(|(idx, detail)| {
            self.reworded.get(&idx).cloned().unwrap_or_else(|| Some(detail.clone()))
        });
        let notes: Vec<String> = details.chain(self.notes.iter().map(Note::to_string)).collect();
        for note in &notes {
            group = group.element(Level::NOTE.message(note.as_str()));
        }
        if !self.help.is_empty() {
            group = group.element(Level::HELP.message(self.help.as_str()));
        }
        let mut out = self.put_columns(&renderer.render(&[group]));
        out.push('\n');
        out
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.landmark {
            Some(landmark) => write!(f, "{landmark}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(&Renderer::plain()))
    }
}

/// Everything that was found in a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    kept: Vec<Diagnostic>,
    errors: usize,
    left_out: usize,
}

impl Diagnostics {
    /// Adds one; past [`DIAGNOSTICS_KEPT_MAX`] it is only counted. One that says the same of the
    /// same place as another is not added: a compound that is used often errs often.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        let is_same = |other: &Diagnostic| {
            (&other.landmark, &other.message) == (&diagnostic.landmark, &diagnostic.message)
        };
        if self.kept.iter().any(is_same) {
            return;
        }
        self.errors += usize::from(diagnostic.severity == Severity::Error);
        if self.wants_more() {
            self.kept.push(diagnostic);
        } else {
            self.left_out += 1;
        }
    }

    /// Whether another would be kept.
    pub fn wants_more(&self) -> bool {
        self.kept.len() < DIAGNOSTICS_KEPT_MAX
    }

    /// Adds the error that `make` makes, which is not asked for one that would not be kept: a
    /// million errors in one line would each count its characters.
    pub fn push_with(&mut self, make: impl FnOnce() -> Diagnostic) {
        if self.wants_more() {
            self.push(make());
        } else {
            self.count_only();
        }
    }

    /// Counts an error that would not be kept.
    pub(super) fn count_only(&mut self) {
        self.errors += 1;
        self.left_out += 1;
    }

    /// Adds those of `other`, and brings all into the order of the texts.
    pub fn append(&mut self, other: Diagnostics) {
        let (errors, left_out) = (self.errors + other.errors, self.left_out + other.left_out);
        let kept = std::mem::take(&mut self.kept);
        let mut all: Vec<Diagnostic> = kept.into_iter().chain(other.kept).collect();
        all.sort_by_key(Diagnostic::span);
        let more = all.len().saturating_sub(DIAGNOSTICS_KEPT_MAX);
        all.truncate(DIAGNOSTICS_KEPT_MAX);
        *self = Self { kept: all, errors, left_out: left_out + more };
    }

    /// Whether there is any error; warnings do not count.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Number of errors, those that were not kept included.
    pub fn error_count(&self) -> usize {
        self.errors
    }

    /// Whether there is nothing, not even a warning.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Those that were kept.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.kept.iter()
    }

    /// The report as Click prints it, a line for each message.
    pub fn to_click(&self) -> String {
        let mut out: String = self.kept.iter().map(Diagnostic::to_click).collect();
        out.push_str(&self.more());
        out
    }

    /// The report with colours for a terminal; [`fmt::Display`] writes it plain.
    pub fn to_coloured(&self) -> String {
        self.render(&Renderer::styled())
    }

    /// `Ok(value)` unless there is an error.
    ///
    /// # Errors
    /// The diagnostics themselves.
    pub fn into_result<T>(self, value: T) -> Result<T, Diagnostics> {
        if self.has_errors() { Err(self) } else { Ok(value) }
    }

    /// The diagnostics, with one for all elements that cannot be initialized for the same reason,
    /// such as a missing privilege.
    fn grouped(&self) -> Vec<Diagnostic> {
        let mut groups: Vec<Diagnostic> = Vec::new();
        for diagnostic in &self.kept {
            let is_same = |group: &&mut Diagnostic| group.has_same_reason(diagnostic);
            match groups.iter_mut().find(is_same) {
                Some(group) => {
                    let element = diagnostic.message.trim_end_matches(':');
                    let element = element.trim_start_matches(INITIALIZING);
                    let message = format!("the same for{element}");
                    group.notes.push(Note { landmark: diagnostic.landmark.clone(), message });
                }
                None => groups.push(diagnostic.clone()),
            }
        }
        groups
    }

    fn more(&self) -> String {
        match self.left_out {
            0 => String::new(),
            more => format!("and {more} more\n"),
        }
    }

    fn render(&self, renderer: &Renderer) -> String {
        let reports: Vec<String> =
            self.grouped().iter().map(|each| each.render(renderer)).collect();
        let mut out = reports.join("\n");
        if self.left_out > 0 {
            out.push_str(&format!("\n{}", self.more()));
        }
        out
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        let mut all = Self::default();
        all.push(diagnostic);
        all
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(&Renderer::plain()))
    }
}

impl std::error::Error for Diagnostics {}

/// The character boundary at or before byte `at`.
fn boundary(line: &str, at: usize) -> usize {
    let mut at = at.min(line.len());
    while !line.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// A character that is safe to print, of one column where a tab was.
fn printable(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() || u32::from(c) >= 0xf_0000 => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

/// A name of a file that is safe to print.
fn shown(file: &str) -> String {
    file.chars().map(printable).collect()
}

/// A message of bounded length that is safe to print.
fn bounded(message: String) -> String {
    let safe = |c: char| if c == '\n' { c } else { printable(c) };
    let is_long = message.chars().nth(MESSAGE_CHARS_MAX).is_some();
    let mut out: String = message.chars().take(MESSAGE_CHARS_MAX).map(safe).collect();
    if is_long {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: &str, marked: Range<usize>) -> Diagnostic {
        let landmark = Landmark { file: "r.click".into(), line: 12, span: Span::default() };
        Diagnostic::at(landmark, line, marked, "undeclared element 'b'")
    }

    #[test]
    fn a_report_has_place_caret_and_remedy() {
        let diagnostic = at("a -> b;", 5..6)
            .label("not declared")
            .note(None, "a note")
            .help("declare it: b :: Class");
        assert_eq!(
            diagnostic.to_string(),
            "error: undeclared element 'b'\n  \
             --> r.click:12:6\n   |\n\
             12 | a -> b;\n   |      ^ not declared\n   |\n   \
             = note: a note\n   = help: declare it: b :: Class\n"
        );
        assert_eq!(diagnostic.to_click(), "r.click:12: undeclared element 'b'\nr.click: a note\n");
    }

    #[test]
    fn elements_that_fail_alike_share_a_report() {
        let landmark = |line| Landmark { file: "r.click".into(), line, span: Span::default() };
        let error = |line, name: &str, detail: &str| {
            let message = format!("{INITIALIZING} '{name}':");
            Diagnostic::at(landmark(line), "a -> b;", 0..1, message).detail(detail)
        };
        let mut all = Diagnostics::default();
        for (line, name, detail) in [
            (1, "a :: A", "not permitted"),
            (2, "b :: B", "missing"),
            (3, "c :: C", "not permitted"),
        ] {
            all.push(error(line, name, detail));
        }
        let text = all.to_string();
        assert_eq!(text.matches("not permitted").count(), 1, "{text}");
        assert!(text.contains("= note: r.click:3: the same for 'c :: C'\n"), "{text}");
        assert!(text.contains("= note: missing\n"), "{text}");
        assert_eq!(all.error_count(), 3);
        assert_eq!(all.to_click().matches("not permitted").count(), 2, "Click repeats it");
    }

    #[test]
    fn any_line_and_range_renders() {
        let lines = ["", "\t\u{1b}[31m漢字", "é", "\u{ff7e9}\u{202e}x", "a\u{301}\u{200d}b"];
        for line in lines {
            for start in 0..line.len() + 2 {
                for end in 0..line.len() + 3 {
                    let text = at(line, start..end).to_string();
                    assert!(!text.contains('\u{1b}'), "{text}");
                }
            }
        }
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let line = format!("{}bad{}", "é".repeat(100_000), "x".repeat(100_000));
        let diagnostic = at(&line, 200_000..200_003);
        let text = diagnostic.to_string();
        assert!(text.contains("r.click:12:100001\n"), "{text}");
        assert!(text.contains("^^^\n") && text.len() < 2_000, "{text}");
        assert_eq!(&diagnostic.excerpt[diagnostic.marked.clone()], "bad");
    }

    /// What is cut on its left looks as all others do, with the column that it has in its line.
    #[test]
    fn a_line_that_is_cut_on_its_left_is_drawn_as_others() {
        let line = format!("{}bad x;", "a".repeat(150));
        let lead = "a".repeat(EXCERPT_CHARS_MAX);
        let indent = " ".repeat(EXCERPT_CHARS_MAX + 1);
        let report = at(&line, 150..153).label("not declared").to_string();
        assert_eq!(
            report,
            format!(
                "error: undeclared element 'b'\n  \
                 --> r.click:12:151\n   |\n\
                 12 | …{lead}bad x;\n   | {indent}^^^ not declared\n"
            )
        );
        let coloured = Diagnostics::from(at(&line, 150..153)).to_coloured();
        assert!(coloured.contains("r.click:12:151") && !coloured.contains(COLUMN_FOLLOWS));
    }

    #[test]
    fn the_number_is_bounded_and_repeats_are_dropped() {
        let mut all = Diagnostics::default();
        for idx in 0..1_000 {
            all.push(Diagnostic::whole("f", format!("m{}", idx / 2)));
        }
        assert_eq!((all.iter().count(), all.error_count() > 400), (DIAGNOSTICS_KEPT_MAX, true));
        assert!(all.to_click().ends_with("more\n"));
        assert!(all.to_coloured().contains("\u{1b}["));
        let warning = Diagnostics::from(Diagnostic::whole("f", "m").warning());
        assert!(!warning.has_errors() && !warning.is_empty());
        assert_eq!(warning.to_click(), "f: warning: m\n");
    }
}
