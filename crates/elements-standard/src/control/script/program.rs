//! Scripts as a list of steps.

use warpswitch_graph::language::args::{FromArg, NoNames};

use super::words::shift;

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Where a script that does not begin by waiting begins.
    Begin,
    /// Waits to be stepped so many times.
    Pause(u32),
    /// Waits for a time, or to be stepped.
    WaitTime(String),
    Print {
        to: Target,
        text: String,
        newline: bool,
        unquotes: bool,
    },
    Read {
        text: String,
        unquotes: bool,
    },
    Write {
        text: String,
        unquotes: bool,
    },
    Set {
        variable: usize,
        text: String,
        unquotes: bool,
    },
    /// Sets a variable once, when the script gets ready; it may be read from outside.
    Init {
        variable: usize,
        text: String,
        unquotes: bool,
        is_public: bool,
    },
    Return {
        text: String,
        unquotes: bool,
    },
    Label(String),
    Goto {
        to: Jump,
        condition: String,
    },
    Error {
        text: String,
        unquotes: bool,
    },
    /// Ends the run of the script.
    Finish(Finish),
}

/// How a run of a script ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// All is done.
    End,
    /// All is done, and it will not run again.
    Exit,
    /// All is done, and the driver is requested to stop.
    Stop,
    /// Something is wrong.
    Error,
}

/// Where a jump leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jump {
    /// To a step.
    Step(usize),
    /// Out of the script.
    Finish(Finish),
}

/// Where text is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Output,
    File { path: String, appends: bool },
}

/// The steps of a script, and its variables.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub steps: Vec<Step>,
    /// Names and values.
    pub variables: Vec<(String, String)>,
}

/// The variable that holds what a script returns.
pub const RETURNED: &str = "_";

impl Program {
    /// The script of `instructions`; what is wrong is added to `errors`.
    pub fn parse(instructions: &[String], is_driver: bool, errors: &mut Vec<String>) -> Self {
        let mut program = Self::default();
        let mut jumps = Vec::new();
        for instruction in instructions {
            let (name, rest) = shift(instruction);
            if name.is_empty() {
                continue;
            }
            let is_jump = matches!(name, "goto" | "loop");
            match program.step(name, rest) {
                Some(step) => {
                    program.push(step);
                    if is_jump && !rest.is_empty() {
                        jumps.push((program.steps.len() - 1, shift(rest).0.to_owned()));
                    }
                }
                None => errors.push(format!("syntax error at '{name}'")),
            }
        }
        for (at, label) in jumps {
            let found = program.label(&label);
            match (&mut program.steps[at], found) {
                (Step::Goto { to, .. }, Some(found)) => *to = found,
                _ => errors.push(format!("no such label '{label}'")),
            }
        }
        if program.steps.is_empty() && is_driver {
            program.push(Step::Pause(1));
        }
        program.push(Step::Finish(if is_driver { Finish::Stop } else { Finish::End }));
        program
    }

    /// Adds a step. A script begins by waiting, or with [`Step::Begin`].
    pub fn push(&mut self, step: Step) {
        let waits = matches!(step, Step::Pause(_) | Step::WaitTime(_));
        if self.steps.is_empty() && !waits {
            self.steps.push(Step::Begin);
        }
        self.steps.push(step);
    }

    /// Where `label` is.
    pub fn label(&self, label: &str) -> Option<Jump> {
        let is_it = |step: &Step| matches!(step, Step::Label(name) if name == label);
        if let Some(at) = self.steps.iter().position(is_it) {
            return Some(Jump::Step(at));
        }
        match label {
            "begin" | "loop" => Some(Jump::Step(0)),
            "end" => Some(Jump::Finish(Finish::End)),
            "exit" => Some(Jump::Finish(Finish::Exit)),
            "stop" => Some(Jump::Finish(Finish::Stop)),
            "error" | "errorq" => Some(Jump::Finish(Finish::Error)),
            _ => None,
        }
    }

    /// Index of the variable `name`, if there is one.
    pub fn variable(&self, name: &str) -> Option<usize> {
        self.variables.iter().position(|(known, _)| known == name)
    }

    /// Index of the variable `name`, which is there from now on.
    pub fn define(&mut self, name: &str) -> usize {
        self.variable(name).unwrap_or_else(|| {
            self.variables.push((name.to_owned(), String::new()));
            self.variables.len() - 1
        })
    }

