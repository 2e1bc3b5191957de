//! A running configuration in a namespace, with a control socket.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::netns::Namespace;
use crate::running::{PATIENCE, connect, stop, talk};

/// See the module. Dropping it kills the process.
pub struct Run {
    pub namespace: Namespace,
    arguments: Vec<String>,
    child: Option<Child>,
    folder: TempDir,
}

impl Run {
    /// Runs the configuration text `config` in a namespace of its own.
    ///
    /// # Errors
    /// The reason why namespaces are unavailable.
    pub fn local(config: &str) -> Result<Self, String> {
        let namespace = Namespace::new()?;
        namespace.ip("link set lo up\n")?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let file = folder.path().join("conf.click");
        std::fs::write(&file, config).map_err(|error| error.to_string())?;
        let arguments = vec![file.display().to_string()];
        let mut run = Self { namespace, arguments, child: None, folder };
        run.start();
        Ok(run)
    }

    /// Does `work` in the namespace.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.namespace.inside(work)
    }

    /// Starts `warpswitch run` with these arguments in `namespace`, and waits until it runs.
    pub fn new(namespace: Namespace, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let mut run = Self { namespace, arguments, child: None, folder };
        run.start();
        run
    }

    /// Starts the process, again if it was stopped or killed, and waits until it runs.
    pub fn start(&mut self) {
        assert!(self.child.is_none(), "one process at a time");
        let child = self.namespace.inside(|| {
            Command::new(env!("CARGO_BIN_EXE_warpswitch"))
                .arg("run")
                .args(&self.arguments)
                .arg("--control")
                .arg(self.socket())
                .current_dir(repository())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the command starts")
        });
        self.child = Some(child);
        drop(connect(&self.socket()));
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    /// The value of read handler `name`.
    pub fn read<T: FromStr<Err: Debug>>(&self, name: &str) -> T {
        let answer = talk(&self.socket(), &format!("read {name}\n"));
        let value = answer.lines().nth(2).unwrap_or_default();
        value.parse().unwrap_or_else(|error| panic!("{name}: {answer}: {error:?}"))
    }

    /// Writes handler `name`.
    pub fn write(&self, name: &str, value: &str) {
        let answer = talk(&self.socket(), &format!("write {name} {value}\n"));
        assert!(answer.starts_with("200"), "{name}: {answer}");
    }

    /// Packets that elements dropped for `reason`. `element` is a name, or empty for all.
    pub fn drops(&self, element: &str, reason: &str) -> u64 {
        let answer = talk(&self.socket(), "read stats\n");
        let lines = answer.lines().filter_map(|line| line.split_once('\t'));
        let lines = lines.filter(|(name, _)| element.is_empty() || *name == element);
        let counts = lines.flat_map(|(_, line)| line.split('\t')).filter_map(|field| {
            let (count, found) = field.split_once(' ')?;
            if found == reason { count.parse::<u64>().ok() } else { None }
        });
        counts.sum()
    }

    /// Waits until `is_so` holds.
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < PATIENCE, "{what}: {}", talk(&self.socket(), "read stats\n"));
            sleep(Duration::from_millis(20));
        }
    }

    /// Waits until read handler `name` returns `expected`.
    pub fn await_handler(&self, name: &str, expected: &str) {
        self.wait_until(name, |run| run.read::<String>(name) == expected);
    }

    /// Stops it; returns its messages.
    pub fn stop(&mut self) -> String {
        let child = self.child.take().expect("it runs");
        let (messages, code) = stop(&self.socket(), child);
        assert_eq!(code, Some(0), "{messages}");
        messages
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }

    /// Processor time that it has used, in hundredths of a second.
    pub fn cpu_ticks(&self) -> u64 {
        let child = self.child.as_ref().expect("it runs");
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
        let (_, fields) = stat.rsplit_once(") ").expect("a name in parentheses");
        let ticks = fields.split(' ').skip(11).take(2);
        ticks.map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// The root of the repository, in which paths of configurations start.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
