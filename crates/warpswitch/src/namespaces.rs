//! Network namespaces without names: the kernel removes one with the last handle and process in
//! it, however the owner ends.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

/// A network namespace.
#[derive(Debug)]
pub struct Namespace {
    handle: File,
}

impl Namespace {
    /// Creates an empty one.
    ///
    /// # Errors
    /// The reason of the kernel, for example a missing privilege.
    pub fn new() -> Result<Self, String> {
        // A thread that moves to another namespace does so alone, and ends there.
        let handle = on_its_own_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("unshare: {error}"))?;
            File::open("/proc/thread-self/ns/net").map_err(|error| format!("/proc: {error}"))
        })?;
        Ok(Self { handle })
    }

    /// Runs `work` inside. Its processes, threads and sockets stay inside.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        on_its_own_thread(|| {
            setns(&self.handle, CloneFlags::CLONE_NEWNET).expect("a namespace of our own");
            work()
        })
    }

    /// The name under which `ip` finds it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.handle.as_raw_fd())
    }

    /// Runs lines of `ip` inside.
    ///
    /// # Errors
    /// The error of `ip`, or that it is missing.
    pub fn ip(&self, lines: &str) -> Result<(), String> {
        self.inside(|| {
            let mut child = Command::new("ip")
                .args(["-batch", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(|error| format!("ip (of iproute2) does not start: {error}"))?;
            let mut input = child.stdin.take().expect("it is piped");
            input.write_all(lines.as_bytes()).map_err(|error| error.to_string())?;
            drop(input);
            let output = child.wait_with_output().map_err(|error| error.to_string())?;
            match output.status.success() {
                true => Ok(()),
                false => Err(format!("ip: {}", String::from_utf8_lossy(&output.stderr))),
            }
        })
    }

    /// Sets `net/NAME` of the kernel's parameters.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn set(&self, name: &str, value: u32) -> Result<(), String> {
        let path = format!("/proc/sys/net/{name}");
        self.inside(|| std::fs::write(&path, value.to_string()))
            .map_err(|error| format!("{path}: {error}"))
    }
}

fn on_its_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().expect("the thread does not panic"))
}
