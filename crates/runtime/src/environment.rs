//! The environment of a run: output streams, sockets, signals and the device.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;

use warpswitch_graph::Console;
use warpswitch_graph::control::Endpoint;
use warpswitch_graph::transport::{Transport, Wire};
use warpswitch_packet::{PortSpec, RxPort, TxPort};

use crate::clock::{RunClock, ScaledClock};
use crate::control_server::RunSockets;
use crate::signals::{Signals, StopSignals};

/// Output is flushed in blocks of this size, and whenever the run is idle.
const OUTPUT_BYTES: usize = 1 << 16;

/// A device that elements offload work to. The runtime only hands it on: its type is a contract
/// between the program that runs a configuration and its elements.
pub type Device = Arc<dyn Any + Send + Sync>;

/// Resources of the process that a run uses. The host and the consoles of its configurations share
/// one environment.
pub struct Environment {
    output: RefCell<io::BufWriter<Box<dyn Write>>>,
    messages: RefCell<Box<dyn Write>>,
    /// Whether output of configurations goes to `messages`.
    merges_output: Cell<bool>,
    /// Whether the reader of the output closed it.
    is_closed: Cell<bool>,
    /// The clock of a run in real time; `None` in simulated time.
    clock: RefCell<Option<Arc<ScaledClock>>>,
    /// Whether the configuration can be replaced, and the text that replaces it next.
    pub(crate) allows_reconfigure: Cell<bool>,
    pub(crate) next_config: RefCell<Option<String>>,
    pub(crate) sockets: RefCell<RunSockets>,
    pub(crate) signals: RefCell<Signals>,
    device: RefCell<Option<Device>>,
}

impl Environment {
    /// The environment of a command: standard streams, and INT, TERM and HUP stop the run.
    ///
    /// # Errors
    /// If signal handlers cannot be installed.
    pub fn of_process() -> io::Result<Rc<Self>> {
        Self::new(Box::new(io::stdout()), Box::new(io::stderr()), StopSignals::Handle)
    }

    /// An environment with its own streams for output and messages.
    ///
    /// # Errors
    /// If signal handlers cannot be installed.
    pub fn new(
        output: Box<dyn Write>,
        messages: Box<dyn Write>,
        stops: StopSignals,
    ) -> io::Result<Rc<Self>> {
        Ok(Rc::new(Self {
            output: RefCell::new(io::BufWriter::with_capacity(OUTPUT_BYTES, output)),
            messages: RefCell::new(messages),
            merges_output: Cell::new(false),
            is_closed: Cell::new(false),
            clock: RefCell::new(None),
            allows_reconfigure: Cell::new(false),
            next_config: RefCell::new(None),
            sockets: RefCell::new(RunSockets::default()),
            signals: RefCell::new(Signals::new(stops)?),
            device: RefCell::new(None),
        }))
    }

    /// Sets the clock that configurations can scale. Call it before the first router is built.
    pub fn set_clock(&self, clock: &RunClock) {
        *self.clock.borrow_mut() = clock.scaled();
    }

    /// Sends the output of configurations to the stream of messages. The output stream then carries
    /// only what the program prints itself, such as JSON.
    pub fn merge_output(&self) {
        self.merges_output.set(true);
    }

    /// Sets the device that elements get from their console.
    pub fn set_device(&self, device: Option<Device>) {
        *self.device.borrow_mut() = device;
    }

    /// A console that writes to this environment.
    pub fn console(self: &Rc<Self>) -> Box<dyn Console> {
        Box::new(EnvironmentConsole { environment: self.clone() })
    }

    /// Flushes the output.
    pub fn flush(&self) {
        let result = self.output.borrow_mut().flush();
        self.note_closed(&result);
    }

    /// Whether the reader of the output closed it.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Writes output; see [`Environment::merge_output`].
    pub fn print(&self, text: &[u8]) {
        if self.merges_output.get() {
            _ = self.messages.borrow_mut().write_all(text);
            return;
        }
        let result = self.output.borrow_mut().write_all(text);
        self.note_closed(&result);
    }

    /// Writes a message of one or more lines.
    pub fn message(&self, text: &str) {
        // Keeps the order of both streams where they share a terminal.
        self.flush();
        let text = text.strip_suffix('\n').unwrap_or(text);
        // One write: other processes may write to the same stream in between.
        _ = self.messages.borrow_mut().write_all(format!("{text}\n").as_bytes());
    }

    fn note_closed(&self, result: &io::Result<()>) {
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            self.is_closed.set(true);
        }
    }
}

struct EnvironmentConsole {
    environment: Rc<Environment>,
}

impl EnvironmentConsole {
    fn requires_real_time(&self) -> Result<(), String> {
        match self.may_wait() {
            true => Err("interfaces require real time: run without --simtime".to_owned()),
            false => Ok(()),
        }
    }
}

impl Console for EnvironmentConsole {
    fn say(&mut self, line: &str) {
        self.environment.message(line);
    }

    fn print(&mut self, text: &[u8]) {
        self.environment.print(text);
    }

    fn do_by_many(&self, work: &(dyn Fn() + Sync)) {
        crate::threads::do_by_many(work);
    }

    fn device(&mut self) -> Option<Device> {
        self.environment.device.borrow().clone()
    }

    fn flush(&mut self) {
        self.environment.flush();
    }

    fn may_wait(&self) -> bool {
        self.environment.clock.borrow().is_none()
    }

    fn listen(&mut self, endpoint: &Endpoint) -> Result<String, String> {
        self.environment.sockets.borrow_mut().listen(endpoint)
    }

    fn open(&mut self, transport: &Transport) -> Result<Box<dyn Wire>, String> {
        if self.may_wait() {
            return Err("sockets require real time: run without --simtime".to_owned());
        }
        self.environment.sockets.borrow_mut().open(transport)
    }

    fn open_rx(&mut self, spec: &PortSpec) -> Result<Box<dyn RxPort>, String> {
        self.requires_real_time()?;
        self.environment.sockets.borrow_mut().open_rx(spec)
    }

    fn open_tx(&mut self, spec: &PortSpec) -> Result<Box<dyn TxPort>, String> {
        self.requires_real_time()?;
        self.environment.sockets.borrow_mut().open_tx(spec)
    }

    fn watch_signal(&mut self, signal: &str, handler: &str) -> Result<(), String> {
        self.environment.signals.borrow_mut().watch(signal, handler)
    }

    fn takes_configurations(&self) -> bool {
        self.environment.allows_reconfigure.get()
    }

    fn reconfigure(&mut self, text: &str) -> Result<(), String> {
        *self.environment.next_config.borrow_mut() = Some(text.to_owned());
        Ok(())
    }

    fn warp_time(&mut self, factor: f64) -> Result<(), String> {
        if let Some(clock) = &*self.environment.clock.borrow() {
            clock.set_rate(factor);
        }
        Ok(())
    }

    fn send_signal(&mut self, signal: &str, process: u32) -> Result<(), String> {
        // The signal may end this process: write pending output first.
        self.environment.flush();
        crate::signals::send(signal, process)
    }
}
