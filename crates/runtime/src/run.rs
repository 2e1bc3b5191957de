//! Runs of embedded configurations: a builder, and a handle of the running thread.

use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder as ThreadBuilder, JoinHandle};
use std::time::Duration;

use warpswitch_graph::{Registry, Router};

use crate::clock::RunClock;
use crate::config::{ConfigText, LoadError, load, rules_instead, unused_variables};
use crate::control_address::ControlAddress;
use crate::environment::{Device, Environment};
use crate::error::{Error, ErrorKind};
use crate::host::SystemHost;
use crate::progress::{Progress, ProgressReporter};
use crate::reconfigure::RouterFactory;
use crate::requests::{HandlerResult, Request, RequestQueue, RequestSender, request_channel};
use crate::signals::StopSignals;
use crate::stats::{RunEnd, RunStats, ticks};
use crate::threads;

/// The limit of worker threads, the same as of `warpswitch run`.
const THREADS_MAX: usize = 64;

/// A configuration and how to run it.
///
/// The defaults are real time, one thread, seed 1, the standard streams, no control connections.
///
/// ```
/// use warpswitch_runtime::{ErrorKind, RunBuilder};
///
/// let run = RunBuilder::new(warpswitch_elements::registry()).text("Idle -> Discrd;").start();
/// let error = run.err().expect("the class does not exist");
/// assert_eq!(error.kind(), ErrorKind::Configuration);
/// assert!(error.to_string().contains("Discrd"));
/// ```
pub struct RunBuilder {
    factory: RouterFactory,
    config: Option<io::Result<ConfigText>>,
    threads: usize,
    is_simulated: bool,
    keeps_running: bool,
    allows_reconfigure: bool,
    stops: StopSignals,
    control: Option<ControlAddress>,
    device: Option<Device>,
    progress: Option<(Box<dyn Progress + Send>, Duration)>,
    output: Box<dyn Write + Send>,
    messages: Box<dyn Write + Send>,
}

impl RunBuilder {
    /// A run of elements of `registry`, such as `warpswitch_elements::registry()`.
    pub fn new(registry: Registry) -> Self {
        Self {
            factory: RouterFactory::new(registry),
            config: None,
            threads: 1,
            is_simulated: false,
            keeps_running: false,
            allows_reconfigure: false,
            stops: StopSignals::Leave,
            control: None,
            device: None,
            progress: None,
            output: Box::new(io::stdout()),
            messages: Box::new(io::stderr()),
        }
    }

    /// Runs this text.
    pub fn text(mut self, text: &str) -> Self {
        let text = ConfigText { name: "config".to_owned(), bytes: text.as_bytes().to_vec() };
        self.config = Some(Ok(text));
        self
    }

