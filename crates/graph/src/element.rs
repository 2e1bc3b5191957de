//! Elements: what they are to the graph, and the classes that there are.
//!
//! An element is written once, for batches. Most need one function: [`Element::process`], which
//! gets a batch and leaves in it what goes on; it serves push and pull alike. Packets that go
//! elsewhere are handed to [`Context::emit`], packets that go nowhere to [`Context::drop_packet`]
//! with a reason that is counted.
//!
//! ```text
//! push   a batch arrives at an input; the element emits to outputs
//! pull   an output is asked for packets; the element asks its inputs with Context::pull
//! task   run again and again while it is scheduled: sources, and those that pull and push
//! timer  run at a time that the element chose
//! ```
//! What an element emits is delivered after it returns, to the first output first, and what follows
//! from a delivery before the next one: in the order of a call that goes depth first, without its
//! stack. So a loop of elements cannot exhaust the stack, and an element is never entered twice.
//!
//! # Invariants
//! - G1: every packet that an element got is emitted, returned by a pull, dropped with a reason, or
//!   held and counted by [`Element::held`].
//! - G2: after `initialize` the data path allocates nothing once it has met its largest load.

use std::any::Any;
use std::collections::BTreeMap;

use warpswitch_packet::Batch;

use crate::context::Context;
use crate::handler::{HandlerError, HandlerSpec};
use crate::language::args::{Args, ArgsError, Names};
use crate::language::{ClassSpec, ClassTable, FlatGraph};
use crate::names::NameTable;

/// What `configure` may know beside the arguments.
#[derive(Clone, Copy)]
pub struct ConfigureContext<'a> {
    /// Index of the element that is configured.
    pub element: usize,
    /// Its connected inputs.
    pub inputs: usize,
    /// Its connected outputs.
    pub outputs: usize,
    /// Names of addresses and elements.
    pub names: &'a dyn Names,
    /// The whole graph.
    pub graph: &'a FlatGraph,
}

/// An element of a graph. See the module.
#[allow(unused_variables)]
pub trait Element: Any + Send {
    /// Reads the arguments. Comes first, once; all that is wrong is told at once.
    ///
    /// # Errors
    /// What is wrong, in Click's words.
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.complete()
    }

    /// Gives names to addresses, for the elements that are configured later.
    fn define_names(&self, names: &mut NameTable) {}

    /// Looks at where it stands in the graph, before it gets ready: opens nothing and keeps
    /// nothing, as those who only check a configuration ask for it, too. Every element is
    /// configured then. Gives what is strange about its place, a line each.
    ///
    /// # Errors
    /// Why it cannot stand there.
    fn check_place(&mut self, cx: &mut Context<'_>) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    /// Handlers that it names and that are not there, a line each: wrong for who checks a
    /// configuration, and a warning for who runs it, as they may never be called.
    fn wrong_calls(&self, cx: &mut Context<'_>) -> Vec<String> {
        Vec::new()
    }

    /// Gets ready: opens files, schedules its task and timers. Every element is configured then.
    ///
    /// # Errors
    /// What hinders it.
    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Does its work on packets that pass from input 0 to output 0: what it leaves in `batch` goes
    /// on.
    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {}

    /// Takes a batch that was pushed to `input`. Never empty.
    fn push(&mut self, cx: &mut Context<'_>, input: usize, mut batch: Batch) {
        self.process(cx, &mut batch);
        cx.emit_batch(0, batch);
    }

    /// Gives up to `packets_max` packets of `output`; none if there are none now.
    fn pull(&mut self, cx: &mut Context<'_>, output: usize, packets_max: usize) -> Batch {
        let mut batch = cx.pull(0, packets_max);
        if !batch.is_empty() {
            self.process(cx, &mut batch);
        }
        batch
    }

    /// Runs the element's task, which was scheduled and no longer is: it may schedule itself again.
    /// Tells whether it did something.
    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        false
    }

    /// Runs timer `timer`, whose time has come.
    fn run_timer(&mut self, cx: &mut Context<'_>, timer: usize) {}

    /// Decides, in the name of the configuration, whether a run that was asked to stop does. Asked
    /// of the element that called [`Context::manage_driver`].
    fn driver_stops(&mut self, cx: &mut Context<'_>) -> bool {
        true
    }

    /// The handlers that it has beside those of every element.
    fn handlers(&self) -> &'static [HandlerSpec] {
        &[]
    }

    /// A handler beside [`Element::handlers`] whose name the class does not know: one that the
    /// configuration names.
    fn named_handler(&self, name: &str) -> Option<HandlerSpec> {
        None
    }

    /// Answers read handler `name`, one of [`Element::handlers`], without a newline at the end.
    ///
    /// # Errors
    /// Why there is no answer.
    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        Err(HandlerError::Missing)
    }

    /// Obeys write handler `name`, one of [`Element::handlers`]; what it says is for who wrote.
    ///
    /// # Errors
    /// Why it does not.
    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        Err(HandlerError::Missing)
    }

    /// Whether who asks it gets nothing until it calls [`Context::wake`]; none if that is for those
    /// upstream of it to say, or if it does not know.
    fn is_quiet(&self) -> Option<bool> {
        None
    }

    /// Whether it accepts packets whose checksum and segmentation are left to the network card,
    /// see [`warpswitch_packet::gso`]: its work is right for a packet of up to 64 KiB with a
    /// partial checksum. Other elements get completed packets. Asked after `initialize`.
    fn accepts_gso(&self) -> bool {
        false
    }

    /// Packets that it holds.
    fn held(&self) -> usize {
        0
    }

    /// Takes over what `old` knows and holds: an element of the same class and name in the
    /// configuration that ran before. Downcast with [`Any`].
    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {}

    /// How it is shared where several workers run. Asked of an element that was initialized, and
    /// again whenever the workers start, so a copy carries what handlers changed.
    fn sharing(&self) -> Sharing {
        Sharing::OneWorker
    }

    /// Takes what a copy has counted; the copy is gone then.
    fn absorb(&mut self, copy: &mut dyn Element) {}

    /// Elements that it gives to workers, by their numbers.
    fn assigns(&self) -> &[(usize, usize)] {
        &[]
    }

    /// The same of elements that it names by what they are part of: of lesser weight than what
    /// [`Element::assigns`] says anywhere.
    fn assigns_parts(&self) -> &[(usize, usize)] {
        &[]
    }

    /// Finishes: the run is over. Files are flushed here, with what goes wrong as the error.
    ///
    /// # Errors
    /// What could not be finished.
    fn finish(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// How an element is shared where several workers run.
pub enum Sharing {
    /// One worker runs it, and gets packets for it from others. Right for all that know or hold
    /// something.
    OneWorker,
    /// Each worker runs a copy such as this one: for elements that treat each packet by itself.
    /// What copies count comes back by [`Element::absorb`].
    Copies(Box<dyn Element>),
    /// It runs while all other workers rest, as it reads and writes handlers of any element.
    /// For those that only call one at times, [`Context::call_handler`] does without.
    Alone,
}

impl Sharing {
    /// A copy for each worker.
    pub fn copies(copy: impl Element) -> Self {
        Self::Copies(Box::new(copy))
    }
}

impl dyn Element {
    /// This element, if it is a `T`.
    pub fn downcast_mut<T: Element>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }
}

