//! One client of a control connection: bytes in, bytes out.
//!
//! ```text
//! READ handler [arg…]      READDATA handler n      READUNTIL handler [line]      as GET
//! WRITE handler [arg…]     WRITEDATA handler n     WRITEUNTIL handler [line]     as SET, SETDATA
//! CHECKREAD handler        CHECKWRITE handler      LLRPC …      HELP      QUIT   as CLOSE
//! ```
//! Lines end with CR, LF or both; commands are upper or lower case. A reply is lines of
//! `code-text`, the last one `code text`; after a successful read `DATA n` and n bytes follow.
//!
//! # Invariants
//! - C1: memory is bounded: a line has at most [`LINE_BYTES_MAX`], the data behind it at most
//!   [`DATA_BYTES_MAX`]; what is longer is told and passed over. While more than
//!   [`OUTPUT_BYTES_MAX`] wait to be sent, no command is obeyed and no byte is taken, so one
//!   answer at most comes on top.
//! - C2: one call obeys at most one command.
//!
//! # Source
//! The manual of Click's ControlSocket, protocol 1.3.

use super::Controlled;
use crate::handler::{HandlerError, HandlerSpec};

/// The most bytes of a command line; a whole configuration may stand in one.
pub const LINE_BYTES_MAX: usize = 1 << 20;
/// The most bytes of data behind a line.
pub const DATA_BYTES_MAX: usize = 1 << 22;
/// The most bytes that wait to be sent while commands are obeyed.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;

const OK: u16 = 200;
const SYNTAX: u16 = 500;
const UNIMPLEMENTED: u16 = 501;
const NO_ELEMENT: u16 = 510;
const NO_HANDLER: u16 = 511;
const HANDLER_ERROR: u16 = 520;
const TOO_BIG: u16 = 521;
const PERMISSION: u16 = 530;
const UNSPECIFIED: u16 = 590;

const HELP: [&str; 11] = [
    "Commands supported:",
    "READ handler [arg...]   call read handler, return DATA",
    "READDATA handler len    call read handler with len data bytes, return DATA",
    "READUNTIL handler term  call read handler, take data until term, return DATA",
    "WRITE handler [arg...]  call write handler",
    "WRITEDATA handler len   call write handler, pass len data bytes",
    "WRITEUNTIL handler term call write handler, take data until term",
    "CHECKREAD handler       check if read handler is valid",
    "CHECKWRITE handler      check if write handler is valid",
    "LLRPC elt#number [len]  call LLRPC, pass len data bytes, return DATA",
    "QUIT                    close connection",
];

/// A client. See the module.
#[derive(Debug)]
pub struct Connection {
    is_read_only: bool,
    input: Vec<u8>,
    /// Bytes of `input` that were obeyed.
    done: usize,
    /// Bytes of `input` that hold no line end, so that a slow line is not searched again.
    searched: usize,
    output: Vec<u8>,
    state: State,
    /// Whether a line ended with CR as the last byte that came: a LF may belong to it.
    after_cr: bool,
    /// Whether no more bytes will come.
    ended: bool,
    quit: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// A command line comes next.
    Line,
    /// So many bytes of data.
    Data { command: Command, bytes: usize },
    /// Lines of data up to this one.
    Until { command: Command, end: Vec<u8> },
    /// So many bytes that are passed over.
    Skip(usize),
    /// What is left of a line that was too long.
    SkipLine,
}

/// What is done with data once it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Command {
    is_write: bool,
    handler: String,
}

impl Connection {
    /// A client that just came, greeted.
    pub fn new(is_read_only: bool) -> Self {
        Self {
            is_read_only,
            input: Vec::new(),
            done: 0,
            searched: 0,
            output: b"Click::ControlSocket/1.3\r\n".to_vec(),
            state: State::Line,
            after_cr: false,
            ended: false,
            quit: false,
        }
    }

    /// Whether bytes are welcome: if not, what comes must wait outside.
    pub fn wants_input(&self) -> bool {
        let waiting = self.input.len() - self.done;
        !self.ended
            && !self.quit
            && self.output.len() < OUTPUT_BYTES_MAX
            && waiting <= LINE_BYTES_MAX.max(DATA_BYTES_MAX)
    }

