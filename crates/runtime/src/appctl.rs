//! The control socket of a switch: JSON-RPC over a Unix socket, as `ovs-appctl` speaks it.
//!
//! ```text
//! {"id":0,"method":"version","params":[]}  ─►  {"error":null,"id":0,"result":"warpswitch …"}
//! ```
//! Objects follow each other without separators.
//!
//! # Invariants
//! - A1: a request has at most [`REQUEST_BYTES_MAX`] bytes; a client whose bytes are no request
//!   gets one error and is disconnected.
//! - A2: a client that does not read its reply is not served and blocks nothing. At most
//!   16 clients are connected; others wait in the backlog until one ends, or was idle for 1 s.
//! - A3: a byte is looked at once while a request is incomplete.
//! - A4: a complete request is answered before the switch sleeps, unless its client does not read.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use warpswitch_io::name_folder;

use crate::control_server::replace_stale;
use crate::error::{Error, ErrorKind};
use crate::packet_sockets::is_retryable;

/// The longest request: a packet of 64 KiB in hexadecimal digits, and room for a flow.
pub const REQUEST_BYTES_MAX: usize = 256 << 10;
/// The longest reply that a client takes.
const REPLY_BYTES_MAX: u64 = 64 << 20;
/// The most clients.
const CLIENTS_MAX: usize = 16;
/// How long a client may be idle while others wait.
const IDLE_NS: u64 = 1_000_000_000;
/// Bytes read from a client at a time.
const READ_BYTES: usize = 16 << 10;
/// How long a client waits.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Executes a command with its arguments.
pub type Execute<'a> = dyn FnMut(&str, &[&str]) -> Result<String, String> + 'a;

#[derive(Deserialize)]
struct Request {
    id: Value,
    method: String,
    params: Vec<String>,
}

#[derive(Deserialize, Serialize)]
struct Reply {
    error: Option<String>,
    id: Value,
    result: Option<String>,
}

/// A listening control socket. Dropping it removes the socket's file.
#[derive(Debug)]
pub struct AppctlServer {
    listener: UnixListener,
    path: PathBuf,
    sessions: Vec<Session>,
}

/// A connected client.
#[derive(Debug)]
struct Session {
    stream: UnixStream,
    input: Vec<u8>,
    scan: Scan,
    output: Vec<u8>,
    /// Whether its input may hold a complete request.
    has_request: bool,
    /// When bytes were last received or sent.
    active_ns: u64,
    /// Whether it is closed as soon as its requests are answered: its client sends no more.
    is_half_closed: bool,
    /// Whether it is closed as soon as its output was sent.
    is_ending: bool,
}

impl AppctlServer {
    /// Listens at `path`; a stale socket is replaced.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if the path is in use or not permitted.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let probe = || UnixStream::connect(path).map(drop);
        let listener = replace_stale(path, || UnixListener::bind(path), probe)
            .map_err(|error| name_folder(path, error))
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|why| {
                let message = format!("cannot listen for ovs-appctl at {}", path.display());
                Error::caused(ErrorKind::System, message, why)
            })?;
        Ok(Self { listener, path: path.to_owned(), sessions: Vec::new() })
    }

    /// Accepts clients, and reads, executes and answers what is possible without blocking.
    pub fn serve(&mut self, now_ns: u64, execute: &mut Execute<'_>) {
        self.accept(now_ns);
        self.sessions.retain_mut(|session| session.serve(now_ns, execute));
    }

    fn accept(&mut self, now_ns: u64) {
        loop {
            let is_full = self.sessions.len() >= CLIENTS_MAX;
            let idle = self.sessions.iter().position(|session| session.is_idle(now_ns));
            if is_full && idle.is_none() {
                return;
            }
            let Ok((stream, _)) = self.listener.accept() else { return };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if let Some(at) = idle.filter(|_| is_full) {
                self.sessions.remove(at);
            }
            self.sessions.push(Session::new(stream, now_ns));
        }
    }

    /// Whether a request can be answered now that was received before.
    pub fn has_input(&self) -> bool {
        self.sessions.iter().any(|session| session.has_request && session.output.is_empty())
    }

    /// Descriptors to wait for, and whether to wait until they become writable, or readable.
    pub fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let has_room = self.sessions.len() < CLIENTS_MAX;
        let listener = has_room.then(|| (self.listener.as_fd(), false));
        let sessions = self.sessions.iter();
        listener.into_iter().chain(sessions.map(|s| (s.stream.as_fd(), !s.output.is_empty())))
    }
}

