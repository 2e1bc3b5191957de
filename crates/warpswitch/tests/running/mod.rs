//! A run with a control socket, and what it is told and tells.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const PATIENCE: Duration = Duration::from_secs(20);

/// Runs `config` with a socket at `path`.
pub fn start(path: &Path, config: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpswitch"));
    command.args(["click", "-R", "-e", config, "-u"]).arg(path);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// A connection to the control socket at `path`.
pub fn connect(path: &Path) -> UnixStream {
    let start = Instant::now();
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
                stream.set_write_timeout(Some(PATIENCE)).expect("a time-out");
                return stream;
            }
            Err(_) if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => panic!("nobody listens: {error}"),
        }
    }
}

/// What a client that says `text` and then nothing more is told.
pub fn talk(path: &Path, text: &str) -> String {
    let mut stream = connect(path);
    stream.write_all(text.as_bytes()).expect("it takes commands");
    stream.shutdown(Shutdown::Write).expect("a half-close");
    let mut told = String::new();
    stream.read_to_string(&mut told).expect("an answer in time");
    told.replace("\r\n", "\n").replace("Click::ControlSocket/1.3\n", "")
}

/// Stops a run; what it printed, and its exit code.
pub fn stop(path: &Path, child: Child) -> (String, Option<i32>) {
    assert_eq!(talk(path, "write stop\n"), "200 Write handler 'stop' OK\n");
    let output = child.wait_with_output().expect("it ends");
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
}
