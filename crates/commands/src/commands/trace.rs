//! `warpswitch trace`: the way of a packet through the tables of an OpenFlow switch.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use warpswitch_openflow::Change;
use warpswitch_pipeline::{Pipeline, PipelineOptions, PortSettings};
use warpswitch_rules::openflow::{Bucket, FlowAction, FlowCommand, FlowMod, GroupMod, field, port};
use warpswitch_runtime::appctl;
use warpswitch_switch::learning::LearningTable;
use warpswitch_switch::trace::{TraceRequest, Traced};
use warpswitch_switch::tunnel::TunnelOptions;

use super::switch::{check_ports, join_options};
use crate::exit::{Outcome, bad_input};
use crate::flow_files::{FlowFilesArgs, refused};
use crate::output::print;

const LONG_ABOUT: &str = "\
Trace one packet through the tables of an OpenFlow switch: the flow that matches in each table, \
its actions, the headers at the end, the bits that were examined, and what leaves. The layout is \
that of 'ovs-appctl ofproto/trace'. Nothing is counted, learned or sent, and meters let the packet \
pass.

The packet is flow text without masks, such as 'in_port=1,tcp,nw_dst=10.0.0.1'; fields that it \
does not name are zero. With HEX, the bytes of the packet in hexadecimal, the text gives its port \
and metadata.

Flows come from files in the text of 'ovs-ofctl', or from a running switch (--to). With files, \
the ports are those that the packet, the flows and the groups name, and those of --ports.";

const EXAMPLES: &str = "\
Examples:
  printf 'tcp,tp_dst=80 actions=output:2\\n' > web.flows
  warpswitch trace --flows web.flows in_port=1,tcp,tp_dst=80
  warpswitch trace --flows web.flows --ports eth0,vxlan:v:remote_ip=10.0.0.2 in_port=1,tcp,tp_dst=80
  warpswitch switch --ports mem:a,mem:b --listen ptcp:6653 --control switch.ctl &
  warpswitch trace --to switch.ctl in_port=1,arp
  ovs-appctl -t $PWD/switch.ctl ofproto/trace br0 in_port=1,arp       (the same)";

/// Trace a packet through the tables of an OpenFlow switch
#[derive(Args, Debug)]
#[command(
    long_about = LONG_ABOUT,
    after_long_help = EXAMPLES,
    group = ArgGroup::new("source").args(["flows", "to"]).required(true)
)]
pub struct TraceArgs {
    #[command(flatten)]
    files: FlowFilesArgs,

    /// Ports with the numbers 1, 2, …, as those of 'switch'; the tunnels among them show in the
    /// datapath actions
    #[arg(long, value_name = "PORT,...", value_delimiter = ',')]
    ports: Vec<String>,

    /// Control socket of a running switch: the path of its --control
    #[arg(long, value_name = "PATH", conflicts_with_all = ["flows", "groups", "meters", "ports"])]
    to: Option<PathBuf>,

    /// The packet as flow text
    #[arg(value_name = "PACKET")]
    packet: String,

    /// The bytes of the packet in hexadecimal
    #[arg(value_name = "HEX")]
    bytes: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// Files or packets that cannot be read, or no switch at the socket.
pub fn run(args: &TraceArgs) -> anyhow::Result<Outcome> {
    let bytes = args.bytes.as_deref();
    let text = match &args.to {
        Some(path) => {
            let arguments: Vec<&str> = std::iter::once(&*args.packet).chain(bytes).collect();
            appctl::call(path, "ofproto/trace", &arguments)?
                .map_err(|why| bad_input(why.trim_end()))?
        }
        None => {
            let request = TraceRequest::parse(&args.packet, bytes).map_err(bad_input)?;
            let tunnels = tunnels(&join_options(&args.ports))?;
            let tunnel =
                |port: u32| tunnels.get((port as usize).checked_sub(1)?).and_then(Option::as_ref);
            let pipeline = pipeline(args, request.key[0], tunnels.len() as u32)?;
            let learning = LearningTable::default();
            let traced = Traced {
                bridge: "br0",
                pipeline: &pipeline,
                learning: &learning,
                tunnel: &tunnel,
                now_ns: 0,
            };
            traced.trace(&request)
        }
    };
    print(&text)?;
    Ok(Outcome::Done)
}

/// The tunnels among ports.
fn tunnels(ports: &[String]) -> anyhow::Result<Vec<Option<TunnelOptions>>> {
    check_ports(ports)?;
    let tunnels = ports.iter().map(|port| {
        let is_tunnel = TunnelOptions::is_tunnel(port);
        let options = is_tunnel.then(|| port.parse()).transpose();
        options.map_err(|why: String| bad_input(format!("tunnel port '{port}': {why}")))
    });
    tunnels.collect()
}

/// A pipeline with the contents of the files, and with ports up to `port_max`.
fn pipeline(args: &TraceArgs, in_port: u32, port_max: u32) -> anyhow::Result<Pipeline> {
    let mut pipeline = Pipeline::new(PipelineOptions::default());
    let mut ports = Ports(vec![in_port]);
    ports.0.extend(1..=port_max);
    let changes = args.files.load()?;
    changes.iter().for_each(|change| ports.add_change(change));
    for port in ports.0 {
        pipeline.set_port(port, PortSettings::default());
    }
    for change in &changes {
        let result = match change {
            Change::Flow(flow) => pipeline.flow_mod(flow, 0),
            Change::Group(group) => pipeline.group_mod(group, 0),
            Change::Meter(meter) => pipeline.meter_mod(meter, 0),
        };
        result.map_err(|why| refused(change, why))?;
    }
    Ok(pipeline)
}

/// The ports that flows and groups name.
struct Ports(Vec<u32>);

impl Ports {
    fn add(&mut self, number: u128) {
        if (1..=u128::from(port::MAX)).contains(&number) {
            self.0.push(number as u32);
        }
    }

    fn add_change(&mut self, change: &Change) {
        match change {
            Change::Flow(flow) => self.add_flow(flow),
            Change::Group(group) => self.add_group(group),
            Change::Meter(_) => {}
        }
    }

    fn add_flow(&mut self, change: &FlowMod) {
        if change.command != FlowCommand::Add {
            return;
        }
        let in_port = field("in_port").expect("a field of OpenFlow");
        if let Some(number) = change.flow.matching.exact(in_port) {
            self.add(number);
        }
        self.add_actions(&change.flow.instructions.apply);
        self.add_actions(&change.flow.instructions.write);
    }

    fn add_group(&mut self, change: &GroupMod) {
        if let GroupMod::Add(group) | GroupMod::Modify(group) = change {
            for Bucket { watch_port, actions, .. } in &group.buckets {
                self.add(u128::from(*watch_port));
                self.add_actions(actions);
            }
        }
    }

    fn add_actions(&mut self, actions: &[FlowAction]) {
        for action in actions {
            if let FlowAction::Output { port, .. } = action {
                self.add(u128::from(*port));
            }
        }
    }
}
