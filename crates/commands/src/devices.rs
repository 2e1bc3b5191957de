//! Engines by name, wherever they run: `turbo` on the cores, `gpu:turbo` on a card, `host:turbo`
//! on a device that is a pool of threads, `auto` on cores or card, batch by batch.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use warpswitch_classify::{BuildOptions, Classifier, Engine};
use warpswitch_gpu::auto::{AutoEngine, AutoOptions};
use warpswitch_gpu::cache::KernelCache;
use warpswitch_gpu::deadline::Deadline;
use warpswitch_gpu::host::{FaultPlan, HostPool};
use warpswitch_gpu::resident::{ResidentChoice, ResidentUse};
use warpswitch_gpu::{Algorithm, Device, GpuError, engine};
use warpswitch_pipeline::TableEngines;
use warpswitch_rules::Ruleset;

use crate::args::parse_positive;
use crate::auto::Auto;
use crate::exit::bad_input;
use crate::load::{BuiltEngine, build_engine};
use crate::term;
use crate::threads::default_threads;

/// Where kernels run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DeviceChoice {
    /// The first GPU
    #[default]
    Gpu,
    /// A thread pool, one thread per core
    Host,
}

impl DeviceChoice {
    /// Every choice.
    pub const ALL: [Self; 2] = [Self::Gpu, Self::Host];

    /// The name before the colon.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Host => "host",
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// What is missing for a card, as the user's request that cannot be met.
    pub fn open(self) -> anyhow::Result<Arc<Device>> {
        self.open_by(&DeviceArgs::default())
    }

    /// The same by these arguments.
    ///
    /// # Errors
    /// As [`DeviceChoice::open`].
    pub fn open_by(self, args: &DeviceArgs) -> anyhow::Result<Arc<Device>> {
        self.open_with(args).map_err(|missing| no_card(missing, POOL_BY_DEVICE))
    }

    /// Opens it as [`DeviceChoice::open`] does, by these arguments.
    ///
    /// # Errors
    /// What is missing for a card.
    pub fn open_as(self, args: &DeviceArgs) -> Result<Arc<Device>, GpuError> {
        self.open_with(args)
    }

    /// Opens it and sets its deadline.
    fn open_with(self, args: &DeviceArgs) -> Result<Arc<Device>, GpuError> {
        let device = match self {
            Self::Gpu => Device::open_card(0, cache_folder().map(KernelCache::at))?,
            Self::Host => {
                let mut start = |worker| {
                    // The pool ends its threads when it goes.
                    _ = thread::spawn(worker);
                };
                let faults = args.host_hangs_at.map(|first_batch| FaultPlan {
                    first_batch,
                    hang_chance: 1.0,
                    ..FaultPlan::default()
                });
                Device::from_pool(HostPool::with_faults(default_threads(), faults, &mut start))
            }
        };
        // Threads of a pool do not hang, they have no core: only who asks gives them a deadline.
        let asked = args.hang_after_ms.map(|ms| Duration::from_millis(ms as u64));
        let slack = asked.or((self == Self::Gpu).then_some(Deadline::SLACK));
        if let Some(slack) = slack {
            device.set_deadline(Deadline { slack, now });
        }
        if let Some(choice) = args.resident.choice(self) {
            device.set_resident_use(ResidentUse { choice, now });
        }
        Ok(device)
    }
}

/// The time since the first look at it.
pub fn now() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// When a resident GPU kernel looks small batches up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ResidentArg {
    /// Where that costs less, on a GPU
    #[default]
    Auto,
    /// Never: the program is started for each batch
    Never,
    /// For all batches of up to 2048 packets
    Always,
}

impl ResidentArg {
    /// The choice for a device; `None` for launches. A pool of threads imitates the kernel on
    /// request only.
    fn choice(self, device: DeviceChoice) -> Option<ResidentChoice> {
        match (self, device) {
            (Self::Always, _) => Some(ResidentChoice::Always),
            (Self::Auto, DeviceChoice::Gpu) => Some(ResidentChoice::Auto),
            (Self::Auto, DeviceChoice::Host) | (Self::Never, _) => None,
        }
    }
}

/// How devices are used.
#[derive(Args, Clone, Debug, Default)]
pub struct DeviceArgs {
    /// Milliseconds beyond twice the expected batch time after which a device is considered hung
    /// and the CPU takes over [default: 10 for a GPU, none for host]
    #[arg(long, value_name = "MS", value_parser = parse_positive)]
    pub hang_after_ms: Option<usize>,

    /// Maximum time of a batch with '--engine auto', such as 100us or 2ms; longer batches are split
    #[arg(long, alias = "delay", value_name = "TIME", value_parser = parse_time)]
    pub delay_max: Option<Duration>,

