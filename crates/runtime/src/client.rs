//! Asks a router through a control connection.
//!
//! # Invariants
//! - A1: whatever the other side sends, memory and time are bounded: lines by [`LINE_BYTES_MAX`],
//!   answers by what the caller keeps, the rest being passed over up to [`DATA_BYTES_MAX`], and a
//!   set of questions by [`PATIENCE`].
//! - A2: texts that leave this module have no control characters but line ends and tabs, and none
//!   that turn the direction of text.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::drive::place::Place;

/// How long a router may take for the answers to one set of questions.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of a reply line.
const LINE_BYTES_MAX: usize = 4096;
/// The most lines of a reply.
const LINES_MAX: usize = 64;
/// The most bytes of an answer, kept or not.
pub const DATA_BYTES_MAX: u64 = 64 << 20;
/// How the other side begins.
const GREETING: &str = "Click::ControlSocket/";

const OK: u16 = 200;
/// The same of a write of which there is something to say.
const OK_BUT: u16 = 220;
const NO_ELEMENT: u16 = 510;
const NO_HANDLER: u16 = 511;

/// What a handler answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The text, or its beginning.
    pub text: String,
    /// Whether there was more.
    pub is_cut: bool,
}

/// Why a handler gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    code: u16,
    text: String,
}

impl Refusal {
    /// Whether there is no such element or handler.
    pub fn is_missing(&self) -> bool {
        matches!(self.code, NO_ELEMENT | NO_HANDLER)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A control connection. See the module.
#[derive(Debug)]
pub struct Client<S> {
    stream: BufReader<S>,
    deadline: Instant,
}

/// A stream of either kind.
pub trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// Connects to a router.
///
/// # Errors
/// Nobody listens, or something else does; with what to do about it.
pub fn connect(place: &Place) -> anyhow::Result<Client<Box<dyn Stream>>> {
    let hint = || {
        format!(
            "cannot connect to {place}: start a router there with \
             'warpswitch run CONF --control {place}'"
        )
    };
    let stream: Box<dyn Stream> = match place {
        Place::Tcp(host, port) => {
            let stream = connect_tcp(host.as_deref(), *port).with_context(hint)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Box::new(stream)
        }
        Place::Unix(path) => {
            let stream = UnixStream::connect(path).with_context(hint)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Box::new(stream)
        }
    };
    Client::new(stream).with_context(|| format!("no router answers at {place}"))
}

fn connect_tcp(host: Option<&str>, port: u16) -> anyhow::Result<TcpStream> {
    let mut why = None;
    for address in Place::resolve(host, port)? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                // Questions are small, and answers waited for.
                _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => why = Some(error),
        }
    }
    Err(why.unwrap_or_else(|| io::ErrorKind::NotFound.into()).into())
}

impl<S: Read + Write> Client<S> {
    /// Takes the greeting.
    ///
    /// # Errors
    /// If it is none.
    pub fn new(stream: S) -> io::Result<Self> {
        let deadline = Instant::now() + PATIENCE;
        let mut client = Self { stream: BufReader::with_capacity(1 << 16, stream), deadline };
        let greeting = client.line()?;
        match greeting.starts_with(GREETING) {
            true => Ok(client),
            false => Err(strange(&format!("'{greeting}' is not how a control socket greets"))),
        }
    }

    /// Reads one handler; see [`Client::ask_all`].
    ///
    /// # Errors
    /// As there.
    pub fn ask(&mut self, handler: &str, kept_bytes: usize) -> io::Result<Result<Answer, Refusal>> {
        let handlers = [handler.to_owned()];
        let answers = self.ask_all(&handlers, kept_bytes)?;
        Ok(answers.into_iter().next().expect("an answer for each question"))
    }