    /// Runs the text of a file; [`RunBuilder::start`] returns its read error.
    pub fn file(mut self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        self.config = Some(ConfigText::read(path).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))
        }));
        self
    }

    /// Sets the variable `$name` of the configuration.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.factory.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Runs with `threads` workers, each pinned to a core; at least 1, at most 64. In simulated
    /// time one worker runs.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.clamp(1, THREADS_MAX);
        self
    }

    /// Sets the seed of random choices.
    pub fn seed(mut self, seed: u64) -> Self {
        self.factory.seed = seed;
        self
    }

    /// Simulates time: timers expire at once, and runs are deterministic.
    pub fn simulated_time(mut self) -> Self {
        self.is_simulated = true;
        self
    }

    /// Counts bytes and nanoseconds per element, at a cost of two clock reads per batch.
    pub fn count_costs(mut self) -> Self {
        self.factory.ticks = Some(ticks);
        self
    }

    /// Keeps the run alive while it is idle, until it is stopped.
    pub fn keep_running(mut self) -> Self {
        self.keeps_running = true;
        self
    }

    /// Adds the handler `hotconfig`, which replaces the configuration.
    pub fn allow_reconfigure(mut self) -> Self {
        self.allows_reconfigure = true;
        self
    }

    /// Listens for control connections, as `warpswitch run --control` does.
    pub fn control(mut self, address: ControlAddress) -> Self {
        self.control = Some(address);
        self
    }

    /// Sets whether INT, TERM and HUP stop the run. The default leaves them to the program.
    pub fn stop_signals(mut self, stops: StopSignals) -> Self {
        self.stops = stops;
        self
    }

    /// Sets the device that elements offload work to.
    pub fn device(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }

    /// Reports progress at most once per `interval` while tasks run.
    pub fn on_progress(
        mut self,
        interval: Duration,
        progress: impl Progress + Send + 'static,
    ) -> Self {
        self.progress = Some((Box::new(progress), interval));
        self
    }

    /// Writes output of elements, such as `Print` to standard output, to `output`.
    pub fn output(mut self, output: impl Write + Send + 'static) -> Self {
        self.output = Box::new(output);
        self
    }

    /// Writes messages and warnings to `messages`.
    pub fn messages(mut self, messages: impl Write + Send + 'static) -> Self {
        self.messages = Box::new(messages);
        self
    }

    /// Starts the run on a thread of its own. Returns when all elements are initialized.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] with all errors of the configuration; [`ErrorKind::Address`] or
    /// [`ErrorKind::System`] if the control address, a signal handler or the thread is unavailable.
    pub fn start(self) -> Result<RunHandle, Error> {
        let system = |error: io::Error| Error::caused(ErrorKind::System, "cannot start", error);
        let (requests, queue) = request_channel().map_err(system)?;
        let (ready_sender, ready) = channel();
        let thread = ThreadBuilder::new().name("runtime".to_owned());
        let thread = thread.spawn(move || self.run(queue, &ready_sender)).map_err(system)?;
        let handle = RunHandle { requests, thread: Some(thread) };
        match ready.recv() {
            Ok(started) => started.map(|()| handle),
            // The thread panicked; so does this one.
            Err(_) => handle.stop().and(Err(ended())),
        }
    }

    /// Builds, runs and finishes the router. Reports the result of the first step to `ready`.
    fn run(
        self,
        queue: RequestQueue,
        ready: &Sender<Result<(), Error>>,
    ) -> Result<RunStats, Error> {
        let (mut host, mut router) = match self.build(queue) {
            Ok(built) => built,
            Err(error) => {
                _ = ready.send(Err(error));
                return Err(ended());
            }
        };
        _ = ready.send(Ok(()));
        let run = host.run(&mut router);
        host.serve_after_run(&mut router, run.end);
        let stats = RunStats::gather(&mut router, run.end, run.seconds);
        let failed = |errors| Error::caused(ErrorKind::Finish, "cannot finish the run", errors);
        run.finished.map(|()| stats).map_err(failed)
    }

    fn build(self, queue: RequestQueue) -> Result<(SystemHost, Router), Error> {
        let text = match self.config {
            Some(Ok(text)) => text,
            Some(Err(error)) => {
                return Err(Error::new(ErrorKind::Configuration, error.to_string()));
            }
            None => return Err(Error::new(ErrorKind::Configuration, "no configuration is set")),
        };
        let environment = Environment::new(self.output, self.messages, self.stops)
            .map_err(|error| Error::caused(ErrorKind::System, "cannot handle signals", error))?;
        let clock = if self.is_simulated { RunClock::simulated(None) } else { RunClock::real() };
        environment.set_clock(&clock);
        environment.set_device(self.device);
        environment.allows_reconfigure.set(self.allows_reconfigure);
        let mut factory = self.factory;
        let options = factory.options(&environment, clock.now());
        let RouterFactory { registry, variables, libraries, .. } = &mut factory;
        let mut loaded = load(&text, registry, variables, libraries)
            .map_err(|errors| configuration_error(&text, errors))?;
        let unused = unused_variables(&loaded.graph, variables);
        unused.iter().for_each(|warning| environment.message(warning));
        let warnings = std::mem::take(&mut loaded.warnings);
        if !warnings.is_empty() {
            environment.message(&warnings.to_string());
        }
        let mut router = Router::new(loaded, registry, options)
            .map_err(|errors| configuration_error(&text, LoadError::Graph(errors)))?;
        if !self.is_simulated {
            threads::use_workers(&mut router, self.threads);
        }
        if let Some(address) = &self.control {
            address.listen(&environment)?;
        }
        let factory = self.allows_reconfigure.then_some(factory);
        let progress = self.progress.map(|(target, every)| ProgressReporter::new(target, every));
        let host = SystemHost::new(environment, clock, self.keeps_running, factory);
        Ok((host.with_requests(queue).with_progress(progress), router))
    }
}

