//! Client of a control connection: reads and writes handlers of a running router.
//!
//! # Invariants
//! - A1: memory and time are bounded for any input: lines by 4096 bytes, values by the limit of
//!   the caller, with a remainder of up to [`DATA_BYTES_MAX`] skipped, and a set of requests by
//!   [`TIMEOUT`].
//! - A2: returned texts have no control characters except line ends and tabs, and no characters
//!   that change the direction of text.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::control_address::ControlAddress;
use crate::error::{Error, ErrorKind};

/// The longest time for the replies to one set of requests.
pub const TIMEOUT: Duration = Duration::from_secs(10);
/// The limit of a reply line, in bytes.
const LINE_BYTES_MAX: usize = 4096;
/// The limit of a reply, in lines.
const LINES_MAX: usize = 64;
/// The limit of a value, in bytes, kept and skipped.
pub const DATA_BYTES_MAX: u64 = 64 << 20;
/// The first bytes from the server.
const GREETING: &str = "Click::ControlSocket/";

const OK: u16 = 200;
/// Success of a write, with a message.
const OK_WITH_MESSAGE: u16 = 220;
const NO_ELEMENT: u16 = 510;
const NO_HANDLER: u16 = 511;

/// The value of a read handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerValue {
    /// The text, or its first bytes.
    pub text: String,
    /// Whether the text exceeds the limit of the caller.
    pub is_truncated: bool,
}

/// The error of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerFailure {
    code: u16,
    text: String,
}

impl HandlerFailure {
    /// Whether the element or handler does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self.code, NO_ELEMENT | NO_HANDLER)
    }
}

impl fmt::Display for HandlerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The client side of a control connection.
#[derive(Debug)]
pub struct ControlClient<S> {
    stream: BufReader<S>,
    deadline: Instant,
}

/// A TCP or Unix stream.
pub trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// Connects to a router.
///
/// # Errors
/// [`ErrorKind::Connection`] if no router listens at the address; the message names a fix.
pub fn connect(address: &ControlAddress) -> Result<ControlClient<Box<dyn Stream>>, Error> {
    let failed = |cause: Box<dyn std::error::Error + Send + Sync>| {
        let message = format!(
            "cannot connect to {address}: start a router there with \
             'warpswitch run CONF --control {address}'"
        );
        Error::caused(ErrorKind::Connection, message, cause)
    };
    let stream: Box<dyn Stream> = match address {
        ControlAddress::Tcp(host, port) => {
            let addresses = ControlAddress::resolve(host.as_deref(), *port);
            let addresses = addresses.map_err(|error| failed(error.into()))?;
            Box::new(connect_tcp(&addresses).map_err(|error| failed(error.into()))?)
        }
        ControlAddress::Unix(path) => {
            Box::new(connect_unix(path).map_err(|error| failed(error.into()))?)
        }
    };
    ControlClient::new(stream).map_err(|error| {
        Error::caused(ErrorKind::Connection, format!("no router answers at {address}"), error)
    })
}

fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Connects to the first of `addresses` that accepts.
fn connect_tcp(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut error = io::ErrorKind::NotFound.into();
    for address in addresses {
        match TcpStream::connect_timeout(address, TIMEOUT) {
            Ok(stream) => {
                // Requests are small and wait for replies.
                _ = stream.set_nodelay(true);
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                return Ok(stream);
            }
            Err(failure) => error = failure,
        }
    }
    Err(error)
}

impl<S: Read + Write> ControlClient<S> {
    /// Reads the greeting of the server.
    ///
    /// # Errors
    /// If the server is not a control socket.
    pub fn new(stream: S) -> io::Result<Self> {
        let deadline = Instant::now() + TIMEOUT;
        let mut client = Self { stream: BufReader::with_capacity(1 << 16, stream), deadline };
        let greeting = client.line()?;
        match greeting.starts_with(GREETING) {
            true => Ok(client),
            false => Err(invalid(&format!("'{greeting}' is not the greeting of a control socket"))),
        }
    }

