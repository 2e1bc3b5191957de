//! Arguments of elements: the configuration string read with types.
//!
//! An element names what it takes, and where each value goes; a value that is missing or wrong is
//! told, and all that is wrong with one element is told at once, in Click's words.
//!
//! ```
//! use warpswitch_graph::language::args::{Args, Bytes};
//! let (mut data, mut limit, mut stop) = (Bytes::default(), -1i64, false);
//! let mut args = Args::new("\"some data\", LIMIT 5, STOP true");
//! args.read_p("DATA", &mut data).read_p("LIMIT", &mut limit).read("STOP", &mut stop);
//! args.complete().unwrap();
//! assert_eq!((&data.0[..], limit, stop), (&b"some data"[..], 5, true));
//!
//! let mut args = Args::new("LIMIT x, 7, 8, STOPP no");
//! args.read_p("DATA", &mut data).read("LIMIT", &mut limit).read_m("STOP", &mut stop);
//! assert_eq!(
//!     args.complete().unwrap_err().to_string(),
//!     "LIMIT: invalid number\nSTOP: required argument missing\nSTOPP: unknown argument\n\
//!      too many arguments"
//! );
//! ```
//!
//! | reader | takes | if there is none |
//! | --- | --- | --- |
//! | [`Args::read`] | `KEY value` | the target keeps its value |
//! | [`Args::read_m`] | `KEY value` | an error |
//! | [`Args::read_p`] | `KEY value`, or the next argument without a keyword | the target keeps its value |
//! | [`Args::read_mp`] | `KEY value`, or the next argument, whatever it looks like | an error |
//!
//! Of several `KEY value` with one keyword the last counts. Once an argument that has a keyword was
//! taken by it, no argument behind it is positional.

mod address;
mod number;
pub mod split;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::near::nearest;
pub use address::{BareIpv4Prefix, BareIpv6Prefix, EtherAddress, Ipv4Prefix, Ipv6Prefix};
pub use number::{Bandwidth, Fixed, Saturating, Size};
use split::{split_args, split_words, unquote};

/// Names that a configuration gave to addresses and elements.
///
/// Every question has the answer "no such name" unless it is implemented.
pub trait Names {
    /// The IPv4 address called `name`.
    fn ipv4(&self, _name: &str) -> Option<Ipv4Addr> {
        None
    }
    /// The IPv4 prefix called `name`.
    fn ipv4_prefix(&self, _name: &str) -> Option<Ipv4Prefix> {
        None
    }
    /// The IPv6 address called `name`.
    fn ipv6(&self, _name: &str) -> Option<Ipv6Addr> {
        None
    }
    /// The IPv6 prefix called `name`.
    fn ipv6_prefix(&self, _name: &str) -> Option<Ipv6Prefix> {
        None
    }
    /// The Ethernet address called `name`.
    fn ether(&self, _name: &str) -> Option<EtherAddress> {
        None
    }
    /// The TCP port called `name`.
    fn tcp_port(&self, _name: &str) -> Option<u16> {
        None
    }
    /// The UDP port called `name`.
    fn udp_port(&self, _name: &str) -> Option<u16> {
        None
    }
    /// Index of the element called `name`, as seen from the element that is configured.
    fn element(&self, _name: &str) -> Option<usize> {
        None
    }
}

/// Where there are no names.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Names for NoNames {}

/// What is wrong with a value, or strange about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgError {
    /// It cannot be read.
    Parse,
    /// It cannot be read, for this reason.
    Message(String),
}

impl ArgError {
    /// An error with these words.
    pub fn new(message: impl Into<String>) -> Self {
        Self::Message(message.into())
    }
}

impl fmt::Display for ArgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgError::Parse => f.write_str("parse error"),
            ArgError::Message(message) => f.write_str(message),
        }
    }
}

/// A value that an argument can be read as.
pub trait FromArg: Sized {
    /// What such a value is, with an example: told where one is wrong or missing, beside Click's
    /// words for that. Empty if these are enough.
    const EXPECTED: &str = "";

    /// Reads `text`, an argument without its keyword, quotes not yet taken off.
    ///
    /// # Errors
    /// Why it is not such a value.
    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError>;
}

