//! The console of a configuration: the streams of the process, its sockets and signals.

use std::any::Any;
use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;

use warpswitch_graph::Console;
use warpswitch_graph::control::Endpoint;
use warpswitch_graph::transport::{Transport, Wire};
use warpswitch_offload::Offload;

use super::host::Clock;
use super::pace::Pace;
use super::signals::Signals;
use super::sockets::Sockets;

/// Output is written in pieces of this size, or when the run rests.
const OUTPUT_BYTES: usize = 1 << 16;

/// What of the process a run uses. Shared by the host and the consoles of its configurations.
pub struct World {
    out: RefCell<io::BufWriter<io::Stdout>>,
    /// Whether what configurations print goes to the standard error stream.
    prints_aside: std::cell::Cell<bool>,
    /// Whether nobody reads the output any more.
    closed: std::cell::Cell<bool>,
    /// The pace of real time; none in simulated time, which passes at once.
    pub(super) pace: RefCell<Option<Arc<Pace>>>,
    /// Whether the configuration can be replaced, and by what it is to be.
    pub(super) reconfigures: std::cell::Cell<bool>,
    pub(super) next_config: RefCell<Option<String>>,
    pub(super) sockets: RefCell<Sockets>,
    pub(super) signals: RefCell<Signals>,
    /// The device that elements are handed.
    offload: RefCell<Option<Arc<Offload>>>,
}

impl World {
    /// The world of a run that is about to begin.
    ///
    /// # Errors
    /// If signals cannot be awaited.
    pub fn new() -> io::Result<Rc<Self>> {
        let out = io::BufWriter::with_capacity(OUTPUT_BYTES, io::stdout());
        Ok(Rc::new(Self {
            out: RefCell::new(out),
            prints_aside: std::cell::Cell::new(false),
            closed: std::cell::Cell::new(false),
            pace: RefCell::new(None),
            reconfigures: std::cell::Cell::new(false),
            next_config: RefCell::new(None),
            sockets: RefCell::new(Sockets::default()),
            signals: RefCell::new(Signals::new()?),
            offload: RefCell::new(None),
        }))
    }

    /// Lets configurations change the pace of `clock`. Comes before there are any.
    pub fn set_clock(&self, clock: &Clock) {
        *self.pace.borrow_mut() = clock.pace();
    }

    /// Has what configurations print go to the standard error stream: the standard output is for
    /// something that programs read.
    pub fn print_aside(&self) {
        self.prints_aside.set(true);
    }

    /// Hands `offload` to elements that ask for a device.
    pub fn offload_to(&self, offload: Option<Arc<Offload>>) {
        *self.offload.borrow_mut() = offload;
    }

    /// A console that leads here.
    pub fn console(self: &Rc<Self>) -> Box<dyn Console> {
        Box::new(WorldConsole { world: self.clone() })
    }

    /// Writes output out.
    pub fn flush(&self) {
        let result = self.out.borrow_mut().flush();
        self.note(&result);
    }

    /// Whether whoever read the output went away.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Writes to the standard output, or where [`World::print_aside`] says.
    pub fn print(&self, text: &[u8]) {
        if self.prints_aside.get() {
            _ = io::stderr().lock().write_all(text);
            return;
        }
        let result = self.out.borrow_mut().write_all(text);
        self.note(&result);
    }

    /// Writes lines to the standard error stream.
    pub fn say(&self, text: &str) {
        // Who sees both streams in one place sees them in order.
        self.flush();
        let text = text.strip_suffix('\n').unwrap_or(text);
        // In one piece: other programs may write there, too, between pieces.
        _ = io::stderr().lock().write_all(format!("{text}\n").as_bytes());
    }

    fn note(&self, result: &io::Result<()>) {
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            self.closed.set(true);
        }
    }
}

struct WorldConsole {
    world: Rc<World>,
}

impl Console for WorldConsole {
    fn say(&mut self, line: &str) {
        self.world.say(line);
    }

    fn print(&mut self, text: &[u8]) {
        self.world.print(text);
    }

    fn do_by_many(&self, work: &(dyn Fn() + Sync)) {
        crate::threads::do_by_many(work);
    }

    fn device(&mut self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.world.offload.borrow().clone().map(|offload| offload as Arc<_>)
    }

    fn flush(&mut self) {
        self.world.flush();
    }

    fn may_wait(&self) -> bool {
        self.world.pace.borrow().is_none()
    }

    fn listen(&mut self, endpoint: &Endpoint) -> Result<String, String> {
        self.world.sockets.borrow_mut().listen(endpoint)
    }

    fn open(&mut self, transport: &Transport) -> Result<Box<dyn Wire>, String> {
        if self.may_wait() {
            return Err("packets of sockets come in real time: run without --simtime".to_owned());
        }
        self.world.sockets.borrow_mut().open(transport)
    }

    fn watch_signal(&mut self, signal: &str, handler: &str) -> Result<(), String> {
        self.world.signals.borrow_mut().watch(signal, handler)
    }

    fn takes_configurations(&self) -> bool {
        self.world.reconfigures.get()
    }

    fn reconfigure(&mut self, text: &str) -> Result<(), String> {
        *self.world.next_config.borrow_mut() = Some(text.to_owned());
        Ok(())
    }

    fn warp_time(&mut self, factor: f64) -> Result<(), String> {
        if let Some(pace) = &*self.world.pace.borrow() {
            pace.set(factor);
        }
        Ok(())
    }

    fn send_signal(&mut self, signal: &str, process: u32) -> Result<(), String> {
        // What was printed before is out should the signal end the process.
        self.world.flush();
        super::signals::send(signal, process)
    }
}
