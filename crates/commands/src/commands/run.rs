//! `warpswitch run`: runs a configuration.

use std::path::PathBuf;
use std::rc::Rc;

use clap::Args;
use warpswitch_graph::{Router, Time};
use warpswitch_runtime::config::{ConfigText, Libraries, load, parse_variable, unset_variables};
use warpswitch_runtime::{
    ControlAddress, Environment, RouterFactory, RunClock, RunEnd, RunStats, SystemHost, ticks,
};

use crate::args::{parse_range, parse_seed};
use crate::drive::config;
use crate::drive::offload::{self, OffloadArgs, Offloading};
use crate::drive::stats::{self, RunReport};
use crate::drive::trace::TraceArgs;
use crate::exit::Outcome;
use crate::kit;
use crate::output::{print, print_json};
use crate::{term, threads};

const LONG_ABOUT: &str = "\
Run a configuration. The run ends when an element or a script stops it, when no work is left, or \
on INT, TERM or HUP; a second signal ends it at once. Output of the configuration goes to the \
standard output, its warnings and errors to the standard error stream.

If elements still hold packets at the end, a queue for example, their number and location are \
reported. --trace prints the paths of some packets at the end: each element visited with its input \
and output port there, the packets that it created, and the element that dropped the packet (with \
the reason), sent it or still holds it. Packets created from another packet, such as copies, \
fragments and ICMP errors, have paths of their own.

--offload moves lookups of routes and rules and payload searches to a device. The output is the \
same, but packets of different sources may interleave differently. --stats shows where each lookup \
ran.

With --control, clients can read and write handlers during the run: 'warpswitch top' shows the \
activity of each element, and any client of Click's ControlSocket may connect. The run then \
continues when no work is left, because clients may still connect. Any connected client can stop \
it; a PORT alone accepts only connections from this machine.";

const EXAMPLES: &str = "\
Examples:
  echo 'InfiniteSource(LIMIT $N) -> c :: Counter -> Discard' > count.click
  warpswitch run count.click N=1000 --stats
  warpswitch run count.click N=1000 --json
  warpswitch run count.click N=1000 --trace 3
  warpswitch run count.click N=1000 --offload always --device host
  echo 'Script(wait 1h, print $(now), stop)' | warpswitch run - --simtime";

/// Run a configuration
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct RunArgs {
    /// Configuration in the Click language; '-' is the standard input
    #[arg(value_name = "CONF")]
    config: PathBuf,

    /// Variables of the configuration
    #[arg(value_name = "V=x", value_parser = parse_variable)]
    variables: Vec<(String, String)>,

    /// Print per-element statistics at the end
    #[arg(long)]
    stats: bool,

    /// Print the statistics as JSON to the standard output; output of elements then goes to the
    /// standard error stream
    #[arg(long, conflicts_with = "stats")]
    json: bool,

    /// Use simulated time: timers do not wait, and runs are reproducible
    #[arg(long)]
    simtime: bool,

    #[command(flatten)]
    trace: TraceArgs,

    #[command(flatten)]
    offload: OffloadArgs,

    /// Listen for control connections on a TCP port or a Unix socket path
    #[arg(long, value_name = "[HOST:]PORT|PATH", value_parser = ControlAddress::parse)]
    control: Option<ControlAddress>,

    /// Accept a new configuration by the handler 'hotconfig'; it is not offloaded
    #[arg(long, requires = "control")]
    allow_reconfigure: bool,

    /// Worker threads, each on its own core; docs/workers.md describes what they share
    #[arg(short = 'j', long, visible_alias = "threads", value_name = "N", default_value = "1",
          value_parser = parse_range::<u32>(1, 64))]
    workers: u32,

    /// Seed of the random generator
    #[arg(long, value_name = "SEED", value_parser = parse_seed, default_value = "1")]
    seed: u64,
}