fn configuration_error(text: &ConfigText, errors: LoadError) -> Error {
    let rules = match &errors {
        LoadError::Text(_) => rules_instead(text),
        LoadError::Graph(_) => None,
    };
    let message = || errors.to_string().trim_end().to_owned();
    rules.unwrap_or_else(|| Error::new(ErrorKind::Configuration, message()))
}

fn ended() -> Error {
    Error::new(ErrorKind::Ended, "the run has ended")
}

/// A running configuration. Dropping the handle stops the run.
///
/// Threads: any number may share the handle. Requests are served between tasks, within about a
/// millisecond while packets are processed. They are also served after the run has ended.
pub struct RunHandle {
    requests: RequestSender,
    thread: Option<JoinHandle<Result<RunStats, Error>>>,
}

impl RunHandle {
    /// Reads a handler: `element.handler`, or a global one.
    ///
    /// # Errors
    /// [`ErrorKind::Handler`] if it does not exist or fails.
    pub fn read(&self, handler: &str) -> Result<String, Error> {
        self.read_with(handler, "")
    }

    /// Reads a handler that has a parameter, such as `lookup` of route tables.
    ///
    /// # Errors
    /// As [`RunHandle::read`].
    pub fn read_with(&self, handler: &str, parameter: &str) -> Result<String, Error> {
        let (reply, result) = channel();
        self.requests.send(Request::Read(handler.to_owned(), parameter.to_owned(), reply));
        handler_reply(handler, &result)
    }

    /// Writes a handler; returns its message, usually empty.
    ///
    /// # Errors
    /// As [`RunHandle::read`].
    pub fn write(&self, handler: &str, value: &str) -> Result<String, Error> {
        let (reply, result) = channel();
        self.requests.send(Request::Write(handler.to_owned(), value.to_owned(), reply));
        handler_reply(handler, &result)
    }

    /// Waits until the run ends by itself, or another thread stops it.
    ///
    /// # Errors
    /// [`ErrorKind::Ended`] if the thread of the run panicked.
    pub fn wait(&self) -> Result<RunEnd, Error> {
        let (reply, end) = channel();
        self.requests.send(Request::AwaitEnd(reply));
        end.recv().map_err(|_| ended())
    }

    /// Stops the run and returns its final statistics.
    ///
    /// # Errors
    /// [`ErrorKind::Finish`] if an element failed to finish, for instance to write its file.
    ///
    /// # Panics
    /// If the thread of the run panicked.
    pub fn stop(mut self) -> Result<RunStats, Error> {
        self.requests.send(Request::Stop);
        let thread = self.thread.take().expect("only stop and drop remove the thread");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for RunHandle {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.requests.send(Request::Stop);
            // A panic was printed by its own thread.
            _ = thread.join();
        }
    }
}

fn handler_reply(handler: &str, result: &Receiver<HandlerResult>) -> Result<String, Error> {
    let result = result.recv().map_err(|_| ended())?;
    result.map_err(|error| Error::new(ErrorKind::Handler, format!("{handler}: {error}")))
}
