//! Execution of the steps of a script, until it waits or ends.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

use warpswitch_graph::language::args::split::unquote;
use warpswitch_graph::language::args::{FromArg, NoNames};
use warpswitch_graph::{Context, HandlerError};
use warpswitch_io::name_folder;

use super::expand::{Lookup, expand};
use super::program::{Finish, Jump, RETURNED, Step, Target};
use super::words::{shift, unquoted};
use super::{Kind, Script};

/// The most jumps without waiting; a script that makes more is given up.
const JUMPS_MAX: u32 = 1_000_000;
/// And the most bytes of text that it may make meanwhile, lest each jump takes its time.
const JUMP_BYTES_MAX: usize = 1 << 28;
/// The timer of a wait.
const TIMER: usize = 0;
/// `$?` of a write that failed.
const FAILED: i32 = -22;

/// Who makes a script run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Its timer.
    Timer,
    /// A step from outside.
    Step,
    /// A run from some place on.
    Jump,
    /// The driver, which is to stop.
    Driver,
}

/// Errors of a script: printed at once under a heading, or collected for the caller.
#[derive(Debug, Default)]
pub struct Report {
    heading: String,
    says: bool,
    /// Whether the last printed error is under the heading.
    is_under: bool,
    /// Collected errors, which were not printed.
    pub lines: Vec<String>,
    /// Number of errors.
    pub errors: usize,
}

impl Report {
    /// Prints each error at once.
    pub fn say_at_once(cx: &Context<'_>) -> Self {
        let heading = format!("While executing '{}':", cx.declaration());
        Self { heading, says: true, ..Self::default() }
    }

    /// Collects errors.
    pub fn collect() -> Self {
        Self::default()
    }

    /// Reports an error. A `context` that is not empty replaces the heading.
    pub fn error(&mut self, cx: &mut Context<'_>, context: &str, message: &str) {
        self.errors += 1;
        let indent = if self.says || !context.is_empty() { "  " } else { "" };
        let lines = message.lines().map(|line| format!("{indent}{line}"));
        if !self.says {
            self.lines.extend((!context.is_empty()).then(|| context.to_owned()));
            return self.lines.extend(lines);
        }
        if !context.is_empty() {
            cx.say(context);
        } else if !self.is_under {
            cx.say(&self.heading);
        }
        self.is_under = context.is_empty();
        lines.for_each(|line| cx.say(&line));
    }

    /// `value`, unless something went wrong.
    pub fn into_result<T>(self, value: Result<T, HandlerError>) -> Result<T, HandlerError> {
        match (value, self.lines.is_empty()) {
            (value, true) => value,
            (_, false) => Err(HandlerError::Failed(self.lines.join("\n"))),
        }
    }
}

/// A handler that a text names.
pub struct Call<'t> {
    /// None for the script itself.
    target: Option<Option<usize>>,
    name: &'t str,
    /// As errors name it.
    full_name: String,
    pub value: &'t str,
}

impl Call<'_> {
    /// The call as errors name it.
    fn context(&self) -> String {
        let space = if self.value.is_empty() { "" } else { " " };
        format!("While calling '{}{space}{}':", self.full_name, self.value)
    }
}

/// What the names in a text stand for.
struct Scope<'s, 'c, 'r> {
    script: &'s mut Script,
    cx: &'s mut Context<'c>,
    report: &'r mut Report,
}

impl Lookup for Scope<'_, '_, '_> {
    fn variable(&mut self, name: &str) -> Option<String> {
        self.script.value(name)
    }

    fn call(&mut self, text: &str) -> Option<String> {
        let call = self.script.find(self.cx, self.report, text, false)?;
        Some(self.script.read_call(self.cx, self.report, &call, ""))
    }
}

impl Script {
    /// `text` with what it names replaced.
    pub fn expanded(&mut self, cx: &mut Context<'_>, report: &mut Report, text: &str) -> String {
        let text = expand(text, false, &mut Scope { script: self, cx, report });
        self.expanded_bytes = self.expanded_bytes.saturating_add(text.len());
        text
    }

    fn expanded_as(
        &mut self,
        cx: &mut Context<'_>,
        report: &mut Report,
        text: &str,
        unquotes: bool,
    ) -> String {
        let text = self.expanded(cx, report, text);
        if unquotes { unquoted(&text) } else { text }
    }

