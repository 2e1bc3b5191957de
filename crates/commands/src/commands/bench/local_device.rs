//! The device under test: our own router between two links in namespaces, or any other device
//! between two interfaces.
//!
//! ```text
//! tester: sender ═ eth0 ─┐ device: warpswitch run CONF ┌─ eth1 ═ sink: tester
//! ```
//! The namespaces have no names, so the kernel removes them and their links with this process and
//! the router, however they end.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use tempfile::TempDir;

use crate::exit::bad_input;
use crate::interrupt;
use crate::netns::Namespace;

/// Names of the interfaces of the tester.
pub const TX: &str = "sender";
pub const RX: &str = "sink";
/// A configuration has this time to start.
const START: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);

/// A running configuration between two links.
pub struct LocalDevice {
    tester: Namespace,
    router: Router,
}

/// The process; ends with the value.
pub struct Router {
    child: Child,
    output: File,
    control: PathBuf,
    // The folder of the control socket.
    _folder: TempDir,
}

impl LocalDevice {
    /// Starts `config` with these arguments of `warpswitch run`.
    ///
    /// # Errors
    /// Missing privileges; a configuration that does not start.
    pub fn start(config: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        let (tester, device) = links().map_err(|why| {
            bad_input(format!("cannot run {} in a network namespace: {why}", config.display()))
        })?;
        let router = device.inside(|| Router::start(config, arguments))?;
        Ok(Self { tester, router })
    }

    /// The namespace with the interfaces [`TX`] and [`RX`], and the router.
    pub fn parts(&mut self) -> (&Namespace, &mut Router) {
        (&self.tester, &mut self.router)
    }
}

/// The namespaces of tester and device, linked.
fn links() -> Result<(Namespace, Namespace), String> {
    let (tester, device) = (Namespace::new()?, Namespace::new()?);
    for (number, end) in [TX, RX].into_iter().enumerate() {
        device.link(&format!("eth{number}"), &tester, end)?;
        device.ip(&format!("link set eth{number} up\n"))?;
        tester.ip(&format!("link set {end} up\n"))?;
    }
    Ok((tester, device))
}

impl Router {
    fn start(config: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        let control = folder.path().join("control");
        let output = tempfile::tempfile().context("cannot create a temporary file")?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let child = Command::new(program)
            .arg("run")
            .arg(config)
            .args(arguments)
            .arg("--control")
            .arg(&control)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?)
            .spawn()
            .context("cannot start 'warpswitch run'")?;
        let mut router = Self { child, output, control, _folder: folder };
        router.await_start()?;
        Ok(router)
    }

    /// The path of its control socket.
    pub fn control(&self) -> &Path {
        &self.control
    }

    /// Waits until the configuration runs.
    fn await_start(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        while UnixStream::connect(&self.control).is_err() {
            self.check()?;
            if interrupt::is_ended() {
                bail!("interrupted");
            }
            if start.elapsed() >= START {
                bail!("the configuration did not start within {} s", START.as_secs());
            }
            sleep(LOOK);
        }
        Ok(())
    }

    /// Checks that it still runs.
    ///
    /// # Errors
    /// Its output if it does not.
    pub fn check(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.try_wait().context("cannot wait for 'warpswitch run'")?
        else {
            return Ok(());
        };
        let mut text = String::new();
        self.output.seek(SeekFrom::Start(0))?;
        _ = (&self.output).take(1 << 16).read_to_string(&mut text);
        let message = format!("'warpswitch run' ended ({status}): {}", text.trim());
        Err(if status.code() == Some(2) { bad_input(message) } else { anyhow!(message) })
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
