//! A private Open vSwitch, to compare with.

use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Whether a program of Open vSwitch is installed.
pub fn has(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok()
}

/// Waits until `is_there` holds.
pub fn wait_for(mut is_there: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if is_there() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it did not come");
}

/// A private `ovs-vswitchd` with a bridge of dummy ports.
pub struct OpenVswitch {
    folder: tempfile::TempDir,
    children: Vec<Child>,
}

impl OpenVswitch {
    /// Starts it, or reports why that is not possible.
    pub fn start() -> Result<Self, String> {
        if !has("ovs-vswitchd") || !has("ovsdb-server") {
            return Err("ovs-vswitchd is not installed (openvswitch-switch)".to_owned());
        }
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut all = Self { folder, children: Vec::new() };
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        all.run("ovsdb-tool", &["create", "conf.db", schema])?;
        all.spawn("ovsdb-server", &["--remote=punix:db.sock", "--unixctl=db.ctl", "conf.db"])?;
        let folder = all.folder.path().to_owned();
        wait_for(|| UnixStream::connect(folder.join("db.sock")).is_ok());
        all.run("ovs-vsctl", &["--db=unix:db.sock", "--no-wait", "init"])?;
        let daemon = ["--enable-dummy=system", "--disable-system", "--unixctl=vs.ctl"];
        all.spawn("ovs-vswitchd", &[&daemon[..], &["unix:db.sock"]].concat())?;
        let mut bridge = vec!["--db=unix:db.sock", "--timeout=20", "add-br", "br0", "--", "set"];
        bridge.extend(["bridge", "br0", "datapath_type=dummy", "fail_mode=secure"]);
        bridge.push("protocols=OpenFlow10,OpenFlow13");
        let ports = [1, 2, 3].map(|port| [format!("p{port}"), format!("ofport_request={port}")]);
        for [name, number] in &ports {
            bridge.extend(["--", "add-port", "br0", name, "--", "set", "interface", name]);
            bridge.extend(["type=dummy", number]);
        }
        all.run("ovs-vsctl", &bridge)?;
        Ok(all)
    }

    /// Adds a tunnel port.
    pub fn add_tunnel(&self, name: &str, kind: &str, number: u32, options: &str) {
        let number = format!("ofport_request={number}");
        let mut arguments = vec!["--db=unix:db.sock", "--timeout=20", "add-port", "br0", name];
        let kind = format!("type={kind}");
        arguments.extend(["--", "set", "interface", name, &kind, &number]);
        // An IPv6 address is in quotes, because colons have a meaning there.
        let options = options.split(',').filter_map(|option| option.split_once('='));
        let options: Vec<String> =
            options.map(|(key, value)| format!("options:{key}=\"{value}\"")).collect();
        arguments.extend(options.iter().map(String::as_str));
        self.run("ovs-vsctl", &arguments).expect("a tunnel port");
    }

    /// The reply to a command.
    pub fn appctl(&self, arguments: &[&str]) -> Result<String, String> {
        let socket = self.folder.path().join("vs.ctl").display().to_string();
        self.run("ovs-appctl", &[&["-t", &socket], arguments].concat())
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        let folder = self.folder.path();
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
            command.env(variable, folder);
        }
        command.args(arguments).current_dir(folder).stdin(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// Runs a program of Open vSwitch in the folder of its sockets; returns its output.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let output = self.command(program, arguments).output();
        let output = output.map_err(|error| format!("{program}: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }

    fn spawn(&mut self, program: &str, arguments: &[&str]) -> Result<(), String> {
        let child = self.command(program, arguments).stderr(Stdio::null()).spawn();
        self.children.push(child.map_err(|error| format!("{program}: {error}"))?);
        Ok(())
    }
}

impl Drop for OpenVswitch {
    fn drop(&mut self) {
        for child in &mut self.children {
            _ = child.kill();
            _ = child.wait();
        }
    }
}
