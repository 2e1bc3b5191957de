//! What people see on the standard error stream: errors, warnings, notes and progress; and the
//! colours of both streams.
//!
//! Colours and progress appear on terminals only. `NO_COLOR`, `CLICOLOR_FORCE` and `--color` are
//! honoured by `anstream`, through which everything meant for people is written.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use warpswitch_graph::language;
use warpswitch_rules::diagnostic::Diagnostics;

use crate::human;

/// Headings of tables.
pub const HEADING: Style = Style::new().bold();
/// What needs no attention.
pub const FAINT: Style = Style::new().dimmed();
/// The best, the winner, what is well.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// What failed.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// What may be wrong.
pub const WARN: Style = AnsiColor::Yellow.on_default().bold();

/// `text` between the escapes of `style`; streams that show no colour drop them.
pub fn paint(style: Style, text: impl fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// The columns of the terminal that the standard output is; none if it is none.
pub fn columns() -> Option<usize> {
    let out = std::io::stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok())??;
    Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
}

/// Reports why the run ends.
pub fn error(error: &anyhow::Error) {
    let mut out = anstream::stderr().lock();
    // A failing standard error stream leaves nobody to tell.
    let diagnostics = error.chain().find_map(|cause| cause.downcast_ref::<Diagnostics>());
    if let Some(diagnostics) = diagnostics {
        _ = write!(out, "{}", diagnostics.to_coloured());
        return;
    }
    let diagnostics = error.chain().find_map(|cause| cause.downcast_ref::<language::Diagnostics>());
    if let Some(diagnostics) = diagnostics {
        _ = write!(out, "{}", diagnostics.to_coloured());
        return;
    }
    _ = write!(out, "{} {error}", paint(BAD, "error:"));
    let mut said = error.to_string();
    for cause in error.chain().skip(1) {
        // Some libraries repeat their cause in their own text.
        let text = cause.to_string();
        if !said.contains(&text) {
            _ = write!(out, ": {text}");
            said = text;
        }
    }
    _ = writeln!(out);
}

/// Warns of something that may be wrong and does not end the run.
pub fn warning(message: impl fmt::Display) {
    _ = writeln!(anstream::stderr().lock(), "{} {message}", paint(WARN, "warning:"));
}

/// Prints a note.
pub fn note(message: impl fmt::Display) {
    _ = writeln!(anstream::stderr().lock(), "{message}");
}

/// Progress of long work, drawn on a terminal and nowhere else.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Of `total` steps, called `what`.
    pub fn steps(what: &str, total: u64) -> Self {
        Self::new(
            what,
            ProgressBar::new(total),
            "{msg} {wide_bar:.green/dim} {human_pos}/{human_len} {eta:>4}",
        )
    }

    /// Of an unknown number of steps, called `what`.
    pub fn counter(what: &str) -> Self {
        Self::new(what, ProgressBar::no_length(), "{msg} {human_pos} packets, {rate} {elapsed}")
    }

    /// Of something that prints nothing until it is done.
    pub fn spinner(what: &str) -> Self {
        let progress = Self::new(what, ProgressBar::no_length(), "{spinner} {msg} {elapsed}");
        progress.bar.enable_steady_tick(Duration::from_millis(100));
        progress
    }

    fn new(what: &str, bar: ProgressBar, template: &str) -> Self {
        let shown = std::io::stderr().is_terminal();
        let target =
            if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        bar.set_draw_target(target);
        let style = ProgressStyle::with_template(template).expect("the templates above are valid");
        let style = style.with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
            _ = write!(out, "{}", human::rate(state.per_sec()));
        });
        bar.set_style(style.progress_chars("━━─"));
        bar.set_message(what.to_owned());
        Self { bar }
    }

    /// So many steps are done.
    pub fn at(&self, position: u64) {
        self.bar.set_position(position);
    }

    /// Prints what is being done now.
    pub fn say(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }
}

impl Drop for Progress {
    /// Takes the bar off the screen, also where an error ends the work.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