impl Drop for AppctlServer {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.path);
    }
}

impl Session {
    fn new(stream: UnixStream, now_ns: u64) -> Self {
        Self {
            stream,
            input: Vec::new(),
            scan: Scan::default(),
            output: Vec::new(),
            has_request: false,
            active_ns: now_ns,
            is_half_closed: false,
            is_ending: false,
        }
    }

    /// Whether it may end for another client.
    fn is_idle(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.active_ns) >= IDLE_NS
    }

    /// Whether the client stays connected.
    fn serve(&mut self, now_ns: u64, execute: &mut Execute<'_>) -> bool {
        if !self.flush(now_ns) {
            return false;
        }
        if !self.output.is_empty() {
            return true;
        }
        if self.input.len() <= REQUEST_BYTES_MAX && !self.is_half_closed {
            let mut bytes = [0; READ_BYTES];
            match self.stream.read(&mut bytes) {
                Ok(0) => self.is_half_closed = true,
                Ok(len) => {
                    self.input.extend_from_slice(&bytes[..len]);
                    self.active_ns = now_ns;
                }
                Err(error) if is_retryable(&error) => {}
                Err(_) => return false,
            }
        }
        self.execute(execute);
        self.is_ending |= self.is_half_closed && !self.has_request;
        self.flush(now_ns)
    }

    /// Executes requests that are complete, until much output waits.
    fn execute(&mut self, execute: &mut Execute<'_>) {
        self.has_request = !self.input.is_empty();
        while self.has_request && self.output.len() < READ_BYTES && !self.is_ending {
            match self.scan.object(&self.input) {
                Ok(Some(len)) => {
                    let request: Vec<u8> = self.input.drain(..len).collect();
                    self.scan = Scan::default();
                    self.answer(&request, execute);
                    self.has_request = !self.input.is_empty();
                }
                Ok(None) if self.input.len() > REQUEST_BYTES_MAX => {
                    self.reject(format!("request has more than {REQUEST_BYTES_MAX} bytes"));
                }
                Ok(None) => self.has_request = false,
                Err(why) => self.reject(why.to_owned()),
            }
        }
    }

    fn answer(&mut self, request: &[u8], execute: &mut Execute<'_>) {
        let Request { id, method, params } = match serde_json::from_slice(request) {
            Ok(request) => request,
            Err(error) => return self.reject(format!("invalid JSON-RPC request: {error}")),
        };
        let arguments: Vec<&str> = params.iter().map(String::as_str).collect();
        self.reply(id, execute(&method, &arguments));
    }

    /// Answers bytes that are no request, after which the next request cannot be found.
    fn reject(&mut self, why: String) {
        self.reply(Value::Null, Err(why));
        self.is_ending = true;
    }

    fn reply(&mut self, id: Value, result: Result<String, String>) {
        let (result, error) = match result {
            Ok(text) => (Some(text), None),
            // Every other message of ovs-appctl ends its line.
            Err(why) => (None, Some(format!("{}\n", why.trim_end()))),
        };
        let reply = serde_json::to_vec(&Reply { error, id, result });
        self.output.extend(reply.expect("texts have a JSON form"));
    }

    /// Sends; whether the client stays connected.
    fn flush(&mut self, now_ns: u64) -> bool {
        let mut sent = 0;
        while sent < self.output.len() {
            match self.stream.write(&self.output[sent..]) {
                Ok(len) if len > 0 => sent += len,
                Err(error) if is_retryable(&error) => break,
                _ => return false,
            }
            self.active_ns = now_ns;
        }
        self.output.drain(..sent);
        !(self.is_ending && self.output.is_empty())
    }
}

