//! Route lookups of one address family on the device, for `GPUIPLookup` and `GPUIP6Lookup`.

use std::sync::Arc;

use warpswitch_elements_lookup::routes::RouteLookup;
use warpswitch_elements_support::cached::TableVersion;
use warpswitch_gpu::routes::RouteImage;
use warpswitch_gpu::work::Work;
use warpswitch_graph::language::args::{Args, ArgsError, ElementRef};
use warpswitch_graph::{ConfigureContext, Context, Element, HandlerError, HandlerSpec};
use warpswitch_packet::{Batch, CACHED_RESULTS, CachedResult};
use warpswitch_routes::NextHop;

use super::address::ChainAddress;
use super::anno::{self, Meant, NO_OUTPUT, NUMBER_ANNO, Predicate, Written};
use super::annotated;
use super::device_element::{DeviceElement, Joined};
use super::load::{Load, Step};
use super::members;
use super::mirrors::{self, RouteMirror};
use super::place::Offload;
use super::slices::{Family, Slice};

/// Exceeds the number of outputs of any dispatcher.
const OUTPUTS_MAX: usize = 1 << 16;

/// A route lookup element with the table of `L`.
#[derive(Debug)]
pub struct GpuRouteLookup<L: RouteLookup<Address: ChainAddress>> {
    /// The routes; not used with a `target`.
    own: L,
    /// The element of `FOR`.
    target: Option<usize>,
    /// The result slot of `LOOKUP`.
    number: Option<usize>,
    anno: usize,
    predicate: Option<Predicate>,
    routes: Option<Arc<RouteMirror<L::Address>>>,
    /// Version of the routes.
    version: Arc<TableVersion>,
    /// Slot and owner of the results.
    slot: usize,
    owner: u16,
    found: Vec<NextHop>,
    outputs: Vec<u32>,
    destinations: Vec<L::Address>,
    meant: Meant,
    on_device: u64,
    on_cores: u64,
    /// With a `target`: packets without a readable destination, which need no lookup.
    no_destination: u64,
}

impl<L: RouteLookup<Address: ChainAddress>> Default for GpuRouteLookup<L> {
    fn default() -> Self {
        Self {
            own: L::without_routes(),
            target: None,
            number: None,
            anno: NUMBER_ANNO,
            predicate: None,
            routes: None,
            version: Arc::default(),
            slot: 0,
            owner: 0,
            found: Vec::new(),
            outputs: Vec::new(),
            destinations: Vec::new(),
            meant: Meant::default(),
            on_device: 0,
            on_cores: 0,
            no_destination: 0,
        }
    }
}

impl<L: RouteLookup<Address: ChainAddress>> GpuRouteLookup<L> {
    fn slice(&self) -> Slice {
        match self.target {
            Some(_) => Slice::HeaderDestination(L::Address::FAMILY),
            None => Slice::Destination(L::Address::FAMILY),
        }
    }

    /// Unpacks the next hops of a step from the results of the chain; returns whether it has any.
    fn unpack(&mut self, load: &Load, step: &Step, count: usize) -> bool {
        let Some(column) = load.column(step) else { return false };
        let Some(chain) = load.chain.as_ref().filter(|_| !step.answers.is_empty()) else {
            return false;
        };
        // All are overwritten.
        self.found.resize(column.len(count), NextHop::NONE);
        RouteImage::<L::Address>::unpack(&chain.answers()[step.answers.clone()], &mut self.found);
        column.scatter(count, NextHop::NONE, &mut self.found);
        true
    }

    /// Attaches the next hops to the packets, as results for the target.
    fn make_results(&mut self, step: &Step, load: &mut Load, count: usize) {
        let Some((at, _)) = load.place(step, count) else { return };
        let Load { chain: Some(chain), results, places, .. } = load else { return };
        results.resize(count, [CachedResult::NONE; CACHED_RESULTS]);
        // A result has no room for an IPv6 address: its key is the offset of the address.
        let keys: &[u32] = match L::Address::FAMILY {
            Family::Ipv4 => &chain.words_mut()[at..at + count],
            Family::Ipv6 => places,
        };
        self.no_destination += keys[..count].iter().filter(|&&key| key == 0).count() as u64;
        let is_key = |key| L::Address::FAMILY == Family::Ipv4 || key != 0;
        let (version, slot) = (step.version, self.slot);
        for ((results, hop), &key) in results.iter_mut().zip(&self.found).zip(keys) {
            if is_key(key) {
                let answer = hop.0.into();
                results[slot] = CachedResult { version, key, answer, owner: self.owner };
            }
        }
    }
}

