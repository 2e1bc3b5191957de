//! `warpswitch click`, and this program under the name `click`: Click's command line.
//!
//! Scripts that run Click run unchanged: options, messages, what goes to which stream and exit
//! codes are Click's.

pub mod flatten;
mod handlers;
mod options;
mod words;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use clap::Args;
use warpswitch_graph::{Router, Time};
use warpswitch_runtime::config::{ConfigText, Libraries, make_router};
use warpswitch_runtime::{Environment, RouterFactory, RunClock, SystemHost};

use crate::exit::Outcome;
use crate::kit;
use crate::threads;
use options::{Config, Options, Tells};

const HELP: &str = "\
Runs a configuration in the Click language. It installs the configuration, reports errors to the
standard error stream, and then usually runs until interrupted.

Usage: click [OPTION]... [ROUTERFILE] [NAME=VALUE]...

Options:
  -f, --file FILE               Read the configuration from FILE (default: standard input).
  -e, --expression EXPR         Use EXPR as configuration.
  -p, --port PORT               Listen for control connections on a TCP port (PORT+: or above).
  -u, --unix-socket FILE        Listen for control connections on a Unix socket.
  -R, --allow-reconfigure       Provide a writable 'hotconfig' handler.
  -h, --handler ELEMENT.H       Print the value of read handler H after the run.
  -x, --exit-handler ELEMENT.H  Use the value of read handler H as exit status.
  -o, --output FILE             Write the flat configuration to FILE.
  -q, --quit                    Do not run.
  -t, --time                    Print how long the run took.
  -w, --no-warnings             Do not print warnings.
  -j, --threads N               Workers that run the configuration (default 1).
  -a, --affinity[=N]            Pin workers to cores, the first to core N (default 0).
      --simtime[=SECONDS]       Run in simulated time.
  -C, --clickpath PATH          Use PATH for CLICKPATH.
      --help                    Print this and exit.
  -v, --version                 Print the version and exit.
";

