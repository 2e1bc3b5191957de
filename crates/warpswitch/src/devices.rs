//! Engines by name, wherever they run: `turbo` on the cores, `gpu:turbo` on a card, `host:turbo`
//! on a device that is a pool of threads.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use warpswitch_classify::{BuildOptions, Engine};
use warpswitch_gpu::cache::KernelCache;
use warpswitch_gpu::host::HostPool;
use warpswitch_gpu::{Algorithm, Device, GpuError, engine};
use warpswitch_rules::Ruleset;

use crate::exit::bad_input;
use crate::load::{BuiltEngine, build_engine};
use crate::term;
use crate::threads::default_threads;

/// Where kernels run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first card.
    Gpu,
    /// A pool of threads, one for each core.
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
        match self {
            Self::Gpu => {
                let cache = cache_folder().map(KernelCache::at);
                Device::open_card(0, cache).map_err(|missing| {
                    let remedy = missing.kind().remedy();
                    bad_input(format!(
                        "no card can be used: {missing}\n  to have one: {remedy}\n  \
                         'warpswitch devices' shows what is there; 'host:NAME' needs no card"
                    ))
                })
            }
            Self::Host => {
                let pool = HostPool::new(default_threads(), &mut |worker| {
                    // The pool ends its threads when it goes.
                    _ = thread::spawn(worker);
                });
                Ok(Device::from_pool(pool))
            }
        }
    }
}

/// An engine and where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineChoice {
    /// On the calling threads.
    Cpu(Engine),
    /// On a device.
    On(DeviceChoice, Algorithm),
}

impl EngineChoice {
    /// Every choice.
    pub fn all() -> Vec<Self> {
        let mut all: Vec<Self> = Engine::ALL.map(Self::Cpu).into();
        for device in DeviceChoice::ALL {
            all.extend(Algorithm::ALL.map(|algorithm| Self::On(device, algorithm)));
        }
        all
    }

    /// The name that commands use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu(engine) => engine.name(),
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

    /// Opens the place where it runs.
    ///
    /// # Errors
    /// What is missing for a card.
    pub fn open(self) -> anyhow::Result<OpenEngine> {
        Ok(match self {
            Self::Cpu(engine) => OpenEngine::Cpu(engine),
            Self::On(device, algorithm) => OpenEngine::On(device.open()?, algorithm),
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
#[derive(Debug)]
pub enum OpenEngine {
    /// On the calling threads.
    Cpu(Engine),
    /// On a device.
    On(Arc<Device>, Algorithm),
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
                Ok(BuiltEngine { classifier, build_time: start.elapsed() })
            }
        }
    }

    /// Tells that a device failed on the way, if so: the answers are right all the same.
    pub fn warn_if_retired(&self) {
        if let Self::On(device, _) = self
            && let Some(cause) = device.retired()
        {
            term::warning(format!(
                "{} failed ({cause}); from then on the host answered",
                device.name()
            ));
        }
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
}