    /// Writes `text` to a handler; gives what the router has to say of it, which is mostly nothing.
    ///
    /// # Errors
    /// As [`Client::ask_all`].
    pub fn write(&mut self, handler: &str, text: &str) -> io::Result<Result<String, Refusal>> {
        let told = format!("WRITEDATA {handler} {}\r\n{text}", text.len());
        self.deadline = Instant::now() + PATIENCE;
        self.stream.get_mut().write_all(told.as_bytes())?;
        self.stream.get_mut().flush()?;
        Ok(match self.reply()? {
            (OK, _) => Ok(String::new()),
            (OK_BUT, text) => Ok(text),
            (code, text) => Err(Refusal { code, text }),
        })
    }

    /// Reads handlers, all asked at once; of each answer so many bytes are kept.
    ///
    /// # Errors
    /// If the connection is lost, or what came was no answer: it is of no use any more.
    pub fn ask_all(
        &mut self,
        handlers: &[String],
        kept_bytes: usize,
    ) -> io::Result<Vec<Result<Answer, Refusal>>> {
        let questions: String = handlers.iter().map(|name| format!("READ {name}\r\n")).collect();
        self.deadline = Instant::now() + PATIENCE;
        self.stream.get_mut().write_all(questions.as_bytes())?;
        self.stream.get_mut().flush()?;
        handlers.iter().map(|_| self.answer(kept_bytes)).collect()
    }

    /// The number and the text of a reply.
    fn reply(&mut self) -> io::Result<(u16, String)> {
        let (mut code, mut texts) = (0, Vec::new());
        for _ in 0..LINES_MAX {
            let line = self.line()?;
            let number = line.get(..3).and_then(|digits| digits.parse::<u16>().ok());
            let mark = line.as_bytes().get(3).copied();
            let (Some(number), Some(b' ' | b'-')) = (number, mark) else {
                return Err(strange(&format!("'{line}' is no reply")));
            };
            code = number;
            texts.push(line[4..].to_owned());
            if mark == Some(b' ') {
                break;
            }
        }
        Ok((code, texts.join(" ")))
    }

    fn answer(&mut self, kept_bytes: usize) -> io::Result<Result<Answer, Refusal>> {
        let (code, text) = self.reply()?;
        if code != OK {
            return Ok(Err(Refusal { code, text }));
        }
        let line = self.line()?;
        let bytes = line.strip_prefix("DATA ").and_then(|digits| digits.parse::<u64>().ok());
        match bytes {
            Some(bytes) if bytes <= DATA_BYTES_MAX => self.data(bytes, kept_bytes).map(Ok),
            _ => Err(strange(&format!("'{line}' announces no answer of less than 64 MiB"))),
        }
    }

    /// The next bytes that came, at least one.
    fn more(&mut self) -> io::Result<&[u8]> {
        if Instant::now() > self.deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let bytes = self.stream.fill_buf().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })?;
        if bytes.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
    }

    fn data(&mut self, bytes: u64, kept_bytes: usize) -> io::Result<Answer> {
        let (mut kept, mut left) = (Vec::new(), bytes);
        while left > 0 {
            let came = self.more()?;
            let taken = came.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let room = kept_bytes - kept.len();
            kept.extend_from_slice(&came[..taken.min(room)]);
            self.stream.consume(taken);
            left -= taken as u64;
        }
        let text = clean(&String::from_utf8_lossy(&kept));
        Ok(Answer { text, is_cut: bytes > kept_bytes as u64 })
    }

    /// The next line, without its end.
    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        loop {
            let came = self.more()?;
            let end = came.iter().position(|&b| b == b'\n');
            let len = end.unwrap_or(came.len());
            line.extend_from_slice(&came[..len.min(LINE_BYTES_MAX + 1)]);
            self.stream.consume(end.map_or(len, |end| end + 1));
            if line.len() > LINE_BYTES_MAX {
                return Err(strange("it sends lines that do not end"));
            }
            if end.is_some() {
                let text = clean(&String::from_utf8_lossy(&line).replace('\r', ""));
                // Replies are cut by bytes below: what is not ASCII is not needed to read them.
                return Ok(text.replace(|c: char| !c.is_ascii(), "?"));
            }
        }
    }
}

