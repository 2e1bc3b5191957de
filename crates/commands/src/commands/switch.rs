//! `warpswitch switch`: an OpenFlow switch.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use warpswitch_classify::Engine;
use warpswitch_openflow::AgentConfig;
use warpswitch_pipeline::PipelineOptions;
use warpswitch_provenance::version;
use warpswitch_runtime::controllers::ControllerAddress;
use warpswitch_runtime::switch::{SwitchNews, SwitchRun};
use warpswitch_runtime::tls::{TlsFiles, TlsIdentity};
use warpswitch_switch::tunnel::{TunnelDrop, TunnelOptions};
use warpswitch_switch::{CacheKind, FailMode, SwitchOptions, SwitchStats};

use crate::args::parse_range;
use crate::devices::{DeviceArgs, EngineChoice, choice_parser};
use crate::exit::{Outcome, bad_input};
use crate::flow_files::{FlowFilesArgs, refused};
use crate::output::print;
use crate::table::{Align, Table};
use crate::traffic::Method;
use crate::{human, term};

const LONG_ABOUT: &str = "\
Run an OpenFlow 1.3 switch. It listens for controllers (--listen) or connects to them \
(--controller); a failed connection is tried again every 100 ms. 'ovs-ofctl -O OpenFlow13' works \
with it as with Open vSwitch.

Ports are numbered from 1 in the order of --ports. Without --flows a new switch has no flows: it \
drops every frame until a controller adds some. With '--fail-mode standalone' it forwards as a \
learning switch while no controller of --controller is connected, also if none is given. Before \
the first one connects, flows take precedence over learning. 15 s after the last one disconnects, \
learning overrides all flows until one connects again.

With ports 'pcap:IN.pcap:OUT.pcap' alone, the switch reads frames from each IN.pcap, writes those \
that the port sends to OUT.pcap, and exits.

The switch runs on one thread until INT, TERM or HUP. At the end it prints what its ports and \
caches counted.";

const EXAMPLES: &str = "\
Examples:
  sudo warpswitch switch --ports eth0,eth1 --listen ptcp:6653
  ovs-ofctl -O OpenFlow13 add-flow tcp:127.0.0.1:6653 in_port=1,actions=output:2
  ovs-ofctl -O OpenFlow13 dump-flows tcp:127.0.0.1:6653
  sudo warpswitch switch --ports eth0,eth1,eth2 --controller tcp:10.0.0.1:6653
  sudo warpswitch switch --ports eth0,vxlan:vx0:remote_ip=10.0.0.2,key=5 --listen ptcp:6653
  warpswitch switch --ports mem:a,mem:b --listen ptcp:6653     (no privileges, no frames)
  warpswitch switch --ports pcap:a.pcap:to-a.pcap,pcap:b.pcap:to-b.pcap --flows web.flows
  warpswitch switch --ports mem:a --control switch.ctl
  ovs-appctl -t $PWD/switch.ctl list-commands";

/// The longest name of an interface of Linux.
const INTERFACE_NAME_BYTES_MAX: usize = 15;