/// Accept Click's own command line: 'warpswitch click --help'
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct ClickArgs {
    /// Options and configuration of Click
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Runs the command. The program sees to it before it reads its own command line; this is for
/// options of its own that stand before it.
pub fn run(args: &ClickArgs) -> Outcome {
    match main(&args.args) == ExitCode::SUCCESS {
        true => Outcome::Done,
        false => Outcome::Failed,
    }
}

/// Runs Click's command line.
pub fn main(args: &[OsString]) -> ExitCode {
    let options = match options::parse(args) {
        Ok(options) => options,
        Err(error) => {
            complain(&error);
            complain("Usage: click [OPTION]... [ROUTERFILE]");
            complain("Try 'click --help' for more information.");
            return ExitCode::from(1);
        }
    };
    match options.tells {
        Some(Tells::Help) => print(HELP),
        Some(Tells::Version) => {
            print(&format!("click (warpswitch) {}\n", env!("CARGO_PKG_VERSION")));
        }
        None => return ExitCode::from(drive(options)),
    }
    ExitCode::SUCCESS
}

fn complain(line: &str) {
    _ = writeln!(std::io::stderr().lock(), "{line}");
}

fn print(text: &str) {
    _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// The configuration that was named.
fn read_config(config: Option<&Config>) -> Result<ConfigText, String> {
    match config {
        Some(Config::Text(text)) => {
            let bytes = text.as_encoded_bytes().to_vec();
            Ok(ConfigText { name: String::new(), bytes })
        }
        other => {
            let path = match other {
                Some(Config::File(path)) => path.clone(),
                _ => "-".into(),
            };
            ConfigText::read(Path::new(&path)).map_err(|error| {
                let cause = error.to_string();
                let cause = cause.split(" (os error").next().unwrap_or_default().to_owned();
                format!("{}: {cause}", path.to_string_lossy())
            })
        }
    }
}

/// Loads, runs, reads handlers; the exit code.
fn drive(options: Options) -> u8 {
    options.complaints.iter().for_each(|line| complain(line));
    let text = match read_config(options.config.as_ref()) {
        Ok(text) => text,
        Err(error) => {
            complain(&error);
            return 1;
        }
    };
    let environment = match Environment::of_process() {
        Ok(environment) => environment,
        Err(error) => {
            complain(&format!("signals: {error}"));
            return 1;
        }
    };
    let mut factory = RouterFactory {
        registry: kit::registry().in_click_order(),
        variables: options.variables.clone(),
        libraries: Libraries::new(options.click_path.as_deref()),
        appendix: options.control_sockets(),
        seed: 1,
        ticks: None,
    };
    let clock = options.simulated.map_or_else(RunClock::real, RunClock::simulated);
    environment.set_clock(&clock);
    let text = factory.text(&text.name, &text.bytes);
    let Some(mut router) = make(&mut factory, &text, &options, &environment, clock.now()) else {
        return 1;
    };
    let mut code = 0;
    if let Some(path) = &options.output
        && let Err(error) = write_flat(&router, path, &environment)
    {
        complain(&format!("{path}: {error}"));
        code = 1;
    }
    let factory = options.reconfigures.then_some(factory);
    run_router(&mut router, &options, &text, &environment, clock, factory);
    if let Err(errors) = router.finish() {
        environment.message(&errors.to_click());
        code = 1;
    }
    if !handlers::print_all(&mut router, &options.handlers, &environment) {
        code = 1;
    }
    environment.flush();
    match &options.exit_handler {
        Some(handler) => handlers::exit_code(&mut router, handler, &environment),
        None => code,
    }
}

fn make(
    factory: &mut RouterFactory,
    text: &ConfigText,
    options: &Options,
    environment: &Rc<Environment>,
    now: Time,
) -> Option<Router> {
    let router_options = factory.options(environment, now);
    let RouterFactory { registry, variables, libraries, .. } = factory;
    match make_router(text, registry, variables, libraries, router_options) {
        Ok((mut router, warnings)) => {
            if !options.no_warnings && !warnings.is_empty() {
                environment.message(&warnings.to_click());
            }
            // Click's own limit of threads is 256; here cores are what counts.
            let workers = options.threads.unwrap_or(1).clamp(1, 64) as usize;
            if let Some(first) = options.affinity {
                threads::begin_at(first);
                threads::pin(0);
            }
            threads::use_workers(&mut router, workers);
            Some(router)
        }
        Err(errors) => {
            environment.message(&errors.to_click());
            None
        }
    }
}

fn run_router(
    router: &mut Router,
    options: &Options,
    text: &ConfigText,
    environment: &Rc<Environment>,
    clock: RunClock,
    factory: Option<RouterFactory>,
) {
    let start = (Instant::now(), cpu_seconds());
    if !options.quits {
        if !router.graph().elements.is_empty() {
            // As Click it waits for a signal should nothing be left to do, but for simulated time,
            // in which nothing can ever happen then.
            let stays = options.simulated.is_none();
            router.run(&mut SystemHost::new(environment.clone(), clock, stays, factory));
        } else if !options.no_warnings {
            let name = if text.name.is_empty() { "config" } else { &text.name };
            environment
                .message(&format!("{name}: warning: configuration has no elements, exiting"));
        }
    }
    if options.tells_time {
        let (user, system) = cpu_seconds();
        let (user, system) = (user - start.1.0, system - start.1.1);
        let took = start.0.elapsed().as_secs_f64();
        let (minutes, seconds) = ((took / 60.0).floor(), took % 60.0);
        environment.print(format!("{user:.3}u {system:.3}s {minutes}:{seconds:05.2}\n").as_bytes());
    }
}

/// Processor time of this process, its own and the system's, as far as the system reports it.
fn cpu_seconds() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program may hold anything, and ends with the last parenthesis.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut next = || fields.next().and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (next() / 100.0, next() / 100.0)
}

fn write_flat(router: &Router, path: &str, environment: &Environment) -> std::io::Result<()> {
    let text = warpswitch_graph::language::flatten(router.graph());
    match path {
        "-" => {
            environment.print(text.as_bytes());
            Ok(())
        }
        path => std::fs::write(path, text),
    }
}