/// All that is wrong with the arguments of one element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgsError {
    /// The messages, in the order in which they were found; never empty.
    pub messages: Vec<String>,
    /// Which argument each is about, counted from 0, as far as it is about one.
    pub args: Vec<Option<usize>>,
    /// Of keywords that are not known, by their arguments: those that were perhaps meant.
    pub meant: BTreeMap<usize, String>,
    /// What would be right, a line each. Click has no such lines.
    pub help: Vec<String>,
}

impl fmt::Display for ArgsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.messages.join("\n"))
    }
}

impl std::error::Error for ArgsError {}

/// A file that an element reads or writes.
#[derive(Clone, Debug)]
pub(crate) struct NotedFile {
    pub name: String,
    /// The argument that names it.
    pub keyword: String,
    /// Which one that is, counted from 0, if it is given.
    pub arg: Option<usize>,
    pub is_written: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    TakenByPosition,
    TakenByKeyword,
}

#[derive(Clone, Debug)]
struct Arg {
    text: String,
    /// Bytes of what may be a keyword; 0 if the argument does not begin like that.
    keyword_len: usize,
    state: State,
}

/// A keyword that an argument is, or begins with, and what its value would be.
#[derive(Clone, Debug)]
struct Bare {
    keyword: String,
    arg: usize,
    expected: &'static str,
}

/// The arguments of one element, and what was found wrong with them.
pub struct Args<'a> {
    args: Vec<Arg>,
    names: &'a dyn Names,
    errors: Vec<(String, Option<usize>)>,
    /// Keywords that were asked for.
    asked: Vec<String>,
    /// Of keywords that nothing asked for, by their arguments: those that were perhaps meant.
    meant: BTreeMap<usize, String>,
    /// Which argument was taken by which keyword.
    taken: Vec<(String, usize)>,
    /// Which arguments were taken as the rest.
    rest: Vec<usize>,
    warnings: Vec<String>,
    /// What would be right.
    help: Vec<String>,
    files: Vec<NotedFile>,
    /// Of keywords that were asked for: the first argument that is one, or begins with it.
    bare: Vec<Bare>,
}

impl Args<'static> {
    /// The arguments of a configuration string.
    pub fn new(config: &str) -> Self {
        Args::with_names(config, &NoNames)
    }
}

impl<'a> Args<'a> {
    /// The same, where values may be names.
    pub fn with_names(config: &str, names: &'a dyn Names) -> Self {
        Self::from_list(split_args(config), names)
    }

    /// The words of one argument, as if they were arguments.
    pub fn of_words(arg: &str, names: &'a dyn Names) -> Self {
        Self::from_list(split_words(arg), names)
    }

    fn from_list(args: Vec<String>, names: &'a dyn Names) -> Self {
        let arg = |text: String| {
            let keyword_len = keyword_len(&text);
            Arg { text, keyword_len, state: State::Free }
        };
        let args = args.into_iter().map(arg).collect();
        Self {
            args,
            names,
            errors: Vec::new(),
            asked: Vec::new(),
            meant: BTreeMap::new(),
            taken: Vec::new(),
            rest: Vec::new(),
            warnings: Vec::new(),
            help: Vec::new(),
            files: Vec::new(),
            bare: Vec::new(),
        }
    }

    /// How many arguments have not been taken.
    pub fn len(&self) -> usize {
        self.args.iter().filter(|arg| arg.state == State::Free).count()
    }

    /// Whether all arguments have been taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads an optional keyword argument.
    pub fn read<T: FromArg>(&mut self, keyword: &str, target: &mut T) -> &mut Self {
        self.read_value(keyword, false, false, target)
    }

    /// Reads a keyword argument that must be there.
    pub fn read_m<T: FromArg>(&mut self, keyword: &str, target: &mut T) -> &mut Self {
        self.read_value(keyword, true, false, target)
    }

    /// Reads an optional argument that needs no keyword.
    pub fn read_p<T: FromArg>(&mut self, keyword: &str, target: &mut T) -> &mut Self {
        self.read_value(keyword, false, true, target)
    }

    /// Reads an argument that must be there and needs no keyword.
    pub fn read_mp<T: FromArg>(&mut self, keyword: &str, target: &mut T) -> &mut Self {
        self.read_value(keyword, true, true, target)
    }

    fn read_value<T: FromArg>(
        &mut self,
        keyword: &str,
        is_mandatory: bool,
        is_positional: bool,
        target: &mut T,
    ) -> &mut Self {
        let errors = self.errors.len();
        self.note_bare(keyword, T::EXPECTED);
        self.read_as(keyword, is_mandatory, is_positional, target, T::from_arg);
        if self.errors.len() > errors && !T::EXPECTED.is_empty() {
            self.help(format!("{keyword} takes {}", T::EXPECTED));
        }
        self
    }