/// Runs the command.
///
/// # Errors
/// Bad input, with every error; what could not be finished.
pub fn run(args: &RunArgs) -> anyhow::Result<Outcome> {
    let text = config::read(&args.config)?;
    let environment = Environment::of_process()?;
    if args.json {
        environment.merge_output();
    }
    let clock = if args.simtime { RunClock::simulated(None) } else { RunClock::real() };
    environment.set_clock(&clock);
    let counts_costs = args.stats || args.json || args.control.is_some();
    let mut factory = RouterFactory {
        registry: kit::registry(),
        variables: args.variables.iter().cloned().collect(),
        libraries: Libraries::new(None),
        appendix: String::new(),
        seed: args.seed,
        ticks: counts_costs.then_some(ticks as fn() -> u64),
    };
    let mut offloading = Offloading::new(&args.offload, args.simtime);
    let mut router = make(&mut factory, &text, &mut offloading, &environment, clock.now())?;
    args.trace.begin(&mut router)?;
    threads::use_workers(&mut router, args.workers as usize);
    if args.simtime && args.workers > 1 {
        term::warning(
            "with --simtime one worker runs, so that every run is the same: --workers is ignored",
        );
    }
    if let Some(address) = &args.control {
        let open = address.listen(&environment)?;
        term::note(format!("to watch the router: warpswitch top {open}"));
    }
    let factory = args.allow_reconfigure.then_some(factory);
    let run = SystemHost::new(environment, clock, false, factory).run(&mut router);
    report(args, &mut router, &offloading, run.end, run.seconds)?;
    if let Err(errors) = run.finished {
        term::note(errors.to_coloured().trim_end());
        return Ok(Outcome::Failed);
    }
    let lost = router.packets_unaccounted();
    if lost != 0 {
        term::error(&anyhow::anyhow!("{lost} packets are not accounted for: this is a bug"));
        return Ok(Outcome::Failed);
    }
    Ok(Outcome::Done)
}

/// A router of `text`, with lookups ahead where requested. Should that not be possible, and
/// nobody insists, one without.
fn make(
    factory: &mut RouterFactory,
    text: &ConfigText,
    offloading: &mut Offloading,
    environment: &Rc<Environment>,
    now: Time,
) -> anyhow::Result<Router> {
    let mut unset = Vec::new();
    let mut build = |offloading: Option<&mut Offloading>| {
        let options = factory.options(environment, now);
        let RouterFactory { registry, variables, libraries, .. } = &mut *factory;
        let mut loaded = load(text, registry, variables, libraries)
            .map_err(|errors| config::blame(text, errors))?;
        let warnings = std::mem::take(&mut loaded.warnings);
        if let Some(offloading) = offloading {
            // Before anything fails because of a name that was not written as in the text.
            config::warn_of_unused(&loaded.graph, variables);
            unset = unset_variables(&loaded.graph);
            offloading.apply(&mut loaded, registry)?;
            environment.set_device(offloading.offload().map(|offload| offload as _));
            if !warnings.is_empty() {
                term::note(warnings.to_coloured().trim_end());
            }
        }
        Router::new(loaded, registry, options).map_err(anyhow::Error::new)
    };
    let made = build(Some(offloading));
    let made = match made {
        Err(errors) if offloading.is_optional() => {
            environment.set_device(None);
            let router = build(None);
            if router.is_ok() {
                term::note(format!("offload disabled: {errors:#}"));
                offloading.give_up();
            }
            router
        }
        made => made.inspect(|_| offloading.tell()),
    };
    config::warn_of_unset(unset, made.as_ref().err().map(|errors| format!("{errors:#}")));
    made
}

fn report(
    args: &RunArgs,
    router: &mut Router,
    offloading: &Offloading,
    ended: RunEnd,
    seconds: f64,
) -> anyhow::Result<()> {
    let standing = stats::render_standing(router);
    if !standing.is_empty() {
        term::note(standing.trim_end());
    }
    let gather = |router: &mut Router| RunReport {
        offload: offloading.stats(router),
        trace: args.trace.to_json(router),
        run: RunStats::gather(router, ended, seconds),
    };
    if !args.json {
        let trace = args.trace.render(router);
        print(&trace)?;
        if args.stats && !trace.is_empty() {
            print("\n")?;
        }
    }
    if args.stats {
        let report = gather(router);
        print(&stats::render(&report.run))?;
        if let Some(stats) = &report.offload {
            print(&offload::render(stats))?;
        }
    } else if args.json {
        print_json(&gather(router))?;
    }
    Ok(())
}