    /// Reads one handler; see [`ControlClient::read_all`].
    ///
    /// # Errors
    /// As [`ControlClient::read_all`].
    pub fn read(
        &mut self,
        handler: &str,
        kept_bytes: usize,
    ) -> io::Result<Result<HandlerValue, HandlerFailure>> {
        let handlers = [handler.to_owned()];
        let values = self.read_all(&handlers, kept_bytes)?;
        Ok(values.into_iter().next().expect("one reply per request"))
    }

    /// Writes `text` to a handler; returns the message of the router, usually empty.
    ///
    /// # Errors
    /// As [`ControlClient::read_all`].
    pub fn write(
        &mut self,
        handler: &str,
        text: &str,
    ) -> io::Result<Result<String, HandlerFailure>> {
        let request = format!("WRITEDATA {handler} {}\r\n{text}", text.len());
        self.deadline = Instant::now() + TIMEOUT;
        self.stream.get_mut().write_all(request.as_bytes())?;
        self.stream.get_mut().flush()?;
        Ok(match self.reply()? {
            (OK, _) => Ok(String::new()),
            (OK_WITH_MESSAGE, text) => Ok(text),
            (code, text) => Err(HandlerFailure { code, text }),
        })
    }

    /// Reads handlers with one round trip; keeps `kept_bytes` of each value.
    ///
    /// # Errors
    /// If the connection is lost or a reply is invalid. The connection cannot be used any more.
    pub fn read_all(
        &mut self,
        handlers: &[String],
        kept_bytes: usize,
    ) -> io::Result<Vec<Result<HandlerValue, HandlerFailure>>> {
        let requests: String = handlers.iter().map(|name| format!("READ {name}\r\n")).collect();
        self.deadline = Instant::now() + TIMEOUT;
        self.stream.get_mut().write_all(requests.as_bytes())?;
        self.stream.get_mut().flush()?;
        handlers.iter().map(|_| self.value(kept_bytes)).collect()
    }

    /// The code and the text of a reply.
    fn reply(&mut self) -> io::Result<(u16, String)> {
        let (mut code, mut texts) = (0, Vec::new());
        for _ in 0..LINES_MAX {
            let line = self.line()?;
            let number = line.get(..3).and_then(|digits| digits.parse::<u16>().ok());
            let mark = line.as_bytes().get(3).copied();
            let (Some(number), Some(b' ' | b'-')) = (number, mark) else {
                return Err(invalid(&format!("invalid reply '{line}'")));
            };
            code = number;
            texts.push(line[4..].to_owned());
            if mark == Some(b' ') {
                break;
            }
        }
        Ok((code, texts.join(" ")))
    }

    fn value(&mut self, kept_bytes: usize) -> io::Result<Result<HandlerValue, HandlerFailure>> {
        let (code, text) = self.reply()?;
        if code != OK {
            return Ok(Err(HandlerFailure { code, text }));
        }
        let line = self.line()?;
        let bytes = line.strip_prefix("DATA ").and_then(|digits| digits.parse::<u64>().ok());
        match bytes {
            Some(bytes) if bytes <= DATA_BYTES_MAX => self.data(bytes, kept_bytes).map(Ok),
            _ => Err(invalid(&format!("invalid reply '{line}'; expected DATA of at most 64 MiB"))),
        }
    }

    /// The next received bytes, at least one.
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

    fn data(&mut self, bytes: u64, kept_bytes: usize) -> io::Result<HandlerValue> {
        let (mut kept, mut left) = (Vec::new(), bytes);
        while left > 0 {
            let received = self.more()?;
            let count = received.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let room = kept_bytes - kept.len();
            kept.extend_from_slice(&received[..count.min(room)]);
            self.stream.consume(count);
            left -= count as u64;
        }
        let text = clean(&String::from_utf8_lossy(&kept));
        Ok(HandlerValue { text, is_truncated: bytes > kept_bytes as u64 })
    }

