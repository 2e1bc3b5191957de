//! The network of the live demo: two hosts and the router between them, each in a namespace.
//!
//! ```text
//! host 0 ─ end ═ eth0 ─ conf/live/ip-router.click ─ eth1 ═ end ─ host 1
//! 10.0.0.2                                                     10.0.1.2
//! ```
//! The router runs on threads of this process, in its namespace.

use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, anyhow};
use warpswitch_runtime::client::{self, ControlClient, Stream};
use warpswitch_runtime::{ControlAddress, RunBuilder, RunHandle, RunStats};

use crate::kit;
use crate::netns::Namespace;

/// The router, part of the binary: the demo needs no files.
const CONFIG: &str = include_str!("../../../../../conf/live/ip-router.click");
/// Port of the control socket, in the namespace of the router.
const CONTROL_PORT: u16 = 7777;
/// Limit of the messages of the router that are kept.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Address of a host.
pub fn host_address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, number, 2)
}

/// See the module.
pub struct Network {
    // Ends before the namespaces, to whose interfaces it is bound.
    router: RunHandle,
    messages: Messages,
    router_namespace: Namespace,
    hosts: [Namespace; 2],
}

impl Network {
    /// Creates the namespaces and links, and starts the router.
    ///
    /// # Errors
    /// A missing privilege or program, with the fix; the router does not start.
    pub fn start() -> anyhow::Result<Self> {
        let create = || Namespace::new().map_err(|why| anyhow!("{why}"));
        let router_namespace = create()?;
        let hosts = [create()?, create()?];
        link_hosts(&router_namespace, &hosts).map_err(|why| anyhow!("{why}"))?;
        let messages = Messages::default();
        let mut builder = RunBuilder::new(kit::registry())
            .text(CONFIG)
            .count_costs()
            .keep_running()
            .control(ControlAddress::Tcp(None, CONTROL_PORT))
            .messages(messages.clone());
        for (name, value) in variables() {
            builder = builder.variable(&name, &value);
        }
        // Threads that it starts stay in the namespace.
        let router = router_namespace.inside(|| builder.start()).context("the router")?;
        Ok(Self { router, messages, router_namespace, hosts })
    }

    /// The namespace of host `number`.
    pub fn host(&self, number: usize) -> &Namespace {
        &self.hosts[number]
    }

    /// The command that runs a program as host 0, for users who want to try more.
    pub fn enter_command(&self) -> String {
        format!("sudo nsenter --net={}", self.hosts[0].path())
    }

    /// A control connection to the router.
    ///
    /// # Errors
    /// The router has ended.
    pub fn connect(&self) -> anyhow::Result<ControlClient<Box<dyn Stream>>> {
        let address = ControlAddress::Tcp(None, CONTROL_PORT);
        Ok(self.router_namespace.inside(|| client::connect(&address))?)
    }

    /// Packets that the router has sent to both hosts.
    ///
    /// # Errors
    /// The router has ended.
    pub fn packets_sent(&self) -> anyhow::Result<u64> {
        let mut packets = 0;
        for handler in ["to0.count", "to1.count"] {
            let count = self.router.read(handler)?;
            packets += count.trim().parse::<u64>().with_context(|| handler.to_owned())?;
        }
        Ok(packets)
    }

    /// Stops the router; returns its statistics and messages.
    ///
    /// # Errors
    /// An element cannot finish.
    pub fn stop(self) -> anyhow::Result<(RunStats, String)> {
        let stats = self.router.stop()?;
        Ok((stats, self.messages.text()))
    }
}

/// Variables of the configuration.
fn variables() -> Vec<(String, String)> {
    let of_link = |number| {
        [
            (format!("ETH{number}"), format!("eth{number}")),
            (format!("ADDR{number}"), format!("10.0.{number}.1/24")),
        ]
    };
    (0..2).flat_map(of_link).collect()
}

/// Connects each host to the router, and configures its addresses.
fn link_hosts(router: &Namespace, hosts: &[Namespace; 2]) -> Result<(), String> {
    router.ip("link set lo up\n")?;
    for (number, host) in hosts.iter().enumerate() {
        router.link(&format!("eth{number}"), host, "end")?;
        router.ip(&format!("link set eth{number} up\n"))?;
        host.ip(&format!(
            "link set lo up\n\
             addr add 10.0.{number}.2/24 dev end\n\
             link set end up\n\
             route add default via 10.0.{number}.1\n"
        ))?;
    }
    Ok(())
}

/// Messages of the router: kept, so that they do not disturb the live view.
#[derive(Clone, Default)]
struct Messages(Arc<Mutex<Vec<u8>>>);

impl Messages {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for Messages {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MESSAGE_BYTES_MAX.saturating_sub(kept.len());
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
