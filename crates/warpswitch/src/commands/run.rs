//! `warpswitch run`: runs a configuration.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use clap::Args;
use warpswitch_graph::{Ended, Router, Time};

use crate::args::parse_seed;
use crate::drive::config::{self, ConfigText, Libraries, parse_variable};
use crate::drive::offload::{self, OffloadArgs, Offloading};
use crate::drive::place::Place;
use crate::drive::stats::{self, RunStats};
use crate::drive::trace::TraceArgs;
use crate::drive::{Clock, DriveHost, Reload, World};
use crate::exit::Outcome;
use crate::output::{print, print_json};
use crate::{term, threads};

const LONG_ABOUT: &str = "\
Run a configuration. It ends when an element or a script stops it, when nothing is left that could \
happen, or with INT, TERM or HUP; a second one ends it at once. What the configuration prints goes \
to the standard output, what it has to say to the standard error stream.

If packets stand somewhere at the end, in a queue for instance, it says where. With --trace it \
ends with the ways of some packets: the elements that each came to with its input and output \
there, what these made of it, and which element dropped it and why, sent it or still holds it. \
What is made of a packet, as copies, fragments and ICMP errors, has a way of its own.

Lookups of routes and rules can be done ahead, on a device: --offload says when. What leaves is \
the same, in the same order. A run that ends with --stats tells what ran where.

With --control others read and write its handlers while it runs: 'warpswitch top' shows what each \
element does, and any client of Click's ControlSocket may connect. The run then goes on when \
nothing is left to do, as somebody may still ask. Whoever can connect can stop it: a PORT alone is \
open to this machine only.";

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

    /// End with a table of what each element did
    #[arg(long)]
    stats: bool,

    /// The same of all elements as JSON, on the standard output; what elements print then goes to
    /// the standard error stream
    #[arg(long, conflicts_with = "stats")]
    json: bool,

    /// Simulate time: nothing waits, and every run is the same
    #[arg(long)]
    simtime: bool,

    #[command(flatten)]
    trace: TraceArgs,

    #[command(flatten)]
    offload: OffloadArgs,

    /// Await control connections at a TCP port or a path
    #[arg(long, value_name = "[HOST:]PORT|PATH", value_parser = Place::parse)]
    control: Option<Place>,

    /// Workers: threads, each on a core of its own; what they share docs/workers.md tells
    #[arg(short = 'j', long, visible_alias = "threads", value_name = "N", default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,

    /// Seeds random choices
    #[arg(long, value_name = "SEED", value_parser = parse_seed, default_value = "1")]
    seed: u64,
}

/// Runs the command.
///
/// # Errors
/// Bad input, with every error; what could not be finished.
pub fn run(args: &RunArgs) -> anyhow::Result<Outcome> {
    let text = config::read(&args.config)?;
    let world = World::new()?;
    if args.json {
        world.print_aside();
    }
    let clock = if args.simtime { Clock::simulated(None) } else { Clock::real() };
    world.set_clock(&clock);
    let counts_costs = args.stats || args.json || args.control.is_some();
    let mut reload = Reload {
        registry: warpswitch_offload::registry(),
        variables: args.variables.iter().cloned().collect(),
        libraries: Libraries::new(None),
        appendix: String::new(),
        seed: args.seed,
        ticks: counts_costs.then_some(stats::ticks as fn() -> u64),
    };
    let mut offloading = Offloading::new(&args.offload, args.simtime);
    let mut router = make(&mut reload, &text, &mut offloading, &world, clock.now())?;
    args.trace.begin(&mut router)?;
    threads::staff(&mut router, args.workers as usize);
    if args.simtime && args.workers > 1 {
        term::warning("in simulated time one worker runs: every run is the same");
    }
    if let Some(place) = &args.control {
        let open = place.listen(&world)?;
        term::note(format!("'warpswitch top {open}' shows what it does"));
    }
    let mut host = DriveHost::new(world.clone(), clock, false, None);
    let start = Instant::now();
    let ended = router.run(&mut host);
    let seconds = start.elapsed().as_secs_f64();
    let finished = router.finish();
    world.flush();
    let ended = match ended {
        _ if host.interrupted => "interrupted",
        Ended::Idle => "nothing left to do",
        _ => "stopped",
    };
    report(args, &mut router, &offloading, ended, seconds)?;
    if let Err(errors) = finished {
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

/// A router of `text`, with lookups ahead where that is asked for. Should that not be possible, and
/// nobody insists, one without.
fn make(
    reload: &mut Reload,
    text: &ConfigText,
    offloading: &mut Offloading,
    world: &Rc<World>,
    now: Time,
) -> anyhow::Result<Router> {
    let mut unset = Vec::new();
    let mut load = |offloading: Option<&mut Offloading>| {
        let options = reload.options(world, now);
        let Reload { registry, variables, libraries, .. } = &mut *reload;
        let mut loaded = config::load(text, registry, variables, libraries)
            .map_err(|errors| config::blame(text, errors))?;
        let warnings = std::mem::take(&mut loaded.warnings);
        if let Some(offloading) = offloading {
            // Before anything fails because of a name that was not written as in the text.
            config::warn_of_unused(&loaded.graph, variables);
            unset = config::unset_variables(&loaded.graph);
            offloading.apply(&mut loaded, registry)?;
            world.offload_to(offloading.offload());
            if !warnings.is_empty() {
                term::note(warnings.to_coloured().trim_end());
            }
        }
        Router::new(loaded, registry, options).map_err(anyhow::Error::new)
    };
    let made = load(Some(offloading));
    let made = match made {
        Err(errors) if offloading.is_optional() => {
            world.offload_to(None);
            let router = load(None);
            if router.is_ok() {
                term::note(format!("nothing is offloaded: {errors:#}"));
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
    ended: &'static str,
    seconds: f64,
) -> anyhow::Result<()> {
    let standing = stats::render_standing(router);
    if !standing.is_empty() {
        term::note(standing.trim_end());
    }
    let gather = |router: &mut Router| RunStats {
        offload: offloading.stats(router),
        trace: args.trace.to_json(router),
        ..stats::gather(router, ended, seconds)
    };
    if !args.json {
        let trace = args.trace.render(router);
        print(&trace)?;
        if args.stats && !trace.is_empty() {
            print("\n")?;
        }
    }
    if args.stats {
        let stats = gather(router);
        print(&stats::render(&stats))?;
        if let Some(stats) = &stats.offload {
            print(&offload::render(stats))?;
        }
    } else if args.json {
        print_json(&gather(router))?;
    }
    Ok(())
}