    /// When small batches go to a GPU program that keeps running, which saves starting one for each
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub resident: ResidentArg,

    /// Batch from which on the thread pool stops responding, for tests of the fallback
    #[arg(long, value_name = "N", hide = true)]
    pub host_hangs_at: Option<u64>,
}

/// Packets that a switch looks up together where a device may do it.
const DEVICE_BURST_LEN: usize = 8192;

/// An engine and where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineChoice {
    /// On the calling threads.
    Cpu(Engine),
    /// On a device.
    On(DeviceChoice, Algorithm),
    /// On the calling threads or on a device, batch by batch.
    Auto(DeviceChoice),
}

impl EngineChoice {
    /// Every choice.
    pub fn all() -> Vec<Self> {
        let mut all: Vec<Self> = Engine::ALL.map(Self::Cpu).into();
        for device in DeviceChoice::ALL {
            all.extend(Algorithm::ALL.map(|algorithm| Self::On(device, algorithm)));
        }
        all.extend([Self::Auto(DeviceChoice::Gpu), Self::Auto(DeviceChoice::Host)]);
        all
    }

    /// The name that commands use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu(engine) => engine.name(),
            Self::Auto(DeviceChoice::Gpu) => "auto",
            Self::Auto(DeviceChoice::Host) => "auto:host",
            Self::On(DeviceChoice::Gpu, Algorithm::Linear) => "gpu:linear",
            Self::On(DeviceChoice::Gpu, Algorithm::Tuple) => "gpu:tuple",
            Self::On(DeviceChoice::Gpu, Algorithm::Bloom) => "gpu:bloom",
            Self::On(DeviceChoice::Gpu, Algorithm::MaskHash) => "gpu:maskhash",
            Self::On(DeviceChoice::Gpu, Algorithm::Turbo) => "gpu:turbo",
            Self::On(DeviceChoice::Host, Algorithm::Linear) => "host:linear",
            Self::On(DeviceChoice::Host, Algorithm::Tuple) => "host:tuple",
            Self::On(DeviceChoice::Host, Algorithm::Bloom) => "host:bloom",
            Self::On(DeviceChoice::Host, Algorithm::MaskHash) => "host:maskhash",
            Self::On(DeviceChoice::Host, Algorithm::Turbo) => "host:turbo",
        }
    }

    /// Opens the device. A missing GPU is a warning for `auto`.
    ///
    /// # Errors
    /// What is missing for a card; options that mean nothing to the engine.
    pub fn open(self, args: &DeviceArgs) -> anyhow::Result<OpenEngine> {
        if args.delay_max.is_some() && !matches!(self, Self::Auto(_)) {
            let message = "--delay-max requires '--engine auto', which chooses the batch length";
            return Err(bad_input(message.to_owned()));
        }
        Ok(match self {
            Self::Cpu(engine) => OpenEngine::Cpu(engine),
            Self::On(device, algorithm) => OpenEngine::On(
                device.open_with(args).map_err(|missing| no_card(missing, POOL_BY_ENGINE))?,
                algorithm,
            ),
            Self::Auto(device) => {
                let opened = device.open_with(args).inspect_err(|missing| {
                    term::warning(format!("no usable GPU ({missing}); using the CPU"));
                });
                OpenEngine::Auto(opened.ok(), args.delay_max)
            }
        })
    }
}

impl fmt::Display for EngineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Accepts the names of engines, those on devices too.
pub fn choice_parser() -> impl TypedValueParser<Value = EngineChoice> {
    let names: Vec<&str> = EngineChoice::all().into_iter().map(EngineChoice::name).collect();
    PossibleValuesParser::new(names).map(|name| {
        let known = EngineChoice::all().into_iter().find(|choice| choice.name() == name);
        known.expect("only these names are accepted")
    })
}

/// An engine whose device is open.
#[derive(Clone, Debug)]
pub enum OpenEngine {
    /// On the calling threads.
    Cpu(Engine),
    /// On a device.
    On(Arc<Device>, Algorithm),
    /// Batch by batch, on a device if there is one; how long a batch may take.
    Auto(Option<Arc<Device>>, Option<Duration>),
}

