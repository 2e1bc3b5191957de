//! The handlers of a script.

use warpswitch_graph::language::args::split::quote;
use warpswitch_graph::language::args::{FromArg, NoNames};
use warpswitch_graph::{Context, HandlerError, HandlerSpec};
use warpswitch_io::name_folder;

use super::program::{Finish, Jump};
use super::run::{By, Report, cause};
use super::words::{shift, unquoted};
use super::{Kind, Script, functions};

/// The most bytes of a file that `cat` reads.
const FILE_BYTES_MAX: u64 = 16 << 20;

const fn function(name: &'static str) -> HandlerSpec {
    HandlerSpec::read(name).with_param()
}

pub const HANDLERS: &[HandlerSpec] = &[
    HandlerSpec::write("step"),
    HandlerSpec::write("goto"),
    HandlerSpec::both("run").with_param(),
    function("add"),
    function("sub"),
    function("min"),
    function("max"),
    function("mul"),
    function("div"),
    function("idiv"),
    function("mod"),
    function("rem"),
    function("neg"),
    function("abs"),
    function("eq"),
    function("ne"),
    function("gt"),
    function("ge"),
    function("lt"),
    function("le"),
    function("not"),
    function("sprintf"),
    function("first"),
    function("random"),
    function("and"),
    function("or"),
    function("nand"),
    function("nor"),
    function("if"),
    function("in"),
    HandlerSpec::read("now"),
    function("readable"),
    function("writable"),
    function("length"),
    function("unquote"),
    function("htons"),
    function("htonl"),
    function("ntohs"),
    function("ntohl"),
    function("cat").hidden(),
    function("catq").hidden(),
    function("kill").hidden(),
    function("get"),
    HandlerSpec::write("set"),
    function("shift"),
];

impl Script {
    /// The script's own handler `name`.
    pub fn spec(&self, name: &str) -> Option<HandlerSpec> {
        use warpswitch_graph::Element;
        let known = HANDLERS.iter().find(|spec| spec.name == name).copied();
        known.or_else(|| self.named_handler(name))
    }

    /// Whether a handler without element is the script's own.
    pub fn has(&self, name: &str) -> bool {
        self.kind != Some(Kind::Proxy) && self.spec(name).is_some()
            || HANDLERS.iter().any(|spec| spec.name == name)
    }

    /// Answers read handler `name`. What went wrong is in the report too.
    pub fn answer(
        &mut self,
        cx: &mut Context<'_>,
        report: &mut Report,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        if let Some(answer) = functions::call(name, param) {
            return answer.map_err(HandlerError::Failed);
        }
        match name {
            "now" => Ok(cx.now().to_string()),
            "random" => random(cx, param).map_err(HandlerError::Failed),
            "readable" | "writable" => Ok(self.has_all(cx, name == "writable", param)),
            "cat" => read_file(param).map_err(HandlerError::Failed),
            "catq" => {
                read_file(param).map(|text| quote(text.as_bytes())).map_err(HandlerError::Failed)
            }
            "kill" => kill(cx, param).map(|()| String::new()).map_err(HandlerError::Failed),
            "get" | "shift" => self.variable(name, param).map_err(HandlerError::Failed),
            name if self.runs(name) => {
                self.run_from_start(cx, report, name, param, false)?;
                Ok(self.outcome(false).1)
            }
            name => {
                let variable = self.program.variable(name).ok_or(HandlerError::Missing)?;
                Ok(self.program.variables[variable].1.clone())
            }
        }
    }

    /// Whether using handler `name` runs the script.
    fn runs(&self, name: &str) -> bool {
        name == "run"
            || self.kind == Some(Kind::Proxy) && !HANDLERS.iter().any(|spec| spec.name == name)
    }

    /// Obeys write handler `name`.
    pub fn obey(
        &mut self,
        cx: &mut Context<'_>,
        report: &mut Report,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        match name {
            "set" => {
                let (variable, value) = shift(value);
                if variable.is_empty() {
                    return Err(HandlerError::failed("no variable"));
                }
                if variable == "args" {
                    self.args = value.to_owned();
                } else {
                    let variable = self.program.define(variable);
                    self.program.variables[variable].1 = value.to_owned();
                }
                Ok(())
            }
            "step" => {
                let steps = match value.trim_ascii() {
                    "" => 1,
                    text => i64::from(
                        u32::from_arg(text, &NoNames)
                            .map_err(|_| HandlerError::failed("syntax error"))?,
                    ),
                };
                self.enter(cx, report, steps, By::Step)
            }
            "goto" => {
                let Some(Jump::Step(to)) = self.program.label(value.trim_ascii()) else {
                    return Err(HandlerError::failed("jump to nonexistent label"));
                };
                self.progress[to..].fill(0);
                self.at = to;
                self.enter(cx, report, 0, By::Jump)
            }
            name => self.run_from_start(cx, report, name, value, true),
        }
    }