    /// Reads an argument in a way of its own: mandatory or not, positional or not.
    pub fn read_as<T>(
        &mut self,
        keyword: &str,
        is_mandatory: bool,
        is_positional: bool,
        target: &mut T,
        parse: impl FnOnce(&str, &dyn Names) -> Result<T, ArgError>,
    ) -> &mut Self {
        match self.find(keyword, is_mandatory, is_positional) {
            Some(text) => match parse(&text, self.names) {
                Ok(value) => *target = value,
                Err(error) => self.error_at(keyword, &error.to_string()),
            },
            None if is_mandatory => self.error_at(keyword, "required argument missing"),
            None => {}
        }
        self
    }

    /// Reads every argument with `keyword`, in order.
    pub fn read_all<T: FromArg>(&mut self, keyword: &str, targets: &mut Vec<T>) -> &mut Self {
        self.ask(keyword);
        let has_keyword = |arg: &Arg| arg.state == State::Free && arg.keyword_len == keyword.len();
        for idx in 0..self.args.len() {
            let arg = &mut self.args[idx];
            if has_keyword(arg) && arg.text.starts_with(keyword) {
                arg.state = State::TakenByKeyword;
                match T::from_arg(arg.text[keyword.len()..].trim_ascii_start(), self.names) {
                    Ok(value) => targets.push(value),
                    Err(error) => {
                        self.taken.push((keyword.to_owned(), idx));
                        self.error_at(keyword, &error.to_string());
                    }
                }
            }
        }
        self
    }

    /// Takes all arguments that are left, as they are written.
    pub fn rest(&mut self) -> Vec<String> {
        let free = self.args.iter_mut().enumerate().filter(|(_, arg)| arg.state == State::Free);
        let take = |(idx, arg): (usize, &mut Arg)| {
            arg.state = State::TakenByPosition;
            (idx, std::mem::take(&mut arg.text))
        };
        let (places, texts) = free.map(take).unzip();
        self.rest = places;
        texts
    }

    /// Which argument `keyword` was read from.
    fn taken_by(&self, keyword: &str) -> Option<usize> {
        let mut taken = self.taken.iter().rev();
        taken.find(|(by, _)| !keyword.is_empty() && by == keyword).map(|(_, idx)| *idx)
    }

    /// Notes that the element reads the file `name`, which the argument `keyword` says: no other
    /// one may write it. What is no file, such as `-`, and an empty name count for nothing.
    pub fn note_input(&mut self, keyword: &str, name: &str) -> &mut Self {
        self.note_file(keyword, name, false)
    }

    /// Notes that the element writes the file `name`, as [`Args::note_input`]: no other one may
    /// read or write it.
    pub fn note_output(&mut self, keyword: &str, name: &str) -> &mut Self {
        self.note_file(keyword, name, true)
    }

    fn note_file(&mut self, keyword: &str, name: &str, is_written: bool) -> &mut Self {
        let (name, arg) = (name.to_owned(), self.taken_by(keyword));
        self.files.push(NotedFile { name, keyword: keyword.to_owned(), arg, is_written });
        self
    }

    /// The files that were noted.
    pub(crate) fn take_files(&mut self) -> Vec<NotedFile> {
        std::mem::take(&mut self.files)
    }

    /// Adds an error about the argument `keyword`; empty for one about all of them.
    pub fn error_at(&mut self, keyword: &str, message: &str) {
        let arg = self.taken_by(keyword);
        for line in message.lines() {
            let line = match keyword {
                "" => line.to_owned(),
                keyword => format!("{keyword}: {line}"),
            };
            self.errors.push((line, arg));
        }
    }

    /// Adds an error about the argument `keyword` in words that do not begin with it.
    pub fn error_by(&mut self, keyword: &str, message: &str) {
        let arg = self.taken_by(keyword);
        self.errors.extend(message.lines().map(|line| (line.to_owned(), arg)));
    }

    /// Says what would be right, or how to mend what is wrong, where there is an error.
    pub fn help(&mut self, line: impl Into<String>) {
        let line = line.into();
        if !self.help.contains(&line) {
            self.help.push(line);
        }
    }