/// Run an OpenFlow switch
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct SwitchArgs {
    /// Interfaces, TAP devices (tap:NAME), links in memory (mem:NAME), captures
    /// (pcap:IN.pcap[:OUT.pcap]), or tunnels:
    /// vxlan:NAME:OPTION=VALUE,..., geneve:… and gre:… with Open vSwitch's options remote_ip,
    /// local_ip, key, in_key, out_key, dst_port, tos, ttl, df_default and csum
    #[arg(long, value_name = "PORT,...", value_delimiter = ',', required = true)]
    ports: Vec<String>,

    #[command(flatten)]
    files: FlowFilesArgs,

    /// Listen for controllers (pssl: with TLS); without HOST on the loopback address only
    #[arg(long, value_name = "ptcp:PORT[:HOST]", value_parser = parse_listen)]
    listen: Vec<ControllerAddress>,

    /// Connect to a controller (ssl: with TLS)
    #[arg(long, value_name = "tcp:HOST[:PORT]", value_parser = parse_controller)]
    controller: Vec<ControllerAddress>,

    /// Private key of the switch for TLS, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["certificate", "ca_cert"])]
    private_key: Option<PathBuf>,

    /// Certificate of the switch for TLS, in PEM
    #[arg(long, value_name = "FILE", requires = "private_key")]
    certificate: Option<PathBuf>,

    /// Certificate of the authority that signs those of controllers, in PEM
    #[arg(long, value_name = "FILE", requires = "private_key")]
    ca_cert: Option<PathBuf>,

    /// Serve 'ovs-appctl -t PATH' and 'warpswitch trace --to PATH' at this Unix socket
    #[arg(long, alias = "unixctl", value_name = "PATH")]
    control: Option<PathBuf>,

    /// Name of the switch, where ovs-appctl expects that of a bridge
    #[arg(long, value_name = "NAME", default_value = "br0")]
    bridge: String,

    /// Identity of the switch, in hexadecimal
    #[arg(long, value_name = "HEX", value_parser = parse_datapath_id, default_value = "1")]
    datapath_id: u64,

    /// Cache in front of the tables
    #[arg(long, value_name = "KIND", value_enum, default_value = "mega")]
    cache: Cache,

    /// Engine of the tables, for frames that no cache answers; 'auto' looks long bursts up on a GPU
    /// where that is cheaper
    #[arg(long, value_name = "NAME", value_parser = choice_parser(),
          default_value_t = EngineChoice::Cpu(Engine::Turbo))]
    engine: EngineChoice,

    #[command(flatten)]
    device: DeviceArgs,

    /// What happens while no controller of --controller is connected
    #[arg(long, value_name = "MODE", value_enum, default_value = "secure")]
    fail_mode: Fail,

    /// How interfaces are reached
    #[arg(long, value_name = "METHOD", value_enum, ignore_case = true, default_value = "AUTO")]
    method: Method,

    /// Number of flow tables
    #[arg(long, value_name = "N", default_value = "254",
          value_parser = parse_range::<u8>(1, 254))]
    tables: u8,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cache {
    /// Every packet is looked up in the tables
    None,
    /// By exact flow keys
    Micro,
    /// By exact flow keys, then by the bits that the tables examined
    Mega,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Fail {
    /// Flows stay as they are
    Secure,
    /// The flow 'priority=0 actions=NORMAL' is added at the start, 'priority=65535
    /// actions=NORMAL' 15 s after the last controller disconnects; both go when one connects
    Standalone,
}

fn parse_listen(text: &str) -> Result<ControllerAddress, String> {
    match text.split_once(':') {
        Some(("ptcp" | "pssl", _)) => text.parse(),
        _ => Err("expected ptcp:PORT[:HOST] or pssl:PORT[:HOST]".to_owned()),
    }
}

fn parse_controller(text: &str) -> Result<ControllerAddress, String> {
    match text.split_once(':') {
        Some(("tcp" | "ssl", host)) if !host.is_empty() => text.parse(),
        _ => Err("expected tcp:HOST[:PORT] or ssl:HOST[:PORT]".to_owned()),
    }
}

fn parse_datapath_id(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| "expected up to 16 hexadecimal digits".to_owned())
}

/// Runs the command.
///
/// # Errors
/// Ports or addresses that cannot be opened.
pub fn run(args: &SwitchArgs) -> anyhow::Result<Outcome> {
    let engine = args.engine.open(&args.device)?;
    let options = SwitchOptions {
        bridge: args.bridge.clone(),
        agent: agent(args),
        pipeline: PipelineOptions { tables: args.tables.into(), ..PipelineOptions::default() },
        engines: engine.for_tables(),
        cache: match args.cache {
            Cache::None => CacheKind::None,
            Cache::Micro => CacheKind::Micro,
            Cache::Mega => CacheKind::Mega,
        },
        fail_mode: match args.fail_mode {
            Fail::Secure => FailMode::Secure,
            Fail::Standalone => FailMode::Standalone,
        },
    };
    let method = args.method.port_method();
    let addresses = [&args.listen[..], &args.controller[..]].concat();
    let ports = join_options(&args.ports);
    check_ports(&ports)?;
    let changes = args.files.load()?;
    if addresses.is_empty() && changes.is_empty() && matches!(args.fail_mode, Fail::Secure) {
        term::warning(match args.files.flows.is_none() {
            true => "no --flows, --listen or --controller: every frame is dropped",
            false => "no flows in --flows, no --listen or --controller: every frame is dropped",
        });
    }
    let mut run = SwitchRun::open(options, &ports, method, &addresses, tls(args)?)?;
    for change in &changes {
        run.switch().change(change, 0).map_err(|why| refused(change, why))?;
    }
    if let Some(path) = &args.control {
        run.listen_appctl(path)?;
        term::note(format!("listening for ovs-appctl at {}", path.display()));
    }
    for (number, port) in (1..).zip(&ports) {
        term::note(format!("port {number} is {port}"));
    }
    for address in run.listening() {
        term::note(format!("listening for controllers at {address}"));
    }
    for address in &args.controller {
        term::note(format!("connecting to the controller at {address}"));
    }
    run.run(|news| {
        term::note(match news {
            SwitchNews::Connected(address) => format!("connected to {address}"),
            SwitchNews::Disconnected(address, why) => format!("lost {address}: {why}"),
            SwitchNews::Unreachable(address, why) => {
                format!("cannot connect to {address}: {why}; trying again every 100 ms")
            }
        });
    });
    let finished = run.finish();
    engine.warn_if_retired();
    print(&summary(&mut run))?;
    finished?;
    Ok(Outcome::Done)
}