    /// Takes bytes of the client.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        if !bytes.is_empty() && std::mem::take(&mut self.after_cr) {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        if !self.quit {
            self.input.extend_from_slice(bytes);
        }
    }

    /// No more bytes will come.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// What is to be sent.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// So many bytes of [`Connection::output`] were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.output.drain(..bytes.min(self.output.len()));
    }

    /// Whether it is over: all was obeyed and sent, or the client said so.
    pub fn is_over(&self) -> bool {
        self.output.is_empty() && (self.quit || self.ended && self.input.len() == self.done)
    }

    /// Obeys the next command, if it is all there. Tells whether there was one.
    pub fn obey(&mut self, target: &mut dyn Controlled) -> bool {
        if self.quit || self.output.len() >= OUTPUT_BYTES_MAX {
            return false;
        }
        let obeyed = match self.state.clone() {
            State::Line => self.line(target),
            State::Data { command, bytes } => self.data(target, &command, bytes),
            State::Until { command, end } => self.until(target, &command, &end),
            State::Skip(bytes) => self.skip(bytes),
            State::SkipLine => self.skip_line(),
        };
        if obeyed {
            self.searched = 0;
            // Moved to the front now and then, not with every command.
            if self.done == self.input.len() || self.done > 1 << 16 {
                self.input.drain(..self.done);
                self.done = 0;
            }
        }
        obeyed
    }

    fn waiting(&self) -> &[u8] {
        &self.input[self.done..]
    }

    /// Where the line that waits ends, and where the next begins.
    fn line_end(&mut self) -> Option<(usize, usize)> {
        let searched = self.searched;
        let waiting = self.waiting();
        let found = waiting[searched..].iter().position(|b| matches!(b, b'\r' | b'\n'));
        let Some(end) = found.map(|at| searched + at) else {
            self.searched = waiting.len();
            return (self.ended && !self.waiting().is_empty())
                .then(|| (self.waiting().len(), self.waiting().len()));
        };
        match waiting[end..] {
            [b'\r', b'\n', ..] => Some((end, end + 2)),
            [b'\r'] => {
                self.after_cr = true;
                Some((end, end + 1))
            }
            _ => Some((end, end + 1)),
        }
    }

    fn line(&mut self, target: &mut dyn Controlled) -> bool {
        let Some((end, next)) = self.line_end() else {
            if self.waiting().len() > LINE_BYTES_MAX {
                self.reply(SYNTAX, "Line too long", false);
                (self.done, self.state) = (self.input.len(), State::SkipLine);
                return true;
            }
            return false;
        };
        if end > LINE_BYTES_MAX {
            self.reply(SYNTAX, "Line too long", false);
            self.done += next;
            return true;
        }
        let line = String::from_utf8_lossy(&self.waiting()[..end]).into_owned();
        self.done += next;
        self.command(target, &line);
        true
    }

    fn skip_line(&mut self) -> bool {
        match self.line_end() {
            Some((_, next)) => {
                self.done += next;
                self.state = State::Line;
            }
            None if self.waiting().is_empty() => return false,
            None => self.done = self.input.len(),
        }
        true
    }

    fn skip(&mut self, bytes: usize) -> bool {
        let skipped = bytes.min(self.waiting().len());
        self.done += skipped;
        self.state = if skipped == bytes { State::Line } else { State::Skip(bytes - skipped) };
        if self.ended {
            self.state = State::Line;
        }
        skipped > 0 || self.state == State::Line
    }

    fn data(&mut self, target: &mut dyn Controlled, command: &Command, bytes: usize) -> bool {
        if self.waiting().len() < bytes {
            return self.not_enough();
        }
        let data = String::from_utf8_lossy(&self.waiting()[..bytes]).into_owned();
        self.done += bytes;
        self.state = State::Line;
        self.call(target, command, &data);
        true
    }

    fn until(&mut self, target: &mut dyn Controlled, command: &Command, end: &[u8]) -> bool {
        let waiting = self.waiting();
        // Lines that were seen are not looked at again.
        let mut start = self.searched;
        loop {
            let rest = &waiting[start..];
            let Some(len) = rest.iter().position(|b| matches!(b, b'\r' | b'\n')) else { break };
            if rest[len..] == *b"\r" && !self.ended {
                // A line feed may follow that belongs to it.
                break;
            }
            let next = start + len + if rest[len..].starts_with(b"\r\n") { 2 } else { 1 };
            if rest[..len].trim_ascii_end() == end {
                let data = String::from_utf8_lossy(&waiting[..start]).into_owned();
                self.done += next;
                self.state = State::Line;
                self.call(target, command, &data);
                return true;
            }
            start = next;
        }
        if waiting.len() > DATA_BYTES_MAX {
            self.reply(TOO_BIG, "Data too large", false);
            self.quit = true;
            return true;
        }
        self.searched = start;
        self.not_enough()
    }

    /// Data that is not all there: it may come, or never will.
    fn not_enough(&mut self) -> bool {
        if self.ended {
            self.reply(SYNTAX, "Not enough data", false);
            (self.done, self.state) = (self.input.len(), State::Line);
        }
        self.ended
    }

    fn command(&mut self, target: &mut dyn Controlled, line: &str) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let Some(name) = words.first().map(|word| word.to_ascii_uppercase()) else { return };
        let is_write = name.starts_with('W') || name.starts_with('S');
        let command =
            || Command { is_write, handler: words.get(1).copied().unwrap_or("").to_owned() };
        match (name.as_str(), words.len()) {
            ("READ" | "GET" | "WRITE" | "SET", 2..) => {
                self.call(target, &command(), behind_words(line, 2));
            }
            ("READDATA" | "WRITEDATA" | "SETDATA", 3) => match words[2].parse::<usize>() {
                Ok(bytes) if bytes <= DATA_BYTES_MAX => {
                    self.state = State::Data { command: command(), bytes };
                }
                Ok(bytes) => {
                    let kind = if is_write { "write" } else { "read" };
                    let text = format!("Data too large for {kind} handler '{}'", words[1]);
                    self.reply(TOO_BIG, &text, false);
                    self.state = State::Skip(bytes);
                }
                Err(_) => self.reply(SYNTAX, &format!("Syntax error in '{name}'"), false),
            },
            ("READUNTIL" | "WRITEUNTIL" | "SETUNTIL", 2..) => {
                let end = behind_words(line, 2).as_bytes().to_vec();
                self.state = State::Until { command: command(), end };
            }
            ("CHECKREAD", 2) => self.check(target, words[1], false),
            ("CHECKWRITE", 2) => self.check(target, words[1], true),
            ("LLRPC", 2 | 3) => {
                let text = format!("Cannot call LLRPC '{}' remotely", words[1]);
                self.reply(UNIMPLEMENTED, &text, false);
                self.state = match words.get(2).map(|word| word.parse::<usize>()) {
                    Some(Ok(bytes)) => State::Skip(bytes),
                    _ => State::Line,
                };
            }
            ("QUIT" | "CLOSE", words) => {
                if words != 1 {
                    self.reply(SYNTAX, "Bad command syntax", false);
                }
                self.reply(OK, "Goodbye!", false);
                self.quit = true;
            }
            ("HELP", _) => {
                for (idx, text) in HELP.iter().enumerate() {
                    self.reply(OK, text, idx + 1 < HELP.len());
                }
            }
            (
                "READ" | "GET" | "WRITE" | "SET" | "READDATA" | "WRITEDATA" | "SETDATA"
                | "READUNTIL" | "WRITEUNTIL" | "SETUNTIL" | "CHECKREAD" | "CHECKWRITE" | "LLRPC",
                _,
            ) => self.reply(SYNTAX, "Wrong number of arguments", false),
            _ => {
                let text = format!("Command '{}' unimplemented", excerpt(&name));
                self.reply(UNIMPLEMENTED, &text, false);
            }
        }
    }

    fn call(&mut self, target: &mut dyn Controlled, command: &Command, data: &str) {
        let name = &command.handler;
        let Some(spec) = self.find(target, name) else { return };
        let may = if command.is_write { spec.write } else { spec.read };
        if !may {
            let only = if command.is_write { "read-only" } else { "write-only" };
            return self.reply(PERMISSION, &format!("Handler '{name}' {only}"), false);
        }
        if command.is_write && self.is_read_only {
            return self.reply(PERMISSION, &format!("Permission denied for '{name}'"), false);
        }
        let handler = canonical(name);
        if command.is_write {
            match target.write(handler, data) {
                // What became of packets is worth knowing; other handlers answer as in Click.
                Ok(told) if handler == "hotconfig" && !told.is_empty() => {
                    self.reply(OK, &format!("Write handler '{name}' OK:"), true);
                    self.reply(OK, &told, false);
                }
                Ok(_) => self.reply(OK, &format!("Write handler '{name}' OK"), false),
                Err(error) => {
                    let text = format!("Write handler '{name}' error");
                    self.failed(HANDLER_ERROR, &text, &error);
                }
            }
            return;
        }
        let answer = match data {
            data if !data.is_empty() && !spec.param => {
                Err(HandlerError::failed(format!("read handler '{name}' does not take parameters")))
            }
            data => target.read(handler, data),
        };
        match answer {
            Ok(answer) => {
                self.reply(OK, &format!("Read handler '{name}' OK"), false);
                self.output.extend_from_slice(format!("DATA {}\r\n", answer.len()).as_bytes());
                self.output.extend_from_slice(answer.as_bytes());
            }
            Err(error) => self.failed(UNSPECIFIED, &format!("Read handler '{name}' error"), &error),
        }
    }

    fn check(&mut self, target: &mut dyn Controlled, name: &str, is_write: bool) {
        let Some(spec) = self.find(target, name) else { return };
        let (may, kind) = if is_write { (spec.write, "Write") } else { (spec.read, "Read") };
        let (code, text) = match may {
            true if is_write && self.is_read_only => {
                (PERMISSION, format!("Permission denied for '{name}'"))
            }
            true => (OK, format!("{kind} handler '{name}' OK")),
            false => {
                let able = if is_write { "writable" } else { "readable" };
                (NO_HANDLER, format!("Handler '{name}' not {able}"))
            }
        };
        self.reply(code, &text, false);
    }

    /// The handler that a client may see under `name`; what is wrong is replied.
    fn find(&mut self, target: &mut dyn Controlled, name: &str) -> Option<HandlerSpec> {
        match target.handler(canonical(name)) {
            Ok(spec) if !spec.hidden => return Some(spec),
            Err(HandlerError::NoElement(element)) => {
                let text = format!("No element named '{}'", excerpt(&element));
                self.reply(NO_ELEMENT, &text, false);
            }
            _ => {
                let text = format!("No handler named '{}'", excerpt(name));
                self.reply(NO_HANDLER, &text, false);
            }
        }
        None
    }

    fn failed(&mut self, code: u16, text: &str, error: &HandlerError) {
        let message = error.to_string();
        let lines: Vec<&str> = message.lines().collect();
        let (colon, goes_on) = if lines.is_empty() { ("", false) } else { (":", true) };
        self.reply(code, &format!("{text}{colon}"), goes_on);
        for (idx, line) in lines.iter().enumerate() {
            self.reply(code, line, idx + 1 < lines.len());
        }
    }

    fn reply(&mut self, code: u16, text: &str, goes_on: bool) {
        let mark = if goes_on { '-' } else { ' ' };
        let safe: String = text
            .chars()
            .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
            .collect();
        self.output.extend_from_slice(format!("{code}{mark}{safe}\r\n").as_bytes());
    }
}

/// A handler of the whole may be written `.name` or `0.name`.
fn canonical(name: &str) -> &str {
    name.strip_prefix("0.").or_else(|| name.strip_prefix('.')).unwrap_or(name)
}

/// What stands behind so many words, without the blanks around it.
fn behind_words(line: &str, words: usize) -> &str {
    (0..words)
        .fold(line, |line, _| {
            let line = line.trim_ascii_start();
            &line[line.find(|c: char| c.is_ascii_whitespace()).unwrap_or(line.len())..]
        })
        .trim_ascii()
}

/// As much of a name as a reply may repeat.
fn excerpt(name: &str) -> String {
    name.chars().take(200).collect()
}
