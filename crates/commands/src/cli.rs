//! The command line as a whole.

use clap::{Parser, Subcommand};
use warpswitch_provenance::version;

use crate::commands::{
    bench, check, classify, click, demo, devices, elements, explain, flatten, generate, graph, ids,
    read, rules, run, switch, top, trace, write,
};
use crate::exit::Outcome;

const LONG_ABOUT: &str = "\
A software switch and packet processor. Packets pass through a graph of elements, written in the \
Click language: 'run', 'check', 'flatten', 'graph' and 'elements' work with configurations; 'top', \
'read' and 'write' work with a running one. Packet classification, which finds the winning rule \
for each packet among many that may match, also works without a graph: 'classify', 'explain', \
'rules'. So does intrusion detection: 'ids'. 'switch' runs an OpenFlow switch, \
'trace' shows the way of a packet through its tables. 'generate' \
generates rules, traffic and routes for all of them, and 'bench' measures their performance.

Start with 'warpswitch demo'. It needs no input and takes ten seconds. 'sudo warpswitch demo \
--live' routes live traffic on this machine.";

const EXTRA: &str = "\
Configurations (the Click language):
  elements, connections, compound elements, variables as in Click; '-' is the
  standard input. 'warpswitch click' takes Click's own command line, and so does
  the program under the name 'click'.

Rules (format detected from the content; --rules-format overrides it):
  classbench  ClassBench filter sets, IPv4 and IPv6; the first line wins
  ovs         ovs-ofctl flows: 'priority=10,tcp,nw_src=10.0.0.0/8,actions=drop'
  canonical   warpswitch's own text format, which expresses every rule of every schema

Detection rules:
  Snort 2, Snort 3 and Suricata rules, for 'warpswitch ids'

Packets:
  header traces as text, in ClassBench or canonical format; pcap and pcapng
  captures. Any input may be compressed with gzip; '-' is the standard input.

Engines (all return identical results):
  linear       compares every rule in order: the reference
  linear-simd  the same, sixteen rules at a time
  tuple        tuple space search: one cuckoo hash table per mask
  bloom        the same, with a Bloom filter in front of each table
  maskhash     one open-addressing table per mask, ordered by smallest rule index
  hypercuts    a decision tree that cuts several fields at once
  turbo        the default: bucket tables, looked up one batch at a time
  gpu:NAME     kernel NAME on an NVIDIA GPU: linear, tuple, bloom, maskhash, turbo
  host:NAME    the same through a device emulated by a thread pool

Exit codes:
  0  done
  1  failed: wrong engine result, failed check, unwritable output, exceeded limit
  2  usage error or invalid input; nothing was written, except by 'ids' before a bad frame

Examples:
  warpswitch demo
  warpswitch generate rules --style acl --count 10K --out acl.rules
  warpswitch generate trace --rules acl.rules --count 1M --out acl.trace
  warpswitch classify --rules acl.rules --trace acl.trace --out verdicts.txt
  warpswitch explain --rules acl.rules --packet 'tcp 10.0.0.1:999 > 10.0.0.2:80'
  warpswitch rules stats acl.rules
  warpswitch bench classify --rules acl.rules --trace acl.trace";

/// A software switch and packet processor
#[derive(Debug, Parser)]
#[command(name = "warpswitch", version = version(), long_about = LONG_ABOUT,
          after_long_help = EXTRA)]
#[command(max_term_width = 100, arg_required_else_help = true, subcommand_required = true)]
pub struct Cli {
    /// When to use colours [default: on a terminal, unless NO_COLOR is set]
    #[arg(long, global = true, value_name = "WHEN", value_enum, display_order = 900)]
    color: Option<clap::ColorChoice>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArgs),
    Switch(switch::SwitchArgs),
    Trace(trace::TraceArgs),
    Top(top::TopArgs),
    Read(read::ReadArgs),
    Write(write::WriteArgs),
    Check(check::CheckArgs),
    Flatten(flatten::FlattenArgs),
    Graph(graph::GraphArgs),
    Elements(elements::ElementsArgs),
    Click(click::ClickArgs),
    Demo(demo::DemoArgs),
    Devices(devices::DevicesArgs),
    Classify(classify::ClassifyArgs),
    Explain(explain::ExplainArgs),
    Ids(ids::IdsArgs),
    Rules(rules::RulesCommand),
    Generate(generate::GenerateCommand),
    Bench(bench::BenchCommand),
}

impl Cli {
    /// Runs the selected command.
    ///
    /// # Errors
    /// The error of the command.
    pub fn run(&self) -> anyhow::Result<Outcome> {
        match self.color {
            Some(clap::ColorChoice::Always) => anstream::ColorChoice::Always.write_global(),
            Some(clap::ColorChoice::Never) => anstream::ColorChoice::Never.write_global(),
            Some(clap::ColorChoice::Auto) | None => {}
        }
        match &self.command {
            Command::Run(args) => run::run(args),
            Command::Switch(args) => switch::run(args),
            Command::Trace(args) => trace::run(args),
            Command::Top(args) => top::run(args),
            Command::Read(args) => read::run(args),
            Command::Write(args) => write::run(args),
            Command::Check(args) => check::run(args),
            Command::Flatten(args) => flatten::run(args),
            Command::Graph(args) => graph::run(args),
            Command::Elements(args) => elements::run(args),
            Command::Click(args) => Ok(click::run(args)),
            Command::Demo(args) => demo::run(args),
            Command::Devices(args) => devices::run(args),
            Command::Classify(args) => classify::run(args),
            Command::Explain(args) => explain::run(args),
            Command::Ids(args) => ids::run(args),
            Command::Rules(command) => command.run(),
            Command::Generate(command) => command.run(),
            Command::Bench(command) => command.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use warpswitch_classify::Engine;
    use warpswitch_rules::format::RulesFormat;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_names_every_engine_and_format() {
        let lines: Vec<&str> = EXTRA.lines().map(str::trim_start).collect();
        let names = Engine::ALL.map(Engine::name).into_iter();
        for name in names.chain(RulesFormat::ALL.map(RulesFormat::name)) {
            let told = lines.iter().any(|line| line.split(' ').next() == Some(name));
            assert!(told, "{name} is not in the help");
        }
    }
}