/// Puts the options of tunnel ports, which the commas of the list separated, behind their port.
pub(super) fn join_options(pieces: &[String]) -> Vec<String> {
    let mut ports: Vec<String> = Vec::new();
    for piece in pieces {
        let is_option = piece.split_once('=').is_some_and(|(name, _)| !name.contains(':'));
        match ports.last_mut().filter(|last| is_option && TunnelOptions::is_tunnel(last)) {
            Some(last) => *last += &format!(",{piece}"),
            None => ports.push(piece.clone()),
        }
    }
    ports
}

/// The identity for TLS.
fn tls(args: &SwitchArgs) -> anyhow::Result<Option<TlsIdentity>> {
    let SwitchArgs {
        private_key: Some(private_key),
        certificate: Some(certificate),
        ca_cert: Some(ca_cert),
        ..
    } = args
    else {
        return Ok(None);
    };
    let files = TlsFiles {
        private_key: private_key.clone(),
        certificate: certificate.clone(),
        ca_cert: ca_cert.clone(),
    };
    Ok(Some(TlsIdentity::load(&files)?))
}

/// Refuses names of ports that cannot be meant.
pub(super) fn check_ports(ports: &[String]) -> anyhow::Result<()> {
    let name = |port: &str| match TunnelOptions::is_tunnel(port) {
        true => port.split(':').nth(1).unwrap_or(port).to_owned(),
        false => port.to_owned(),
    };
    for (at, port) in ports.iter().enumerate() {
        if port.is_empty() || port.contains(char::is_whitespace) {
            return Err(bad_input("--ports: expected names separated by commas"));
        }
        if let Some(why) = wrong_name(port) {
            return Err(bad_input(format!("--ports: '{port}' {why}")));
        }
        let name_of_port = name(port);
        if ports[..at].iter().any(|other| name(other) == name_of_port) {
            return Err(bad_input(format!("--ports: '{name_of_port}' is listed twice")));
        }
    }
    Ok(())
}

/// What is wrong with the name of a port, whatever interfaces this machine has.
fn wrong_name(port: &str) -> Option<String> {
    let Some((kind, name)) = port.split_once(':') else {
        let path = Path::new(port);
        let is_capture = path.extension().is_some_and(|e| e == "pcap" || e == "pcapng");
        return (is_capture || port.contains('/'))
            .then(|| format!("is no interface; a port that reads a capture is pcap:{port}"));
    };
    match kind {
        "tap" if name.len() > INTERFACE_NAME_BYTES_MAX => {
            Some(format!("has a name of more than {INTERFACE_NAME_BYTES_MAX} bytes"))
        }
        "mem" if name.is_empty() => Some("has no name; expected mem:NAME".to_owned()),
        "mem" | "pcap" | "tap" | "vxlan" | "geneve" | "gre" => None,
        _ => Some(format!(
            "has the unknown kind '{kind}'; expected an interface, or tap:, mem:, pcap:, vxlan:, \
             geneve: or gre:"
        )),
    }
}

fn agent(args: &SwitchArgs) -> AgentConfig {
    let mut agent = AgentConfig { datapath_id: args.datapath_id, ..AgentConfig::default() };
    agent.description.manufacturer = "warpswitch".to_owned();
    agent.description.hardware = "software switch".to_owned();
    agent.description.software = version().to_owned();
    agent
}

