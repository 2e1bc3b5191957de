//! Network namespaces and veth pairs, which end with their owner.
//!
//! A [`Namespace`] has no name: the kernel deletes it, with the interfaces in it, when its last
//! handle, process and socket are gone. So nothing needs to be cleaned up, not even after SIGKILL.
//! `nsenter --net=PATH` enters one by its [`Namespace::path`].
//!
//! The code needs root, and `ip` of iproute2 for links and addresses.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::thread;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};

/// A network namespace.
#[derive(Debug)]
pub struct Namespace {
    handle: File,
}

impl Namespace {
    /// Creates a namespace without links. IPv6 is off on links that are added later, so the kernel
    /// sends no frames on its own.
    ///
    /// # Errors
    /// A message with the fix if privileges are missing.
    pub fn new() -> Result<Self, String> {
        // A thread that moves to another namespace does so alone, and ends there.
        let handle = on_new_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(unshare_error)?;
            File::open("/proc/thread-self/ns/net").map_err(|error| format!("/proc: {error}"))
        })?;
        let namespace = Self { handle };
        // Kernels without IPv6 have no such parameter.
        _ = namespace.set("ipv6/conf/default/disable_ipv6", 1);
        Ok(namespace)
    }

    /// Runs `work` inside. Processes, threads and sockets that it creates stay inside.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        on_new_thread(|| {
            setns(&self.handle, CloneFlags::CLONE_NEWNET).expect("a namespace of this process");
            work()
        })
    }

    /// The path under which `ip` and `nsenter` find it, as long as this value exists.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.handle.as_raw_fd())
    }

    /// Adds a veth pair: interface `name` here, and its peer `peer_name` in `peer`. Both are down.
    ///
    /// # Errors
    /// See [`Namespace::ip`].
    pub fn link(&self, name: &str, peer: &Namespace, peer_name: &str) -> Result<(), String> {
        let path = peer.path();
        self.ip(&format!("link add {name} type veth peer name {peer_name} netns {path}\n"))
    }

    /// Runs lines of `ip -batch` inside.
    ///
    /// # Errors
    /// The messages of `ip`, or how to install it.
    pub fn ip(&self, lines: &str) -> Result<(), String> {
        self.inside(|| {
            let mut child = Command::new("ip")
                .args(["-batch", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(|error| format!("cannot run 'ip': {error}; install iproute2"))?;
            let mut input = child.stdin.take().expect("it is piped");
            input.write_all(lines.as_bytes()).map_err(|error| format!("ip: {error}"))?;
            drop(input);
            let output = child.wait_with_output().map_err(|error| format!("ip: {error}"))?;
            match output.status.success() {
                true => Ok(()),
                false => Err(format!("ip: {}", String::from_utf8_lossy(&output.stderr).trim())),
            }
        })
    }

    /// Sets `net/NAME` of the kernel's parameters.
    ///
    /// # Errors
    /// The parameter is missing or not writable.
    pub fn set(&self, name: &str, value: u32) -> Result<(), String> {
        let path = format!("/proc/sys/net/{name}");
        self.inside(|| std::fs::write(&path, value.to_string()))
            .map_err(|error| format!("{path}: {error}"))
    }
}

fn unshare_error(error: Errno) -> String {
    match error {
        Errno::EPERM => "network namespaces require root (CAP_SYS_ADMIN): run it with sudo, or, \
                         where the system allows it, after 'unshare --user --map-root-user'"
            .to_owned(),
        error => format!("cannot create a network namespace: {}", error.desc()),
    }
}

fn on_new_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().expect("the thread does not panic"))
}