    fn step(&mut self, name: &str, rest: &str) -> Option<Step> {
        let text = rest.to_owned();
        // Of a pair of instructions the one that ends with q takes quotes off.
        let unquotes = name.ends_with('q');
        let bare = |step: Step| rest.is_empty().then_some(step);
        match name {
            "wait" if rest.is_empty() => Some(Step::Pause(1)),
            "wait" | "wait_time" | "wait_for" => Some(Step::WaitTime(text)),
            "pause" | "wait_step" | "wait_stop" => {
                let count = if rest.is_empty() { "1" } else { rest };
                u32::from_arg(count, &NoNames).ok().map(Step::Pause)
            }
            "print" | "printq" | "printn" | "printnq" => {
                let newline = !name.starts_with("printn");
                let (to, text) = redirected(rest);
                Some(Step::Print { to, text: text.to_owned(), newline, unquotes })
            }
            "save" | "append" => {
                let (handler, file) = shift(rest);
                let file = if file.is_empty() { "-" } else { file };
                let to = target(file, name == "append");
                let text = handler.to_owned();
                Some(Step::Print { to, text, newline: true, unquotes: false })
            }
            "read" | "readq" => Some(Step::Read { text, unquotes }),
            "write" | "writeq" | "call" => Some(Step::Write { text, unquotes }),
            "set" | "setq" | "init" | "initq" | "export" | "exportq" => {
                let (variable, text) = shift(rest);
                let is_set = name.starts_with("set");
                if variable.is_empty() || is_set && text.is_empty() {
                    return None;
                }
                let (variable, text) = (self.define(variable), text.to_owned());
                let is_public = name.starts_with("export");
                Some(match is_set {
                    true => Step::Set { variable, text, unquotes },
                    false => Step::Init { variable, text, unquotes, is_public },
                })
            }
            "return" | "returnq" => {
                self.define(RETURNED);
                Some(Step::Return { text, unquotes })
            }
            "label" => match shift(rest) {
                (label, "") if !label.is_empty() => Some(Step::Label(label.to_owned())),
                _ => None,
            },
            "goto" => {
                let condition = shift(rest).1.to_owned();
                Some(Step::Goto { to: Jump::Step(0), condition })
            }
            "loop" => bare(Step::Goto { to: Jump::Step(0), condition: String::new() }),
            "end" => bare(Step::Finish(Finish::End)),
            "exit" => bare(Step::Finish(Finish::Exit)),
            "stop" | "quit" => bare(Step::Finish(Finish::Stop)),
            "error" | "errorq" => Some(Step::Error { text, unquotes }),
            _ => None,
        }
    }
}

/// `>file text`, `>>file text` or plain text.
fn redirected(text: &str) -> (Target, &str) {
    let Some(rest) = text.strip_prefix('>') else { return (Target::Output, text) };
    let (appends, rest) = match rest.strip_prefix('>') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let (file, text) = shift(rest);
    (target(file, appends), text)
}

fn target(file: &str, appends: bool) -> Target {
    match file {
        "" | "-" => Target::Output,
        path => Target::File { path: super::words::unquoted(path), appends },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Program, Vec<String>) {
        let args = warpswitch_graph::language::args::split::split_args(text);
        let mut errors = Vec::new();
        (Program::parse(&args, false, &mut errors), errors)
    }

    #[test]
    fn instructions_become_steps() {
        let (program, errors) =
            parse("set x 1, label l, wait 1s, print >>f $x, goto l $(lt $x 3), goto end");
        assert_eq!(errors, [""; 0]);
        let finish = Step::Finish(Finish::End);
        let to = Target::File { path: "f".into(), appends: true };
        let goto = |to, condition: &str| Step::Goto { to, condition: condition.into() };
        assert_eq!(
            program.steps,
            [
                Step::Begin,
                Step::Set { variable: 0, text: "1".into(), unquotes: false },
                Step::Label("l".into()),
                Step::WaitTime("1s".into()),
                Step::Print { to, text: "$x".into(), newline: true, unquotes: false },
                goto(Jump::Step(2), "$(lt $x 3)"),
                goto(Jump::Finish(Finish::End), ""),
                finish.clone(),
            ]
        );
        let (program, _) = parse("wait_stop 3");
        assert_eq!(program.steps, [Step::Pause(3), finish]);
    }

    #[test]
    fn all_that_is_wrong_is_told() {
        let (_, errors) = parse("frob x, set x, wait_stop y, goto nowhere, end 1, label, loop 2");
        let syntax = |name: &str| format!("syntax error at '{name}'");
        let mut expected: Vec<String> =
            ["frob", "set", "wait_stop", "end", "label", "loop"].map(syntax).into();
        expected.push("no such label 'nowhere'".into());
        assert_eq!(errors, expected);
    }
}