    /// Adds an error about argument `idx` of those that [`Args::rest`] gave, counted from 0.
    pub fn error_of(&mut self, idx: usize, message: &str) {
        let arg = self.rest.get(idx).copied();
        self.errors.extend(message.lines().map(|line| (line.to_owned(), arg)));
    }

    /// Adds a warning about the argument `keyword`; empty for one about all of them.
    pub fn warn_at(&mut self, keyword: &str, message: &str) {
        match keyword {
            "" => self.warnings.push(message.to_owned()),
            keyword => self.warnings.push(format!("{keyword}: {message}")),
        }
    }

    /// The warnings.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Ends reading, though arguments may be left.
    ///
    /// # Errors
    /// All errors of what was read.
    pub fn consume(&mut self) -> Result<(), ArgsError> {
        self.tell_bare();
        match std::mem::take(&mut self.errors) {
            errors if errors.is_empty() => Ok(()),
            errors => {
                let (messages, args) = errors.into_iter().unzip();
                let meant = std::mem::take(&mut self.meant);
                Err(ArgsError { messages, args, meant, help: std::mem::take(&mut self.help) })
            }
        }
    }

    /// Ends reading; no argument may be left.
    ///
    /// # Errors
    /// All errors of what was read, and what is left.
    pub fn complete(&mut self) -> Result<(), ArgsError> {
        let free = |arg: &Arg| arg.state == State::Free;
        let free = self.args.iter().enumerate().filter(|(_, arg)| free(arg));
        let (unknown, more): (Vec<_>, Vec<_>) = free.partition(|(_, arg)| arg.keyword_len > 0);
        let mut has_meant = true;
        for (idx, arg) in unknown {
            let keyword = &arg.text[..arg.keyword_len];
            let meant = nearest(keyword, self.asked.iter().map(String::as_str));
            has_meant &= meant.is_some();
            self.meant.extend(meant.map(|meant| (idx, meant.to_owned())));
            self.errors.push((format!("{keyword}: unknown argument"), Some(idx)));
        }
        let more = more.first().map(|(idx, _)| ("too many arguments".to_owned(), Some(*idx)));
        self.errors.extend(more);
        if !has_meant && !self.asked.is_empty() {
            let mut known = self.asked.clone();
            known.sort_unstable();
            known.dedup();
            self.help(format!("expected one of the keywords {}", known.join(", ")));
        }
        self.consume()
    }

    /// Notes the first argument that is `keyword`, or begins with it.
    fn note_bare(&mut self, keyword: &str, expected: &'static str) {
        if self.bare.iter().any(|bare| bare.keyword == keyword) {
            return;
        }
        let is_it = |arg: &Arg| {
            arg.text.starts_with(keyword)
                && [arg.text.len(), arg.keyword_len].contains(&keyword.len())
        };
        if let Some(arg) = self.args.iter().position(is_it).filter(|_| !keyword.is_empty()) {
            self.bare.push(Bare { keyword: keyword.to_owned(), arg, expected });
        }
    }

    /// Tells of keywords that were taken for values: with what is wrong then, or, as any text may
    /// name a file, in a warning.
    fn tell_bare(&mut self) {
        // What is read in steps is told of after each.
        for Bare { keyword, arg, expected } in self.bare.clone() {
            let Arg { text, state, .. } = &self.args[arg];
            if *state == State::TakenByKeyword {
                continue;
            }
            let is_wrong = self.errors.iter().any(|(_, wrong)| *wrong == Some(arg));
            let taker = self.taken.iter().find(|(_, taken)| *taken == arg).map(|(by, _)| by);
            if *text == keyword && is_wrong {
                let value = match expected {
                    "" => String::new(),
                    <bool as FromArg>::EXPECTED => format!(": {keyword} true"),
                    expected => format!(": {expected}"),
                };
                self.help_first(format!("{keyword} needs a value{value}"));
            } else if let Some(by) = taker.filter(|_| is_wrong) {
                let line = format!("missing {by}: '{text}' is in its position");
                self.help_first(line);
            }
            let Arg { text, .. } = &self.args[arg];
            if let Some(file) = self.files.iter().find(|file| file.arg == Some(arg)) {
                let by = &file.keyword;
                let warning = format!("{by}: '{text}' is in the position of the file name");
                if !self.warnings.contains(&warning) {
                    self.warnings.push(warning);
                }
            }
        }
    }

    /// Says what would be right before all else.
    fn help_first(&mut self, line: String) {
        if !self.help.contains(&line) {
            self.help.insert(0, line);
        }
    }