fn strange(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

/// Why a connection is over, for people.
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
            "the router has stopped, or closed the connection".to_owned()
        }
        io::ErrorKind::TimedOut => {
            format!("the router did not answer within {} s", PATIENCE.as_secs())
        }
        _ => format!("the connection is lost: {error}"),
    }
}

/// `text` without what a terminal, or a reader, could be misled by.
fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let is_harmless = |c: char| !c.is_control() && !is_invisible(c) || c == '\n' || c == '\t';
    text.replace(|c| !is_harmless(c), "\u{fffd}")
}

/// Characters that show nothing and turn the direction of what follows, or hide.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{61c}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that says what was recorded, whatever it is asked.
    struct Recorded<'t>(&'t [u8], Vec<u8>);

    impl Read for Recorded<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            // In small pieces, so that no line comes whole.
            let len = bytes.len().min(7);
            self.0.read(&mut bytes[..len])
        }
    }

    impl Write for Recorded<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn ask(told: &[u8], kept_bytes: usize) -> Result<Result<Answer, String>, String> {
        let text = |error: io::Error| reason(&error);
        let mut client = Client::new(Recorded(told, Vec::new())).map_err(text)?;
        let answer = client.ask("c.count", kept_bytes).map_err(text)?;
        assert_eq!(client.stream.get_ref().1, b"READ c.count\r\n");
        Ok(answer.map_err(|refusal| refusal.to_string()))
    }

    fn answer(text: &str, is_cut: bool) -> Result<Result<Answer, String>, String> {
        Ok(Ok(Answer { text: text.to_owned(), is_cut }))
    }

    #[test]
    fn answers_are_read_and_cut() {
        let told = b"Click::ControlSocket/1.3\r\n200 Read handler 'c.count' OK\r\nDATA 2\r\n10";
        assert_eq!(ask(told, 100), answer("10", false));
        assert_eq!(ask(told, 1), answer("1", true));
        let told = b"Click::ControlSocket/1.3\r\n520-error:\r\n520 it failed\r\n";
        assert_eq!(ask(told, 100), Ok(Err("error: it failed".into())));
    }

    #[test]
    fn what_is_no_answer_is_told() {
        let greeted = |rest: &[u8]| [b"Click::ControlSocket/1.3\r\n", rest].concat();
        let long = [b'x'; 10_000];
        let cases: [(Vec<u8>, &str); 8] = [
            (b"SSH-2.0-x\r\n".to_vec(), "'SSH-2.0-x' is not how a control socket greets"),
            (b"".to_vec(), "has stopped"),
            (long.to_vec(), "lines that do not end"),
            (greeted(b"20"), "has stopped"),
            (greeted(b"\xff\xff\xff\xff\r\n"), "'????' is no reply"),
            (greeted(b"200 OK\r\nDATA 99999999999\r\n"), "less than 64 MiB"),
            (greeted(b"200 OK\r\nDATA -1\r\n"), "less than 64 MiB"),
            (greeted(b"200 OK\r\nDATA 5\r\nab"), "has stopped"),
        ];
        for (told, why) in cases {
            let error = ask(&told, 100).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn nothing_that_steers_a_terminal_passes() {
        let told = b"Click::ControlSocket/1.3\r\n200 OK\r\nDATA 19\r\n\
            \x1b[2Ja\tb\r\n\x9b\x07c\xe2\x80\xaed\x00\x7f\x08";
        let Ok(Ok(answer)) = ask(told, 100) else { panic!("it is an answer") };
        assert!(answer.text.contains("a\tb\n") && answer.text.contains('d'), "{:?}", answer.text);
        let is_bad = |c: char| c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}';
        assert!(!answer.text.contains(is_bad), "{:?}", answer.text);
        let told = b"Click::ControlSocket/1.3\r\n510 \x1b]0;owned\x07\r\n";
        assert_eq!(ask(told, 100), Ok(Err("?]0;owned?".into())));
    }
}