/// When elements are configured: those that others need first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Names of addresses and the like.
    Names,
    /// What others refer to while they are configured.
    Information,
    /// The usual one.
    Usual,
    /// What refers to others.
    Last,
}

/// A class of elements.
#[derive(Debug)]
pub struct ElementClass {
    /// What the language must know.
    pub spec: ClassSpec,
    /// What its elements do with packets that they consume, for who follows one: `written`.
    pub consumed: &'static str,
    /// Why its elements drop packets: the names that [`Context::drop_packet`] counts by.
    pub drops: &'static [&'static str],
    /// When its elements are configured.
    pub phase: Phase,
    /// Whether its elements call [`Context::wake`] when they have packets after they had none, so
    /// that who asks them may sleep; elements that are pushed to and asked do so anyway.
    pub wakes: bool,
    /// Whether its elements signal with [`Context::set_full`] that they take no more packets.
    pub signals_full: bool,
    /// Whether live interfaces upstream pause while its elements are full, see
    /// [`Context::listen_downstream_live`]: frames wait, and are dropped, at the interface.
    pub pauses_interfaces: bool,
    /// Whether its elements have stops wait, see [`Context::detain_stop`].
    pub detains: bool,
    /// Whether its elements can be given other arguments while they run, by writing their handler
    /// `config`: a new one then takes the place of the old one, which knows nothing that the new
    /// one would miss, and was not initialized in a way of its own.
    pub is_live: bool,
    /// Whether a device does its elements' work, if there is one.
    pub is_on_device: bool,
    /// An output and an input: who asks that output asks what that input asks, and the element is
    /// not entered. So a way through other elements may lead from it back to it.
    pub asks_through: Option<(usize, usize)>,
    /// Whether configuring its elements takes long, and neither hangs on that of others of the
    /// usual phase nor does anything that they could see: then several are configured at a time.
    pub is_dear: bool,
    /// The configurations of the elements that replace one with this configuration, see
    /// [`ClassTable::replicas`].
    pub replicas: fn(&str) -> Vec<String>,
    /// What a crate that knows more of some classes than others do has to know of this one: its own
    /// type, which it finds by downcasting.
    pub extension: Option<&'static Extension>,
    /// Makes one, not yet configured.
    pub make: fn() -> Box<dyn Element>,
}

/// See [`ElementClass::extension`].
pub type Extension = dyn Any + Send + Sync;