    /// The next line, without its end.
    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        loop {
            let received = self.more()?;
            let end = received.iter().position(|&b| b == b'\n');
            let len = end.unwrap_or(received.len());
            line.extend_from_slice(&received[..len.min(LINE_BYTES_MAX + 1)]);
            self.stream.consume(end.map_or(len, |end| end + 1));
            if line.len() > LINE_BYTES_MAX {
                return Err(invalid("a line of the server is too long"));
            }
            if end.is_some() {
                let text = clean(&String::from_utf8_lossy(&line).replace('\r', ""));
                // Codes are sliced by bytes, and valid replies are ASCII.
                return Ok(text.replace(|c: char| !c.is_ascii(), "?"));
            }
        }
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

/// A message for the error of a lost connection.
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
            "the router has stopped, or closed the connection".to_owned()
        }
        io::ErrorKind::TimedOut => {
            format!("the router did not answer within {} s", TIMEOUT.as_secs())
        }
        _ => format!("the connection is lost: {error}"),
    }
}

/// `text` without characters that control a terminal or mislead its reader.
fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let is_harmless = |c: char| !c.is_control() && !is_invisible(c) || c == '\n' || c == '\t';
    text.replace(|c| !is_harmless(c), "\u{fffd}")
}

/// Invisible characters, some of which change the direction of text.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{61c}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replays recorded bytes, whatever the request.
    struct Recorded<'t>(&'t [u8], Vec<u8>);

    impl Read for Recorded<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            // In small pieces, so that lines arrive in parts.
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

    fn read(recorded: &[u8], kept_bytes: usize) -> Result<Result<HandlerValue, String>, String> {
        let text = |error: io::Error| reason(&error);
        let mut client = ControlClient::new(Recorded(recorded, Vec::new())).map_err(text)?;
        let value = client.read("c.count", kept_bytes).map_err(text)?;
        assert_eq!(client.stream.get_ref().1, b"READ c.count\r\n");
        Ok(value.map_err(|failure| failure.to_string()))
    }

    fn value(text: &str, is_truncated: bool) -> Result<Result<HandlerValue, String>, String> {
        Ok(Ok(HandlerValue { text: text.to_owned(), is_truncated }))
    }

    #[test]
    fn reads_and_truncates_values() {
        let recorded = b"Click::ControlSocket/1.3\r\n200 Read handler 'c.count' OK\r\nDATA 2\r\n10";
        assert_eq!(read(recorded, 100), value("10", false));
        assert_eq!(read(recorded, 1), value("1", true));
        let recorded = b"Click::ControlSocket/1.3\r\n520-error:\r\n520 it failed\r\n";
        assert_eq!(read(recorded, 100), Ok(Err("error: it failed".into())));
    }

    #[test]
    fn rejects_invalid_replies() {
        let greeted = |rest: &[u8]| [b"Click::ControlSocket/1.3\r\n", rest].concat();
        let long = [b'x'; 10_000];
        let cases: [(Vec<u8>, &str); 8] = [
            (b"SSH-2.0-x\r\n".to_vec(), "'SSH-2.0-x' is not the greeting of a control socket"),
            (b"".to_vec(), "has stopped"),
            (long.to_vec(), "is too long"),
            (greeted(b"20"), "has stopped"),
            (greeted(b"\xff\xff\xff\xff\r\n"), "invalid reply '????'"),
            (greeted(b"200 OK\r\nDATA 99999999999\r\n"), "at most 64 MiB"),
            (greeted(b"200 OK\r\nDATA -1\r\n"), "at most 64 MiB"),
            (greeted(b"200 OK\r\nDATA 5\r\nab"), "has stopped"),
        ];
        for (recorded, why) in cases {
            let error = read(&recorded, 100).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn removes_terminal_control_characters() {
        let recorded = b"Click::ControlSocket/1.3\r\n200 OK\r\nDATA 19\r\n\
            \x1b[2Ja\tb\r\n\x9b\x07c\xe2\x80\xaed\x00\x7f\x08";
        let Ok(Ok(value)) = read(recorded, 100) else { panic!("a valid reply") };
        assert!(value.text.contains("a\tb\n") && value.text.contains('d'), "{:?}", value.text);
        let is_bad = |c: char| c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}';
        assert!(!value.text.contains(is_bad), "{:?}", value.text);
        let recorded = b"Click::ControlSocket/1.3\r\n510 \x1b]0;owned\x07\r\n";
        assert_eq!(read(recorded, 100), Ok(Err("?]0;owned?".into())));
    }
}