impl<L: RouteLookup<Address: ChainAddress>> DeviceElement for GpuRouteLookup<L> {
    fn join(
        &mut self,
        cx: &mut Context<'_>,
        offload: &Arc<Offload>,
        slot: usize,
    ) -> Result<Joined, String> {
        let slot = self.number.unwrap_or(slot);
        let own = |own: &mut L| {
            let routes = mirrors::routes_of(own, offload)?;
            Ok::<_, String>((routes, own.results().version().clone()))
        };
        let ((routes, version), owner) = match self.target {
            None => (own(&mut self.own)?, 0),
            Some(target) => {
                let mirror = |target: &mut L, _: &mut Context<'_>| {
                    let routes = own(target)?;
                    let owner = target.results().accept(slot, offload.costs());
                    Ok::<_, String>((routes, owner.ok_or(members::ELSEWHERE)?))
                };
                let name = &cx.graph().elements[target].name;
                let wrong = format!("FOR: '{name}' is of another class than expected");
                cx.with_element(target, mirror).ok_or(wrong)??
            }
        };
        (self.routes, self.version) = (Some(routes), version);
        (self.slot, self.owner) = (slot, owner);
        let answer_bytes = RouteImage::<L::Address>::FORM.answer_bytes;
        let slot = self.target.map(|_| slot);
        Ok(Joined { slot, only: self.predicate, ..Joined::new(self.slice(), answer_bytes) })
    }

    fn written(&self) -> Option<Written> {
        self.target.is_none().then_some(Written { place: self.anno, predicate: self.predicate })
    }

    fn launch(&mut self, cx: &mut Context<'_>, load: &mut Load, packets: usize) {
        let mut step = Step::new(cx.element());
        step.destinations = self.target.is_none().then_some(L::Address::FAMILY);
        let place = load.place(&step, packets);
        if let (Some(chain), Some(routes), Some((at, count))) =
            (&mut load.chain, &self.routes, place)
        {
            step.answers = chain.step(&routes.0.current(), at, count);
            step.version = self.version.get();
        }
        load.steps.push(step);
    }

    fn apply(&mut self, _cx: &mut Context<'_>, step: &Step, load: &mut Load, batch: &mut Batch) {
        let has_answers = self.unpack(load, step, batch.len());
        let place = load.place(step, batch.len());
        let count = place.map_or(batch.len(), |(_, count)| count);
        if self.target.is_some() {
            if has_answers {
                self.on_device += count as u64;
                self.make_results(step, load, batch.len());
            }
            return;
        }
        if has_answers && self.own.results().holds(step.version) {
            self.on_device += count as u64;
        } else {
            self.on_cores += count as u64;
            self.found.clear();
            self.found.resize(count, NextHop::NONE);
            match (&mut load.chain, place) {
                (Some(chain), Some((at, _))) => {
                    // Annotations may have changed since.
                    let keys = &chain.words_mut()[at..];
                    self.destinations.clear();
                    self.destinations.extend(L::Address::of_keys(keys, count));
                }
                _ => self.destinations.clone_from(L::Address::kept(load)),
            }
            self.own.look_up(&self.destinations, &mut self.found);
            if let Some(column) = load.column(step) {
                column.scatter(batch.len(), NextHop::NONE, &mut self.found);
            }
        }
        self.meant.read(self.predicate, &load.branch, batch);
        self.outputs.clear();
        let mut has_gateway = false;
        self.outputs.extend(self.found.iter().map(|&hop| {
            let (gateway, output) = self.own.way(hop).unwrap_or((None, NO_OUTPUT));
            has_gateway |= gateway.is_some();
            output
        }));
        if has_gateway {
            let gateway = |place: usize| {
                let is_meant = self.meant.has(place);
                self.own.way(self.found[place]).filter(|_| is_meant)?.0
            };
            L::Address::put_gateways(batch, gateway);
        }
        self.meant.write(batch, self.anno, &mut self.outputs);
    }
}

impl<L: RouteLookup<Address: ChainAddress>> Element for GpuRouteLookup<L> {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut target = None::<ElementRef>;
        args.read("FOR", &mut target);
        if let Some(ElementRef(target)) = target {
            members::refuse_with_target(args, &["ANNO", "CHK_ANNO"]);
            self.target = Some(target);
            self.number = members::read_number(args);
            return args.complete();
        }
        anno::read_anno(args, &mut self.anno);
        self.predicate = Predicate::read(args);
        self.own.configure(args, &ConfigureContext { outputs: OUTPUTS_MAX, ..*context })
    }

    fn check_place(&mut self, cx: &mut Context<'_>) -> Result<Vec<String>, String> {
        members::expect_chain(cx)?;
        let strange = members::look_at_target(cx, self.target)?;
        if self.target.is_some() {
            return Ok(strange);
        }
        let mut warnings = annotated::beyond_outputs(cx, self.anno, self.own.named_outputs());
        warnings.extend(self.predicate.and_then(|predicate| predicate.unwritten(cx)));
        Ok(warnings)
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        self.launch_and_forward(cx, batch);
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const ALL: &[HandlerSpec] = &[
            HandlerSpec::read("on_device"),
            HandlerSpec::read("on_cores"),
            HandlerSpec::read("no_destination"),
            HandlerSpec::read("table").expensive(),
            HandlerSpec::read("lookup").with_param(),
            HandlerSpec::write("add"),
            HandlerSpec::write("set"),
            HandlerSpec::write("remove"),
            HandlerSpec::write("ctrl"),
        ];
        if self.target.is_some() { &ALL[..3] } else { ALL }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "on_device" => Ok(self.on_device.to_string()),
            "on_cores" => Ok(self.on_cores.to_string()),
            "no_destination" => Ok(self.no_destination.to_string()),
            _ => self.own.read(cx, name, param),
        }
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.own.write(cx, name, value)
    }
}
