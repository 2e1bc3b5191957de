//! Checks of names in a script before it runs: missing handlers and variables.
//!
//! Only literal names are checked; a name that includes a variable or the value of a handler is
//! only complete at run time. Missing handlers are not reported if the script itself tests whether
//! handlers exist, or whether a write succeeded.

use std::collections::BTreeSet;

use warpswitch_graph::Context;
use warpswitch_graph::language::nearest;

use super::expand::{Lookup, expand};
use super::handlers::HANDLERS;
use super::program::Step;
use super::run::Report;
use super::words::shift;
use super::{Kind, Script};
use warpswitch_elements_support::calls::meant;

/// Stands for what is not known before the run: no name has it, and no quotes change it.
const UNKNOWN: char = '\u{10fffd}';

/// What is found in the texts of a script.
struct Search<'s, 'c, 'r> {
    script: &'s Script,
    cx: &'r mut Context<'c>,
    wrong: Vec<String>,
    unset: BTreeSet<String>,
    /// Whether the script itself checks for read handlers, and for write handlers or their result.
    asks: [bool; 2],
}

impl Lookup for Search<'_, '_, '_> {
    fn variable(&mut self, name: &str) -> Option<String> {
        let is_input = name == "input" && self.script.kind == Some(Kind::Packet);
        self.asks[1] |= name == "?";
        if !is_input && !name.contains(UNKNOWN) && self.script.value(name).is_none() {
            self.unset.insert(name.to_owned());
        }
        Some(UNKNOWN.into())
    }

    fn call(&mut self, text: &str) -> Option<String> {
        self.handler(text, false);
        Some(UNKNOWN.into())
    }
}

impl Search<'_, '_, '_> {
    /// Looks for the handler that `text` begins with.
    fn handler(&mut self, text: &str, is_write: bool) {
        let (word, value) = shift(text);
        match word.rsplit('.').next() {
            Some("readable") => self.asks[0] = true,
            Some("writable") => self.asks[1] = true,
            _ => {}
        }
        // Who takes configurations has one handler more.
        if word.is_empty() || word.contains(UNKNOWN) || word == "hotconfig" {
            return;
        }
        let mut report = Report::collect();
        let value = if is_write { "" } else { value };
        if self.script.find(self.cx, &mut report, &format!("{word} {value}"), is_write).is_some() {
            return;
        }
        let meant = meant(self.cx, word, is_write, |_| HANDLERS);
        let meant = meant.map_or(String::new(), |meant| format!(": did you mean '{meant}'?"));
        let told = report.lines.into_iter().map(|line| format!("{line}{meant}"));
        self.wrong.extend(told);
    }
}

impl Script {
    /// Problems with the names in the script, one per line: handlers that no element has, and
    /// variables that nothing sets.
    pub fn strange_names(&self, cx: &mut Context<'_>) -> [Vec<String>; 2] {
        let sets_itself = |step: &Step| match step {
            Step::Write { text, .. } => shift(text).0 == "set",
            _ => false,
        };
        let sets_from_outside = cx.graph().elements.iter().any(|element| {
            // Clients of a control socket may set variables, too.
            element.class == "ControlSocket" || element.config.contains(".set")
        });
        let may_set_any = sets_from_outside || self.program.steps.iter().any(sets_itself);
        let (wrong, unset, asks) = (Vec::new(), BTreeSet::new(), [false; 2]);
        let mut search = Search { script: self, cx, wrong, unset, asks };
        let (mut read, mut written) = (Vec::new(), Vec::new());
        for step in &self.program.steps {
            let (text, call) = match step {
                Step::WaitTime(text)
                | Step::Set { text, .. }
                | Step::Init { text, .. }
                | Step::Return { text, .. }
                | Step::Goto { condition: text, .. }
                | Step::Error { text, .. } => (text, None),
                Step::Print { text, .. } => {
                    let is_name = |c: char| c.is_ascii_alphabetic() || "@_".contains(c);
                    (text, text.starts_with(is_name).then_some(false))
                }
                Step::Read { text, .. } => (text, Some(false)),
                Step::Write { text, .. } => (text, Some(true)),
                Step::Begin | Step::Pause(_) | Step::Label(_) | Step::Finish(_) => continue,
            };
            let text = expand(text, false, &mut search);
            read.append(&mut search.wrong);
            let Some(is_write) = call else { continue };
            search.handler(&text, is_write);
            (if is_write { &mut written } else { &mut read }).append(&mut search.wrong);
        }
        let Search { unset, asks, .. } = search;
        let mut wrong: Vec<String> = if asks[0] { Vec::new() } else { read };
        wrong.extend(if asks[1] { Vec::new() } else { written });
        let mut seen = BTreeSet::new();
        wrong.retain(|line| seen.insert(line.clone()));
        let known: Vec<&str> = self.program.variables.iter().map(|(name, _)| &**name).collect();
        let told = |name: &String| {
            let meant = nearest(name, known.iter().copied());
            let meant = meant.map_or(String::new(), |meant| format!(", but '{meant}' is"));
            format!("variable '{name}' is never set{meant}: '${name}' is not replaced")
        };
        let unset = if may_set_any { Vec::new() } else { unset.iter().map(told).collect() };
        [wrong, unset]
    }
}