impl OpenEngine {
    /// Builds it over rules.
    ///
    /// # Errors
    /// If the structure would pass the bound in `options`, or the device cannot take it.
    pub fn build(&self, ruleset: &Ruleset, options: &BuildOptions) -> anyhow::Result<BuiltEngine> {
        match self {
            Self::Cpu(engine) => build_engine(*engine, ruleset, options),
            Self::On(device, algorithm) => {
                let start = Instant::now();
                let classifier = engine::build(device, *algorithm, ruleset, options)
                    .with_context(|| format!("cannot build '{algorithm}'"))?;
                if let Some(cause) = device.retired() {
                    return Err(unusable(device, cause));
                }
                Ok(BuiltEngine { classifier, build_time: start.elapsed(), auto: None })
            }
            Self::Auto(device, delay) => {
                let start = Instant::now();
                let auto = AutoOptions { delay_max: *delay, now };
                let engine = AutoEngine::build(device.as_ref(), ruleset, options, auto)
                    .context("cannot build 'turbo' for cores and device")?;
                let auto = Some(Auto { policy: engine.policy(), piece_len: engine.piece_len() });
                let classifier = Box::new(engine);
                Ok(BuiltEngine { classifier, build_time: start.elapsed(), auto })
            }
        }
    }

    /// As engines for the tables of an OpenFlow switch, which look up longer bursts where a device
    /// may take them.
    pub fn for_tables(&self) -> TableEngines {
        let burst_len = match self {
            Self::Cpu(_) | Self::Auto(None, _) => TableEngines::default().burst_len(),
            Self::On(..) | Self::Auto(Some(_), _) => DEVICE_BURST_LEN,
        };
        let engine = self.clone();
        let build = move |ruleset: &Ruleset, options: &BuildOptions| match &engine {
            Self::Cpu(engine) => warpswitch_classify::build(*engine, ruleset, options),
            Self::On(device, algorithm) => engine::build(device, *algorithm, ruleset, options),
            Self::Auto(device, delay) => {
                let auto = AutoOptions { delay_max: *delay, now };
                let engine = AutoEngine::build(device.as_ref(), ruleset, options, auto)?;
                Ok(Box::new(engine) as Box<dyn Classifier>)
            }
        };
        TableEngines::new(Arc::new(build), burst_len)
    }

    /// Warns if a device failed during the run; the results are correct all the same.
    pub fn warn_if_retired(&self) {
        if let Self::On(device, _) | Self::Auto(Some(device), _) = self
            && let Some(cause) = device.retired()
        {
            term::warning(format!(
                "{} failed ({cause}); the CPU processed all later batches",
                device.name()
            ));
        }
    }
}

/// How commands that have engines, devices or `--offload` name a pool of threads.
pub const POOL_BY_ENGINE: &str = "--engine host:NAME";
/// See [`POOL_BY_ENGINE`].
pub const POOL_BY_DEVICE: &str = "--device host";
/// See [`POOL_BY_ENGINE`].
pub const POOL_BY_OFFLOAD: &str = "--offload always --device host";

/// That there is no card, as the user's request that cannot be met; `pool` is how the command names
/// what needs none.
pub fn no_card(missing: GpuError, pool: &str) -> anyhow::Error {
    let remedy = missing.kind().remedy();
    bad_input(format!(
        "no usable GPU: {missing}\n  to fix: {remedy}\n  'warpswitch devices' lists the devices \
         of this machine; a thread pool ('{pool}') needs no GPU"
    ))
}

/// A time, as 100us, 2ms or 1s.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(at);
    let number: u64 = digits.parse().map_err(|_| "expected a time, such as 100us".to_owned())?;
    match unit {
        "us" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        _ => Err("expected a time with its unit: us, ms or s".to_owned()),
    }
}

/// That a device cannot take an engine.
pub fn unusable(device: &Device, cause: &GpuError) -> anyhow::Error {
    let remedy = cause.kind().remedy();
    anyhow::anyhow!("{} cannot be used: {cause}\n  {remedy}", device.name())
}

/// Where compiled kernels are kept: a folder of ours among the user's caches.
fn cache_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(folder) = set("WARPSWITCH_CACHE") {
        return Some(folder.into());
    }
    let caches = set("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    Some(caches.join("warpswitch").join("kernels"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_choices() {
        let parser = choice_parser();
        let command = clap::Command::new("x");
        for choice in EngineChoice::all() {
            let parsed = parser.parse_ref(&command, None, choice.name().as_ref()).unwrap();
            assert_eq!(parsed, choice);
            if let EngineChoice::On(device, algorithm) = choice {
                assert_eq!(choice.name(), format!("{}:{algorithm}", device.name()));
            }
        }
        assert!(parser.parse_ref(&command, None, "gpu:hypercuts".as_ref()).is_err());
    }

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("100us"), Ok(Duration::from_micros(100)));
        assert_eq!(parse_time("2ms"), Ok(Duration::from_millis(2)));
        for text in ["", "7", "us", "-1ms", "1.5ms", "3min"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
