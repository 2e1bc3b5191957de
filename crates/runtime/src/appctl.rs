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
//!   16 clients are connected; a further one takes the place of the one that neither sent nor
//!   read anything for longest.
//! - A3: a byte is looked at once while a request is incomplete.

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
/// The most clients, and the most that are accepted at a time.
const CLIENTS_MAX: usize = 16;
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
    /// Calls of [`AppctlServer::serve`].
    turn: u64,
}

/// A connected client.
#[derive(Debug)]
struct Session {
    stream: UnixStream,
    input: Vec<u8>,
    scan: Scan,
    output: Vec<u8>,
    /// Whether it is closed as soon as its output was sent.
    is_ending: bool,
    /// The last turn in which it connected, sent or read something.
    active: u64,
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
        Ok(Self { listener, path: path.to_owned(), sessions: Vec::new(), turn: 0 })
    }

    /// Accepts clients, and reads, executes and answers what is possible without blocking.
    pub fn serve(&mut self, execute: &mut Execute<'_>) {
        self.turn += 1;
        let turn = self.turn;
        // Those that are connected come first: whoever has sent something is not silent.
        self.sessions.retain_mut(|session| session.serve(turn, execute));
        for _ in 0..CLIENTS_MAX {
            let Ok((stream, _)) = self.listener.accept() else { break };
            let mut session = Session::new(stream, turn);
            let is_usable = session.stream.set_nonblocking(true).is_ok();
            if is_usable && session.serve(turn, execute) {
                self.make_room();
                self.sessions.push(session);
            }
        }
    }

    /// Disconnects the client that was silent for longest if no further one is allowed.
    fn make_room(&mut self) {
        if self.sessions.len() < CLIENTS_MAX {
            return;
        }
        let silent = (0..self.sessions.len()).min_by_key(|at| self.sessions[*at].active);
        silent.map(|at| self.sessions.remove(at));
    }

    /// Descriptors to wait for, and whether they wait to become writable.
    pub fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let sessions = self.sessions.iter().map(|s| (s.stream.as_fd(), !s.output.is_empty()));
        std::iter::once((self.listener.as_fd(), false)).chain(sessions)
    }
}

impl Drop for AppctlServer {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.path);
    }
}

impl Session {
    fn new(stream: UnixStream, active: u64) -> Self {
        Self {
            stream,
            input: Vec::new(),
            scan: Scan::default(),
            output: Vec::new(),
            is_ending: false,
            active,
        }
    }

    /// Whether the client stays connected.
    fn serve(&mut self, turn: u64, execute: &mut Execute<'_>) -> bool {
        if !self.flush(turn) {
            return false;
        }
        if !self.output.is_empty() {
            return true;
        }
        let mut bytes = [0; READ_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => return false,
            Ok(len) => {
                self.active = turn;
                self.input.extend_from_slice(&bytes[..len]);
            }
            Err(error) if is_retryable(&error) => {}
            Err(_) => return false,
        }
        while self.output.len() < READ_BYTES && !self.is_ending {
            match self.scan.object(&self.input) {
                Ok(Some(len)) => {
                    let request: Vec<u8> = self.input.drain(..len).collect();
                    self.scan = Scan::default();
                    self.answer(&request, execute);
                }
                Ok(None) if self.input.len() > REQUEST_BYTES_MAX => {
                    self.reject(format!("request has more than {REQUEST_BYTES_MAX} bytes"));
                }
                Ok(None) => break,
                Err(why) => self.reject(why.to_owned()),
            }
        }
        self.flush(turn)
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
    fn flush(&mut self, turn: u64) -> bool {
        let mut sent = 0;
        while sent < self.output.len() {
            match self.stream.write(&self.output[sent..]) {
                Ok(len) if len > 0 => {
                    self.active = turn;
                    sent += len;
                }
                Err(error) if is_retryable(&error) => break,
                _ => return false,
            }
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
            server.serve(&mut echo);
        }
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let reader = std::thread::spawn(move || {
            let mut reply = Vec::new();
            _ = stream.read_to_end(&mut reply);
            String::from_utf8(reply).unwrap()
        });
        while !reader.is_finished() {
            server.serve(&mut echo);
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
    fn a_new_client_takes_the_place_of_the_silent_one() {
        let (_folder, mut server) = server();
        let mut clients: Vec<UnixStream> = Vec::new();
        for _ in 0..CLIENTS_MAX {
            clients.push(UnixStream::connect(&server.path).unwrap());
            server.serve(&mut echo);
        }
        // The first has sent half a request since the others connected, so the second is closed.
        clients[0].write_all(br#"{"id":1,"method":"#).unwrap();
        server.serve(&mut echo);
        let mut late = UnixStream::connect(&server.path).unwrap();
        late.write_all(br#"{"id":2,"method":"late","params":[]}"#).unwrap();
        server.serve(&mut echo);
        clients[0].write_all(br#""first","params":[]}"#).unwrap();
        server.serve(&mut echo);
        for client in clients.iter().chain([&late]) {
            client.set_nonblocking(true).unwrap();
        }
        let mut bytes = [0; 100];
        let mut received = |client: &mut UnixStream| match client.read(&mut bytes) {
            Ok(len) => Some(String::from_utf8(bytes[..len].to_vec()).unwrap()),
            Err(_) => None,
        };
        assert!(received(&mut late).unwrap().contains(r#""result":"late "#));
        assert!(received(&mut clients[0]).unwrap().contains(r#""result":"first "#));
        assert_eq!(received(&mut clients[1]).as_deref(), Some(""), "closed");
        assert!(clients[2..].iter_mut().all(|client| received(client).is_none()), "still open");
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
            server.serve(&mut echo);
            std::thread::yield_now();
        }
        let (results, error) = client.join().unwrap();
        assert_eq!(results, [Ok("version 1".to_owned()), Err("failed\n".to_owned())]);
        assert!(error.to_string().contains("--control /nowhere"), "{error}");
    }
}