/// What ports and caches counted.
fn summary(run: &mut SwitchRun) -> String {
    let now_ns = run.now_ns();
    let switch = run.switch();
    let mut table = Table::new(&[
        ("port", Align::Left),
        ("rx packets", Align::Right),
        ("rx dropped", Align::Right),
        ("tx packets", Align::Right),
        ("tx dropped", Align::Right),
    ]);
    for (name, port) in switch.ports(now_ns) {
        let rx_dropped = port.rx_dropped + port.rx_errors;
        let tx_dropped = port.tx_dropped + port.tx_errors;
        let counts = [port.rx_packets, rx_dropped, port.tx_packets, tx_dropped];
        let counts = counts.map(human::count);
        table.row_of([vec![name], counts.into()].concat());
    }
    let stats = switch.stats();
    let cache = stats.cache;
    let mut answers = Table::new(&[("answered by", Align::Left), ("packets", Align::Right)]);
    for (name, packets) in [
        ("microflow cache", cache.micro_hits),
        ("megaflow cache", cache.mega_hits),
        ("tables", cache.misses),
    ] {
        answers.row([name.to_owned(), human::count(packets)]);
    }
    let [flows, tunnels] = [flow_drops(&stats), tunnel_drops(&stats)];
    format!("{}\n{}{flows}{tunnels}", table.render(), answers.render())
}

/// What the pipeline dropped, by reason.
fn flow_drops(stats: &SwitchStats) -> String {
    let reasons = [
        ("no flow sent them anywhere", stats.pipeline.unsent),
        ("a meter or the TTL", stats.pipeline.ended),
        ("too many lookups and actions", stats.pipeline.limited),
        ("output to a port that does not exist", stats.missing_port),
        ("NORMAL found no port for them", stats.stayed),
        ("too many packets for controllers", stats.packet_ins_dropped),
    ];
    drops("dropped by flows", reasons.into_iter())
}

/// What tunnels dropped, by reason.
fn tunnel_drops(stats: &SwitchStats) -> String {
    let reason = |reason: TunnelDrop| (reason.name(), stats.tunnel_drops.get(reason));
    drops("dropped by tunnels", TunnelDrop::ALL.map(reason).into_iter())
}

/// A table of the reasons that occurred; empty if none did.
fn drops<'a>(heading: &str, reasons: impl Iterator<Item = (&'a str, u64)>) -> String {
    let mut occurred = reasons.filter(|(_, packets)| *packets > 0).peekable();
    if occurred.peek().is_none() {
        return String::new();
    }
    let mut table = Table::new(&[(heading, Align::Left), ("packets", Align::Right)]);
    for (name, packets) in occurred {
        table.row([name.to_owned(), human::count(packets)]);
    }
    format!("\n{}", table.render())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_follow_their_tunnel_port() {
        for (list, expected) in [
            ("eth0,eth1", &["eth0", "eth1"][..]),
            (
                "eth0,vxlan:v:remote_ip=fd00::2,key=5,gre:g:remote_ip=flow,eth1",
                &["eth0", "vxlan:v:remote_ip=fd00::2,key=5", "gre:g:remote_ip=flow", "eth1"],
            ),
            ("eth0,key=5", &["eth0", "key=5"]),
        ] {
            let pieces: Vec<String> = list.split(',').map(str::to_owned).collect();
            assert_eq!(join_options(&pieces), expected);
        }
    }

    #[test]
    fn names_of_ports_are_unique() {
        let check = |ports: &[&str]| {
            check_ports(&ports.iter().map(|port| (*port).to_owned()).collect::<Vec<_>>())
        };
        assert!(check(&["mem:a", "mem:b", "vxlan:a:remote_ip=flow"]).is_ok());
        assert!(check(&["gre:a:remote_ip=flow", "vxlan:a:remote_ip=flow"]).is_err());
        assert!(check(&["eth0", "eth0"]).is_err());
    }

    #[test]
    fn names_of_ports_have_a_known_form() {
        for port in ["eth0.100", "tap:t0", "tap:", "mem:a:peer", "pcap:a", "gre:g:remote_ip=flow"] {
            assert_eq!(wrong_name(port), None, "{port}");
        }
        for (port, expected) in [
            ("web.pcap", "pcap:web.pcap"),
            ("captures/web", "pcap:captures/web"),
            ("tap:tap-of-this-switch", "15 bytes"),
            ("mem:", "mem:NAME"),
            ("vlxan:v:remote_ip=flow", "unknown kind 'vlxan'"),
        ] {
            let why = wrong_name(port).expect(port);
            assert!(why.contains(expected), "{why}");
        }
    }
}
