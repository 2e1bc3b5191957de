//! The command line as a whole.

use clap::{Parser, Subcommand};

use crate::commands::{
    bench, check, classify, click, demo, devices, elements, explain, flatten, generate, graph, ids,
    read, rules, run, top, write,
};
use crate::exit::Outcome;

const LONG_ABOUT: &str = "\
A software switch and packet processor. Packets pass through a graph of elements, written in the \
Click language: 'run', 'check', 'flatten', 'graph', 'elements', and 'top', 'read' and 'write' for \
one that runs. Packet classification, the search for the rule that wins for each packet among \
many that may match, also stands alone: 'classify', 'explain', 'rules'. So does intrusion \
detection: 'ids'. 'generate' makes rules, traffic and routes for all of them, and 'bench' \
measures them.

Start with 'warpswitch demo'. It needs nothing, takes ten seconds and shows what the rest is for.";

const EXTRA: &str = "\
Configurations (the Click language):
  elements, connections, compound elements, variables as in Click; '-' is the
  standard input. 'warpswitch click' takes Click's own command line, and so does
  the program under the name 'click'.

Rules (recognised by content, --rules-format overrules):
  classbench  ClassBench filter sets, IPv4 and IPv6; the first line wins
  ovs         ovs-ofctl flows: 'priority=10,tcp,nw_src=10.0.0.0/8,actions=drop'
  canonical   our own text, which holds every rule of every schema

Detection rules:
  those of Snort 2 and 3 and Suricata, for 'warpswitch ids'

Packets:
  traces of headers as text, ClassBench's and canonical; pcap and pcapng
  captures. Anything may be gzip'd, and '-' is the standard input.

Engines (they answer alike, bit for bit):
  linear       every rule in turn: the reference
  linear-simd  the same, sixteen rules at once
  tuple        a cuckoo hash table for each mask
  bloom        the same behind a Bloom filter for each mask
  maskhash     open addressing for each mask, by smallest rule index
  hypercuts    a decision tree that cuts several fields at once
  turbo        ours, the default: bucket tables walked for a batch at a time
  gpu:NAME     NAME's kernel on an NVIDIA card: linear, tuple, bloom, maskhash, turbo
  host:NAME    the same through a device that is a pool of threads

Exit codes:
  0  done
  1  failed: a wrong engine, unwritable output, a bound that was passed
  2  usage or bad input; nothing was written

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
#[command(name = "warpswitch", version, long_about = LONG_ABOUT, after_long_help = EXTRA)]
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
    /// Runs the command that the arguments name.
    ///
    /// # Errors
    /// Whatever the command met.
    pub fn run(&self) -> anyhow::Result<Outcome> {
        match self.color {
            Some(clap::ColorChoice::Always) => anstream::ColorChoice::Always.write_global(),
            Some(clap::ColorChoice::Never) => anstream::ColorChoice::Never.write_global(),
            Some(clap::ColorChoice::Auto) | None => {}
        }
        match &self.command {
            Command::Run(args) => run::run(args),
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