    /// The value of a variable.
    pub fn value(&self, name: &str) -> Option<String> {
        if let Some(at) = self.program.variable(name) {
            return Some(self.program.variables[at].1.clone());
        }
        match name {
            "?" => Some(self.write_status.to_string()),
            "args" => Some(self.args.clone()),
            "$" => Some(std::process::id().to_string()),
            "0" => Some(self.handler.clone()),
            "write" => Some(self.is_write.to_string()),
            "#" => {
                let (mut count, mut rest) = (0, self.args.as_str());
                while !rest.is_empty() {
                    rest = shift(rest).1;
                    count += 1;
                }
                Some(count.to_string())
            }
            number => {
                let number = number.parse::<usize>().ok().filter(|number| *number > 0)?;
                let mut rest = self.args.as_str();
                for _ in 1..number {
                    rest = shift(rest).1;
                    if rest.is_empty() {
                        break;
                    }
                }
                Some(shift(rest).0.to_owned())
            }
        }
    }

    /// The handler that `text` names, which must be there and of the right kind. One without
    /// element is one of the script's own, if it has such.
    pub fn find<'t>(
        &self,
        cx: &mut Context<'_>,
        report: &mut Report,
        text: &'t str,
        is_write: bool,
    ) -> Option<Call<'t>> {
        let (word, value) = shift(text);
        let me = cx.element();
        let (element, name) = match cx.find_handler(word) {
            Ok(found) => found,
            Err(error) => {
                report.error(cx, "", &error.to_string());
                return None;
            }
        };
        let is_own = element == Some(me) || element.is_none() && self.has(name);
        let spec = if is_own { self.spec(name) } else { cx.handler_spec(element, name).ok() };
        let full_name = match if is_own { Some(me) } else { element } {
            Some(idx) => format!("{}.{name}", cx.graph().elements[idx].name),
            None => name.to_owned(),
        };
        let problem = match spec {
            Some(spec) if is_write && spec.write || !is_write && spec.read => {
                (!is_write && !spec.param && !value.is_empty())
                    .then(|| format!("read handler '{full_name}' does not take parameters"))
            }
            _ => {
                let kind = if is_write { "write" } else { "read" };
                Some(format!("no '{full_name}' {kind} handler"))
            }
        };
        if let Some(problem) = problem {
            report.error(cx, "", &problem);
            return None;
        }
        Some(Call { target: (!is_own).then_some(element), name, full_name, value })
    }

    /// The answer of a read handler; empty if it fails, which is reported under `context`.
    fn read_call(
        &mut self,
        cx: &mut Context<'_>,
        report: &mut Report,
        call: &Call<'_>,
        context: &str,
    ) -> String {
        let answer = match call.target {
            Some(element) => cx.read_handler(element, call.name, call.value),
            None => {
                let mut inner = Report::collect();
                let answer = self.answer(cx, &mut inner, call.name, call.value);
                inner.into_result(answer)
            }
        };
        answer.unwrap_or_else(|error| {
            report.error(cx, context, &error.to_string());
            String::new()
        })
    }

    /// Gives variables their first values.
    pub fn set_initial(&mut self, cx: &mut Context<'_>, report: &mut Report) {
        for at in 0..self.program.steps.len() {
            if let Step::Init { variable, text, unquotes, .. } = self.program.steps[at].clone() {
                let value = self.expanded_as(cx, report, &text, unquotes);
                self.program.variables[variable].1 = value;
            }
        }
    }

    /// Starts a script that runs by itself.
    pub fn start(&mut self, cx: &mut Context<'_>, report: &mut Report) {
        match self.program.steps[0].clone() {
            Step::WaitTime(text) => {
                self.wait_for(cx, report, &text);
            }
            Step::Begin => {
                self.progress[0] = 1;
                // A driver script runs when the run is to stop: that it is, for a moment.
                if self.kind == Some(Kind::Driver) {
                    cx.stop_driver();
                } else {
                    cx.set_timer(TIMER, cx.now());
                }
            }
            _ => {}
        }
    }

    fn wait_for(&mut self, cx: &mut Context<'_>, report: &mut Report, text: &str) -> bool {
        let text = self.expanded(cx, report, text);
        match Duration::from_arg(text.trim_ascii(), &NoNames) {
            Ok(time) => {
                cx.set_timer(TIMER, cx.now() + time);
                true
            }
            Err(_) => {
                report.error(cx, "", "syntax error at 'wait'");
                false
            }
        }
    }

    /// Passes `steps` waits, and runs up to the next. Returns whether the script goes on later: a
    /// driver script that does not has ended the run.
    pub fn run_steps(
        &mut self,
        cx: &mut Context<'_>,
        report: &mut Report,
        steps: i64,
        by: By,
    ) -> bool {
        let target = self.stepped + steps;
        let (was_running, mut jumps) = (std::mem::replace(&mut self.is_running, true), 0);
        let mut goes_on = true;
        let bytes_before = self.expanded_bytes;
        while target >= self.stepped && self.at < self.program.steps.len() && jumps < JUMPS_MAX {
            let here = self.at;
            self.at += 1;
            // Texts are expanded while the script is changed: it may set its own variables.
            let step = self.program.steps[here].clone();
            match self.one_step(cx, report, &step, here, target, by) {
                Then::Next => {}
                Then::Wait => break,
                Then::Finish => {
                    goes_on = false;
                    break;
                }
            }
            jumps += u32::from(self.at != here + 1);
            if jumps > 0 && self.expanded_bytes - bytes_before > JUMP_BYTES_MAX {
                jumps = JUMPS_MAX;
            }
        }
        self.is_running = was_running;
        if jumps >= JUMPS_MAX {
            cx.say(&format!("{}: too many jumps, giving up", cx.declaration()));
            self.at = self.program.steps.len();
            cx.clear_timer(TIMER);
        }
        goes_on
    }

    fn one_step(
        &mut self,
        cx: &mut Context<'_>,
        report: &mut Report,
        step: &Step,
        here: usize,
        target: i64,
        by: By,
    ) -> Then {
        match step {
            Step::Begin => {
                if std::mem::take(&mut self.progress[here]) > 0 {
                    self.stepped += 1;
                }
            }
            Step::Pause(count) => {
                if self.pauses(here, target, *count) {
                    return self.stay(here);
                }
            }
            Step::WaitTime(text) => {
                if self.stepped == target {
                    return match self.wait_for(cx, report, text) {
                        true => self.stay(here),
                        false => Then::Wait,
                    };
                }
                self.stepped += 1;
                cx.clear_timer(TIMER);
            }
            Step::Print { to, text, newline, unquotes } => {
                self.print(cx, report, to, text, *newline, *unquotes);
            }
            Step::Read { text, unquotes } => self.tell(cx, report, text, *unquotes),
            Step::Write { text, unquotes } => self.call_write(cx, report, text, *unquotes),
            Step::Set { variable, text, unquotes } => {
                let value = self.expanded_as(cx, report, text, *unquotes);
                self.program.variables[*variable].1 = value;
            }
            Step::Return { text, unquotes } => {
                let value = self.expanded_as(cx, report, text, *unquotes);
                let variable = self.program.define(RETURNED);
                self.program.variables[variable].1 = value;
                if self.at == here + 1 {
                    return self.stay(here);
                }
            }
            Step::Goto { to, condition } => return self.goto(cx, report, *to, condition, here),
            Step::Error { text, unquotes } => {
                let text = self.expanded_as(cx, report, text, *unquotes);
                if !text.is_empty() {
                    report.error(cx, "", &text);
                }
                self.at = here;
                return Then::Finish;
            }
            Step::Finish(finish) => {
                self.at = here;
                if *finish == Finish::Stop {
                    self.stepped += 1;
                    if by != By::Driver {
                        cx.stop_driver();
                    }
                }
                return Then::Finish;
            }
            Step::Init { .. } | Step::Label(_) => {}
        }
        Then::Next
    }

    /// Spends steps on a pause of `count`. Returns whether the pause is not over.
    fn pauses(&mut self, here: usize, target: i64, count: u32) -> bool {
        while self.stepped < target && self.progress[here] < count {
            self.progress[here] += 1;
            self.stepped += 1;
        }
        self.stepped == target && self.progress[here] < count
    }

    fn stay(&mut self, here: usize) -> Then {
        self.at = here;
        Then::Wait
    }

    fn goto(
        &mut self,
        cx: &mut Context<'_>,
        report: &mut Report,
        to: Jump,
        condition: &str,
        here: usize,
    ) -> Then {
        let condition = self.expanded(cx, report, condition);
        if !condition.is_empty() {
            match bool::from_arg(&condition, &NoNames) {
                Ok(true) => {}
                Ok(false) => return Then::Next,
                Err(_) => {
                    report.error(cx, "", &format!("bad condition '{condition}'"));
                    return Then::Next;
                }
            }
        }
        match to {
            Jump::Step(to) => {
                // Waits that are passed again are whole again.
                self.progress[to.min(here)..here].fill(0);
                self.at = to;
                Then::Next
            }
            Jump::Finish(finish) => {
                self.at = here;
                if finish == Finish::Stop {
                    cx.stop_driver();
                }
                Then::Finish
            }
        }
    }

    fn print(
        &mut self,
        cx: &mut Context<'_>,
        report: &mut Report,
        to: &Target,
        text: &str,
        newline: bool,
        unquotes: bool,
    ) {
        let before = report.errors;
        let names_handler = text.starts_with(|c: char| c.is_ascii_alphabetic() || "@_".contains(c));
        let mut result = if names_handler {
            let text = self.expanded(cx, report, text);
            self.read_named(cx, report, &text, unquotes).map_or_else(Vec::new, |(_, s)| s.into())
        } else {
            unquote(&expand(text, true, &mut Scope { script: self, cx, report }))
        };
        if newline && report.errors == before && result.last() != Some(&b'\n') {
            result.push(b'\n');
        }
        let Target::File { path, appends } = to else { return cx.print(&result) };
        let mut options = OpenOptions::new();
        options.create(true).append(*appends).write(true).truncate(!*appends);
        if let Err(error) = options.open(path).and_then(|mut file| file.write_all(&result)) {
            report.error(cx, "", &format!("{path}: {}", cause(&name_folder(path.as_ref(), error))));
        }
    }

    /// The answer of the read handler that `text` names, and the handler's name.
    fn read_named(
        &mut self,
        cx: &mut Context<'_>,
        report: &mut Report,
        text: &str,
        unquotes: bool,
    ) -> Option<(String, String)> {
        let mut call = self.find(cx, report, text, false)?;
        let value;
        if unquotes {
            value = unquoted(call.value);
            call.value = &value;
        }
        let context = call.context();
        let answer = self.read_call(cx, report, &call, &context);
        Some((call.full_name, answer))
    }

    fn tell(&mut self, cx: &mut Context<'_>, report: &mut Report, text: &str, unquotes: bool) {
        let text = self.expanded(cx, report, text);
        if let Some((name, answer)) = self.read_named(cx, report, &text, unquotes) {
            cx.say(&format!("{name}:\n{answer}"));
        }
    }

    fn call_write(&mut self, cx: &mut Context<'_>, report: &mut Report, text: &str, unq: bool) {
        let text = self.expanded(cx, report, text);
        let Some(mut call) = self.find(cx, report, &text, true) else { return };
        let value;
        if unq {
            value = unquoted(call.value);
            call.value = &value;
        }
        let result = match call.target {
            Some(element) => cx.write_handler(element, call.name, call.value),
            None => {
                let mut inner = Report::collect();
                let status = self.obey(cx, &mut inner, call.name, call.value);
                inner.into_result(status.map(|()| String::new()))
            }
        };
        self.write_status = if result.is_ok() { 0 } else { FAILED };
        if let Err(error) = result {
            report.error(cx, &call.context(), &error.to_string());
        }
    }

    /// How the last run ended, and what it returned.
    pub fn outcome(&self, is_packet: bool) -> (Option<Finish>, String) {
        let finish = match self.program.steps.get(self.at) {
            Some(Step::Finish(finish)) => Some(*finish),
            Some(Step::Error { .. }) => Some(Finish::Error),
            Some(Step::Goto { to: Jump::Finish(finish), .. }) => Some(*finish),
            Some(Step::Return { .. }) => {
                let value = self.program.variable(RETURNED);
                let value = value.map(|at| self.program.variables[at].1.clone());
                return (None, value.unwrap_or_default());
            }
            _ => None,
        };
        let value = if is_packet && finish == Some(Finish::End) { "0" } else { "" };
        (finish, value.to_owned())
    }

    /// Awaits the signals again once a script that they run came to its end.
    pub fn settle(&mut self, cx: &mut Context<'_>) {
        if self.kind == Some(Kind::Signal)
            && self.outcome(false).0 == Some(Finish::End)
            && let Err(error) = self.watch(cx)
        {
            cx.say(&format!("{}: {error}", cx.declaration()));
        }
    }

    /// Has the script run at its signals.
    pub fn watch(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let handler = format!("{}.run", cx.name());
        for signal in &self.signals {
            cx.console().watch_signal(signal, &handler)?;
        }
        Ok(())
    }
}

/// What comes after a step.
enum Then {
    /// The next one.
    Next,
    /// Nothing until later.
    Wait,
    /// Nothing.
    Finish,
}

/// The text of a system error without its number, as in C.
pub fn cause(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