    fn run_from_start(
        &mut self,
        cx: &mut Context<'_>,
        report: &mut Report,
        name: &str,
        args: &str,
        is_write: bool,
    ) -> Result<(), HandlerError> {
        self.at = 0;
        (self.args, self.handler, self.is_write) = (args.to_owned(), name.to_owned(), is_write);
        let result = self.enter(cx, report, 0, By::Jump);
        (self.handler, self.is_write) = (String::new(), false);
        result
    }

    /// Runs the script, or has the run that is under way go on from there.
    fn enter(
        &mut self,
        cx: &mut Context<'_>,
        report: &mut Report,
        steps: i64,
        by: By,
    ) -> Result<(), HandlerError> {
        if self.is_running {
            if by == By::Step {
                *self.asked.get_or_insert(0) += steps;
            }
            return Ok(());
        }
        let mut steps = Some(steps);
        let mut by = by;
        while let Some(wanted) = steps {
            self.run_steps(cx, report, wanted, by);
            (steps, by) = (self.asked.take(), By::Step);
        }
        match self.outcome(false).0 {
            Some(Finish::Error) => Err(HandlerError::failed("")),
            _ => Ok(()),
        }
    }

    fn variable(&mut self, name: &str, param: &str) -> Result<String, String> {
        let (variable, rest) = shift(param);
        if !rest.is_empty() {
            return Err("too many arguments".to_owned());
        }
        let variable = match variable {
            "" if name == "shift" => "args",
            "" => return Err("no variable".to_owned()),
            variable => variable,
        };
        let value = match variable {
            "args" => &mut self.args,
            variable => match self.program.variable(variable) {
                Some(at) => &mut self.program.variables[at].1,
                None => return Err(format!("undefined variable '{variable}'")),
            },
        };
        if name == "get" {
            return Ok(value.clone());
        }
        let (first, rest) = shift(value);
        let (first, rest) = (first.to_owned(), rest.to_owned());
        *value = rest;
        Ok(first)
    }

    /// Whether all handlers that are named are there.
    fn has_all(&self, cx: &mut Context<'_>, is_write: bool, names: &str) -> String {
        let mut rest = names;
        while !rest.is_empty() {
            let (name, left) = shift(rest);
            if self.find(cx, &mut Report::collect(), name, is_write).is_none() {
                return false.to_string();
            }
            rest = left;
        }
        true.to_string()
    }
}

/// A random number: any, below one, or from one to another.
fn random(cx: &mut Context<'_>, text: &str) -> Result<String, String> {
    let numbers: Result<Vec<u32>, _> =
        text.split_ascii_whitespace().map(|word| u32::from_arg(word, &NoNames)).collect();
    let (least, most) = match numbers.map_err(|error| error.to_string())?[..] {
        [] => return Ok((cx.random() >> 1).to_string()),
        [0] => return Err("bad N".to_owned()),
        [count] => (0, count - 1),
        [least, most] if least <= most => (least, most),
        [_, _] => return Err("bad N".to_owned()),
        _ => return Err("too many arguments".to_owned()),
    };
    let span = u64::from(most - least) + 1;
    Ok((u64::from(least) + u64::from(cx.random()) * span / (1 << 32)).to_string())
}

fn read_file(text: &str) -> Result<String, String> {
    use std::io::Read;
    let path = unquoted(text.trim_ascii());
    if path.is_empty() {
        return Err("bad FILE".to_owned());
    }
    let mut bytes = Vec::new();
    let read = std::fs::File::open(&path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    match read {
        Err(error) => Err(format!("{path}: {}", cause(&name_folder(path.as_ref(), error)))),
        Ok(_) if bytes.len() as u64 > FILE_BYTES_MAX => Err(format!("{path}: file too large")),
        Ok(_) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

fn kill(cx: &mut Context<'_>, text: &str) -> Result<(), String> {
    let (signal, mut rest) = shift(text);
    if signal.is_empty() {
        return Err("bad SIGNO".to_owned());
    }
    while !rest.is_empty() {
        let (process, left) = shift(rest);
        let process = u32::from_arg(process, &NoNames).map_err(|_| "bad PID")?;
        cx.console().send_signal(signal, process)?;
        rest = left;
    }
    Ok(())
}