impl ElementClass {
    /// A class of the usual phase that drops nothing, and passes packets from every input to every
    /// output.
    pub const fn new(
        name: &'static str,
        port_count: &'static str,
        processing: &'static str,
        make: fn() -> Box<dyn Element>,
    ) -> Self {
        let spec = ClassSpec { name, port_count, processing, flow_code: "x/x" };
        Self {
            spec,
            consumed: "consumed",
            drops: &[],
            phase: Phase::Usual,
            wakes: false,
            signals_full: false,
            pauses_interfaces: false,
            detains: false,
            is_live: false,
            is_on_device: false,
            asks_through: None,
            is_dear: false,
            replicas: |_| Vec::new(),
            extension: None,
            make,
        }
    }

    /// The same with these reasons for drops.
    pub const fn drops(self, drops: &'static [&'static str]) -> Self {
        Self { drops, ..self }
    }

    /// The same with [`ElementClass::consumed`].
    pub const fn consumes_as(self, consumed: &'static str) -> Self {
        Self { consumed, ..self }
    }

    /// The same with this flow code.
    pub const fn flow(self, flow_code: &'static str) -> Self {
        Self { spec: ClassSpec { flow_code, ..self.spec }, ..self }
    }

    /// The same with this phase.
    pub const fn phase(self, phase: Phase) -> Self {
        Self { phase, ..self }
    }

    /// The same class under another name.
    pub const fn named(self, name: &'static str) -> Self {
        Self { spec: ClassSpec { name, ..self.spec }, ..self }
    }

    /// The same with [`ElementClass::wakes`].
    pub const fn wakes(self) -> Self {
        Self { wakes: true, ..self }
    }

    /// The same with [`ElementClass::is_live`].
    pub const fn live(self) -> Self {
        Self { is_live: true, ..self }
    }

    /// The same with [`ElementClass::is_on_device`].
    pub const fn on_device(self) -> Self {
        Self { is_on_device: true, ..self }
    }

    /// The same with [`ElementClass::asks_through`].
    pub const fn asks_through(self, output: usize, input: usize) -> Self {
        Self { asks_through: Some((output, input)), ..self }
    }

    /// The same with [`ElementClass::is_dear`].
    pub const fn dear(self) -> Self {
        Self { is_dear: true, ..self }
    }

    /// The same with [`ElementClass::replicas`].
    pub const fn replicas(self, replicas: fn(&str) -> Vec<String>) -> Self {
        Self { replicas, ..self }
    }

    /// The same with [`ElementClass::extension`].
    pub const fn extension(self, extension: &'static Extension) -> Self {
        Self { extension: Some(extension), ..self }
    }

    /// The same with [`ElementClass::signals_full`].
    pub const fn signals_full(self) -> Self {
        Self { signals_full: true, ..self }
    }

    /// The same with [`ElementClass::pauses_interfaces`].
    pub const fn pauses_interfaces(self) -> Self {
        Self { pauses_interfaces: true, ..self }
    }

    /// The same with [`ElementClass::detains`].
    pub const fn detains(self) -> Self {
        Self { detains: true, ..self }
    }
}

/// The classes that a configuration may use.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    classes: BTreeMap<&'static str, &'static ElementClass>,
    pub(crate) keeps_click_order: bool,
}

impl Registry {
    /// A registry of `classes`.
    ///
    /// # Panics
    /// If two have one name.
    pub fn new(classes: impl IntoIterator<Item = &'static ElementClass>) -> Self {
        let mut registry = Self::default();
        for class in classes {
            let old = registry.classes.insert(class.spec.name, class);
            assert!(old.is_none(), "two classes are called {}", class.spec.name);
        }
        registry
    }

    /// The same with one more class, in place of another of its name.
    pub fn with(mut self, class: &'static ElementClass) -> Self {
        self.classes.insert(class.spec.name, class);
        self
    }

    /// All classes, by name.
    pub fn classes(&self) -> impl Iterator<Item = &'static ElementClass> {
        self.classes.values().copied()
    }

    /// The same for routers that keep Click's order: sources deliver one packet at a time unless
    /// an argument sets their burst.
    pub fn in_click_order(mut self) -> Self {
        self.keeps_click_order = true;
        self
    }

    /// The class called `name`.
    pub fn class(&self, name: &str) -> Option<&'static ElementClass> {
        self.classes.get(name).copied()
    }
}

/// The packages that every registry has: those of Click's programs at user level.
pub(crate) const PACKAGES: [&str; 4] = ["int64", "ip6", "umultithread", "userlevel"];

impl ClassTable for Registry {
    fn packages(&self) -> &[&str] {
        &PACKAGES
    }

    fn get(&self, class: &str) -> Option<&ClassSpec> {
        self.classes.get(class).map(|class| &class.spec)
    }

    fn is_on_device(&self, class: &str) -> bool {
        self.classes.get(class).is_some_and(|class| class.is_on_device)
    }

    fn replicas(&self, class: &str, config: &str) -> Vec<String> {
        self.classes.get(class).map_or_else(Vec::new, |class| (class.replicas)(config))
    }

    fn names(&self) -> Vec<&str> {
        self.classes.keys().copied().collect()
    }
}
