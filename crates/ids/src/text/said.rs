//! Options that may stand once: which of them were said, and what.

use std::ops::Range;

use warpswitch_rules::diagnostic::Diagnostics;

use super::source::{Part, Source};

/// Options by their keywords, each with its value as it is shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    options: Vec<(String, String)>,
}

/// The most characters of a value that are shown.
const SHOWN_CHARS_MAX: usize = 40;

impl Said {
    /// Whether an option was said.
    pub(super) fn has(&self, keyword: &str) -> bool {
        self.options.iter().any(|(said, _)| said == keyword)
    }

    /// Takes an option that stands at `span`, and tells of one that was said before: which of both
    /// was meant is not known.
    pub(super) fn once(
        &mut self,
        source: &Source<'_>,
        keyword: &str,
        span: Range<usize>,
        value: &str,
        errors: &mut Diagnostics,
    ) -> Part<()> {
        let value = shown(value);
        if let Some((_, before)) = self.options.iter().find(|(said, _)| said == keyword) {
            let values = match (before.as_str(), value.as_str()) {
                ("", "") => String::new(),
                ("", value) => format!(": without a value and {value}"),
                (before, "") => format!(": {before} and without a value"),
                (before, value) => format!(": {before} and {value}"),
            };
            let message = format!("{keyword} stands twice{values}");
            return Err(source.tell(errors, span, &message, "one of them", ""));
        }
        self.options.push((keyword.to_owned(), value));
        Ok(())
    }
}

/// What is shown of a value.
fn shown(value: &str) -> String {
    let value = plain(value);
    match value.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value,
    }
}

/// A message without its escapes, and without what could play with a terminal.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let c = if c == '\\' { chars.next().unwrap_or('\\') } else { c };
        out.push(if c.is_control() { '\u{fffd}' } else { c });
    }
    out
}