    /// Notes a keyword that is asked for. Where nothing is left to be unknown, nobody wants it.
    fn ask(&mut self, keyword: &str) {
        if !self.is_empty() {
            self.asked.push(keyword.to_owned());
        }
    }

    fn find(&mut self, keyword: &str, is_mandatory: bool, is_positional: bool) -> Option<String> {
        self.ask(keyword);
        // The next positional argument, before keywords are looked for: one that is taken by its
        // keyword now must not open the way to those behind it.
        let position = self.args.iter().position(|arg| arg.state != State::TakenByPosition);
        let position = position.filter(|&idx| self.args[idx].state == State::Free);
        let mut found = None;
        for (idx, arg) in self.args.iter_mut().enumerate() {
            let is_meant = arg.keyword_len == keyword.len() && arg.text.starts_with(keyword);
            if arg.state == State::Free && arg.keyword_len > 0 && is_meant {
                arg.state = State::TakenByKeyword;
                found = Some((idx, keyword.len()));
            }
        }
        if let Some(idx) = position.filter(|_| is_positional)
            && self.args[idx].state == State::Free
        {
            let is_plain = self.args[idx].keyword_len == 0;
            if is_plain || found.is_none() && is_mandatory {
                self.args[idx].state = State::TakenByPosition;
                if found.is_none_or(|(other, _)| other < idx) {
                    found = Some((idx, 0));
                }
            }
        }
        self.taken.extend(found.map(|(idx, _)| (keyword.to_owned(), idx)));
        found.map(|(idx, skip)| self.args[idx].text[skip..].trim_ascii_start().to_owned())
    }
}

/// Length of the word that `text` begins with, if it may be a keyword and something follows it.
fn keyword_len(text: &str) -> usize {
    let is_part =
        |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'.' | b'?' | b'!');
    let begins = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    // What begins with a digit or a colon is a value: a list of addresses, say.
    let len = match text.bytes().next() {
        Some(first) if begins(first) => text.bytes().take_while(is_part).count(),
        _ => 0,
    };
    let rest = &text[len..];
    let value = rest.trim_ascii_start();
    if value.len() < rest.len() && !value.is_empty() { len } else { 0 }
}

/// Bytes that a quoted argument means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl FromArg for Bytes {
    fn from_arg(text: &str, _: &dyn Names) -> Result<Self, ArgError> {
        Ok(Self(unquote(text)))
    }
}

/// Text; bytes that are not UTF-8 are an error.
impl FromArg for String {
    fn from_arg(text: &str, _: &dyn Names) -> Result<Self, ArgError> {
        String::from_utf8(unquote(text)).map_err(|_| ArgError::new("not valid UTF-8"))
    }
}

/// One word: text without spaces unless quoted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word(pub String);

impl FromArg for Word {
    const EXPECTED: &str = "one word";

    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        match split_words(text)[..] {
            [_] => String::from_arg(text, names).map(Self),
            _ => Err(ArgError::Parse),
        }
    }
}

/// An argument as it is written, quotes and all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raw(pub String);

impl FromArg for Raw {
    fn from_arg(text: &str, _: &dyn Names) -> Result<Self, ArgError> {
        Ok(Self(text.to_owned()))
    }
}

impl FromArg for bool {
    const EXPECTED: &str = "true or false";

    fn from_arg(text: &str, _: &dyn Names) -> Result<Self, ArgError> {
        match unquote(text).as_slice() {
            b"1" | b"true" | b"yes" | b"t" | b"y" => Ok(true),
            b"0" | b"false" | b"no" | b"f" | b"n" => Ok(false),
            _ => Err(ArgError::Parse),
        }
    }
}

/// What may be absent: reading one makes it `Some`.
impl<T: FromArg> FromArg for Option<T> {
    const EXPECTED: &str = T::EXPECTED;

    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        T::from_arg(text, names).map(Some)
    }
}

/// Words, each of the same kind.
impl<T: FromArg> FromArg for Vec<T> {
    const EXPECTED: &str = T::EXPECTED;

    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        split_words(text).iter().map(|word| T::from_arg(word, names)).collect()
    }
}

/// Another element of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementRef(pub usize);

impl FromArg for ElementRef {
    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        let name = String::from_arg(text, names)?;
        let missing = || ArgError::new(format!("no element named '{name}'"));
        names.element(&name).map(Self).ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests;