/// Finds the end of a JSON object that arrives in pieces.
#[derive(Debug, Default)]
struct Scan {
    /// Bytes that were looked at.
    at: usize,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

impl Scan {
    /// The length of the object at the start of `bytes`, once it is complete; `bytes` starts with
    /// those of the last call.
    fn object(&mut self, bytes: &[u8]) -> Result<Option<usize>, &'static str> {
        while let Some(&byte) = bytes.get(self.at) {
            self.at += 1;
            if self.is_in_string {
                self.is_in_string = self.is_escaped || byte != b'"';
                self.is_escaped = byte == b'\\' && !self.is_escaped;
                continue;
            }
            match byte {
                b'"' if self.depth > 0 => self.is_in_string = true,
                b'{' | b'[' if self.depth > 0 || byte == b'{' => self.depth += 1,
                b'}' | b']' if self.depth > 1 => self.depth -= 1,
                b'}' if self.depth == 1 => return Ok(Some(self.at)),
                byte if self.depth > 0 || byte.is_ascii_whitespace() => {}
                _ => return Err("invalid JSON-RPC request: expected a JSON object"),
            }
        }
        Ok(None)
    }
}

/// Sends a command to a switch and returns its text, or the error of the command.
///
/// # Errors
/// [`ErrorKind::Connection`] if no switch answers at `path`.
pub fn call(
    path: &Path,
    method: &str,
    arguments: &[&str],
) -> Result<Result<String, String>, Error> {
    let place = path.display();
    let request = serde_json::json!({ "id": 0, "method": method, "params": arguments });
    let exchange = || -> io::Result<Reply> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.write_all(request.to_string().as_bytes())?;
        let mut deserializer = serde_json::Deserializer::from_reader(stream.take(REPLY_BYTES_MAX));
        Ok(Reply::deserialize(&mut deserializer)?)
    };
    let reply = exchange().map_err(|why| {
        let message = format!(
            "no switch answers at {place}: start one with 'warpswitch switch --control {place}'"
        );
        Error::caused(ErrorKind::Connection, message, why)
    })?;
    Ok(match reply {
        Reply { error: Some(error), .. } => Err(error),
        Reply { result, .. } => Ok(result.unwrap_or_default()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echo(name: &str, arguments: &[&str]) -> Result<String, String> {
        match name {
            "fail" => Err("failed".to_owned()),
            "long" => Ok("x".repeat(1 << 20)),
            _ => Ok(format!("{name} {}", arguments.join(" "))),
        }
    }

    /// A server and its folder.
    fn server() -> (tempfile::TempDir, AppctlServer) {
        let folder = tempfile::tempdir().unwrap();
        let server = AppctlServer::open(&folder.path().join("switch.ctl")).unwrap();
        (folder, server)
    }

    /// The reply to bytes that are sent in pieces of this length.
    fn exchange(request: &[u8], piece: usize) -> String {
        let (_folder, mut server) = server();
        let mut stream = UnixStream::connect(&server.path).unwrap();
        for bytes in request.chunks(piece) {
            // The server may have closed the connection already.
            _ = stream.write_all(bytes);
            server.serve(0, &mut echo);
        }
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let reader = std::thread::spawn(move || {
            let mut reply = Vec::new();
            _ = stream.read_to_end(&mut reply);
            String::from_utf8(reply).unwrap()
        });
        while !reader.is_finished() {
            server.serve(0, &mut echo);
            std::thread::yield_now();
        }
        reader.join().unwrap()
    }

    #[test]
    fn requests_may_come_in_pieces_and_together() {
        let one = br#"{"id":7,"method":"a\"}","params":["x","{"]}"#;
        let reply = r#"{"error":null,"id":7,"result":"a\"} x {"}"#;
        for piece in [1, 5, 1000] {
            assert_eq!(exchange(one, piece), reply);
        }
        let two = [&one[..], b"\n", br#"{"id":8,"method":"fail","params":[]}"#].concat();
        assert_eq!(
            exchange(&two, 1000),
            format!("{reply}{}", r#"{"error":"failed\n","id":8,"result":null}"#)
        );
    }

    #[test]
    fn garbage_gets_one_error_and_ends_the_connection() {
        for garbage in [
            &b"GET / HTTP/1.0\r\n\r\n"[..],
            b"]",
            br#"{"id":1}"#,
            br#"{"id":1,"method":"a","params":[1]}"#,
            b"{\"id\":\xff}",
            &[b'{'; REQUEST_BYTES_MAX + 1],
            &[&br#"{"id":1,"method":""#[..], &[b'a'; REQUEST_BYTES_MAX]].concat(),
        ] {
            let reply = exchange(garbage, READ_BYTES);
            let parsed: Reply = serde_json::from_str(&reply).unwrap();
            assert!(parsed.error.is_some_and(|why| why.contains("request")), "{reply}");
        }
        assert_eq!(exchange(br#"{"id":1,"#, 3), "", "half a request");
    }

    #[test]
    fn long_replies_wait_for_slow_clients() {
        let reply = exchange(br#"{"id":1,"method":"long","params":[]}"#, 1000);
        assert_eq!(reply.len(), (1 << 20) + r#"{"error":null,"id":1,"result":""}"#.len());
    }

    #[test]
    fn answers_every_request_before_the_switch_sleeps() {
        let (_folder, mut server) = server();
        let mut stream = UnixStream::connect(&server.path).unwrap();
        let count = 600;
        stream.write_all(&br#"{"id":1,"method":"a","params":[]}"#.repeat(count)).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        server.serve(0, &mut echo);
        while server.has_input() {
            server.serve(0, &mut echo);
        }
        let mut reply = String::new();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        while reply.matches("result").count() < count {
            let mut bytes = [0; READ_BYTES];
            let len = stream.read(&mut bytes).unwrap();
            assert!(len > 0, "{} of {count} replies", reply.matches("result").count());
            reply += std::str::from_utf8(&bytes[..len]).unwrap();
        }
        server.serve(0, &mut echo);
        assert!(server.sessions.is_empty());
    }

    #[test]
    fn idle_clients_make_room_for_others() {
        let (_folder, mut server) = server();
        let connect = || UnixStream::connect(&server.path).unwrap();
        let _idle: Vec<_> = (0..CLIENTS_MAX).map(|_| connect()).collect();
        let mut next = connect();
        next.write_all(br#"{"id":1,"method":"a","params":[]}"#).unwrap();
        next.set_nonblocking(true).unwrap();
        server.serve(0, &mut echo);
        server.serve(IDLE_NS - 1, &mut echo);
        assert!(next.read(&mut [0; 99]).is_err(), "it waits");
        server.serve(IDLE_NS, &mut echo);
        assert!(next.read(&mut [0; 99]).is_ok_and(|len| len > 0));
        assert_eq!(server.sessions.len(), CLIENTS_MAX);
    }

    #[test]
    fn clients_get_texts_and_errors() {
        let (_folder, mut server) = server();
        let path = server.path.clone();
        let client = std::thread::spawn(move || {
            let results = ["version", "fail"].map(|name| call(&path, name, &["1"]).unwrap());
            (results, call(Path::new("/nowhere"), "version", &[]).unwrap_err())
        });
        while !client.is_finished() {
            server.serve(0, &mut echo);
            std::thread::yield_now();
        }
        let (results, error) = client.join().unwrap();
        assert_eq!(results, [Ok("version 1".to_owned()), Err("failed\n".to_owned())]);
        assert!(error.to_string().contains("--control /nowhere"), "{error}");
    }
}
