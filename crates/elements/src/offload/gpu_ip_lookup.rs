//! Looks destinations of wide batches up on the device.
//!
//! # Synopsis
//! `GPUIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ..., [FILE FILENAME, FORMAT, DEVICES, ANNO PLACE,
//! CHK_ANNO PLACE=NUMBER])`, `GPUIPLookup(FOR ELEMENT)`
//!
//! # Ports
//! One input, one output; push. Takes wide batches, see `Batcher`.
//!
//! # Configuration
//! - routes, `FILE`, `FORMAT`, `DEVICES`: as for `StaticIPLookup`; outputs are those of a
//!   `Dispatcher` behind the chain
//! - `ANNO`: place of the annotation that gets the number of the output, four bytes; 40 by default.
//!   A packet without a route gets the number of no output
//! - `CHK_ANNO`: only packets whose annotation at `PLACE`, of four bytes, is `NUMBER` get an
//!   output: a predicate, which an element before in the chain has decided
//! - `FOR`: an element such as `StaticIPLookup` behind the chain. Its routes are looked up ahead:
//!   it takes the answers for packets that nobody wrote to in between, and only if they are of its
//!   routes and about their destinations. Headers have to be marked, as `CheckIPHeader` does, or
//!   packets to be frames, from the Ethernet header on
//!
//! Without `FOR` the destination annotation is looked up. If the route has a gateway, that becomes
//! the annotation.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `table`, `lookup`, `add`, `set`, `remove`, `ctrl` | | as of `StaticIPLookup`, without `FOR` |
//! | `on_device` | read | packets whose answers came from the device |
//! | `on_cores` | read | packets that were looked up by the worker: without a device, or when routes had changed |
//!
//! # Drops
//! - `no wide batch`: packets that did not come through a `Batcher`
//!
//! # Threads
//! Belongs to the worker of its chain. Source: GPUIPLookup of Snap (Sun and Ricci, ANCS 2013,
//! section 4).
//!
//! # Example
//! ```text
//! Batcher -> HostToDeviceMemcpy -> GPUIPLookup(10.0.0.0/24 0, 0/0 10.0.0.2 1)
//!   -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> out :: Dispatcher;
//! ```

use std::sync::Arc;

use warpswitch_gpu::routes::{LiveRoutes, RouteImage};
use warpswitch_gpu::work::Work;
use warpswitch_graph::language::args::{Args, ArgsError, ElementRef};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::{AHEAD_LOOKUPS, AheadAnswer, Batch};
use warpswitch_routes::NextHop;

use super::anno::{self, NO_OUTPUT, NUMBER_ANNO, Predicate};
use super::load::{Load, Slice, Step};
use super::members::{self, Joined};
use super::place::Offload;
use crate::ip::ip_lookup::IpLookup;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("GPUIPLookup", "1/1", "h/h", || Box::<GpuIpLookup>::default())
        .drops(&["no wide batch"])
        .on_device();

/// More outputs than a dispatcher has.
const OUTPUTS_MAX: usize = 1 << 16;

/// See the module.
#[derive(Debug)]
pub struct GpuIpLookup {
    /// Its own routes; those of another element otherwise.
    own: IpLookup,
    target: Option<usize>,
    anno: usize,
    predicate: Option<Predicate>,
    routes: Option<Arc<LiveRoutes<u32>>>,
    offload: Option<Arc<Offload>>,
    lookup: usize,
    found: Vec<NextHop>,
    on_device: u64,
    on_cores: u64,
}

impl Default for GpuIpLookup {
    fn default() -> Self {
        Self {
            own: IpLookup::of_static(),
            target: None,
            anno: NUMBER_ANNO,
            predicate: None,
            routes: None,
            offload: None,
            lookup: 0,
            found: Vec::new(),
            on_device: 0,
            on_cores: 0,
        }
    }
}

impl GpuIpLookup {
    fn slice(&self) -> Slice {
        if self.target.is_some() { Slice::HeaderDestination } else { Slice::Destination }
    }

    /// Gets ready for a device.
    pub(super) fn join(
        &mut self,
        cx: &mut Context<'_>,
        offload: &Arc<Offload>,
        lookup: usize,
    ) -> Result<Joined, String> {
        let routes = match self.target {
            None => self.own.mirror(offload)?,
            Some(target) => {
                let mirror = |target: &mut IpLookup, _: &mut Context<'_>| {
                    let routes = target.mirror(offload)?;
                    if !target.look_ahead(offload, lookup) {
                        let message = "the element has another place in another chain";
                        return Err(message.to_owned());
                    }
                    Ok(routes)
                };
                let name = &cx.graph().elements[target].name;
                let wrong = format!("FOR: '{name}' is no lookup of IPv4 routes");
                cx.with_element(target, mirror).ok_or(wrong)??
            }
        };
        (self.routes, self.lookup) = (Some(routes), lookup);
        self.offload = Some(offload.clone());
        let answer_bytes = RouteImage::<u32>::FORM.answer_bytes;
        Ok(Joined { slice: Some(self.slice()), answer_bytes, is_ahead: self.target.is_some() })
    }

    /// Takes the hops of a step out of the chain's answers.
    fn unpack(&mut self, load: &Load, step: &Step, count: usize) -> bool {
        let Some(chain) = load.chain.as_ref().filter(|_| !step.answers.is_empty()) else {
            return false;
        };
        self.found.clear();
        self.found.resize(count, NextHop::NONE);
        RouteImage::<u32>::unpack(&chain.answers()[step.answers.clone()], &mut self.found);
        true
    }

    /// Does to packets what the answers ask for.
    pub(super) fn apply(&mut self, step: &Step, load: &mut Load, batch: &mut Batch) {
        let has_answers = self.unpack(load, step, batch.len());
        if self.target.is_some() {
            if has_answers {
                self.on_device += batch.len() as u64;
                self.send_ahead(load, batch.len());
            }
            return;
        }
        if has_answers && self.own.is_mirrored(step.stamp) {
            self.on_device += batch.len() as u64;
        } else {
            self.on_cores += batch.len() as u64;
            self.found.clear();
            self.found.resize(batch.len(), NextHop::NONE);
            self.own.look_up(&load.destinations, &mut self.found);
        }
        for (packet, hop) in batch.iter_mut().zip(&self.found) {
            if !anno::is_for(self.predicate, packet) {
                continue;
            }
            let (gateway, output) = self.own.way(*hop).unwrap_or((0, NO_OUTPUT));
            if gateway != 0 {
                packet.set_dst_ipv4(gateway.to_be_bytes());
            }
            packet.set_anno_u32(self.anno, output);
        }
    }

    /// Leaves answers for the element that they are for.
    fn send_ahead(&self, load: &mut Load, count: usize) {
        let Some(at) = load.column(Slice::HeaderDestination) else { return };
        let Load { chain: Some(chain), ahead, .. } = load else { return };
        ahead.resize(count, [None; AHEAD_LOOKUPS]);
        let destinations = &chain.words_mut()[at..at + count];
        for ((ahead, hop), &proof) in ahead.iter_mut().zip(&self.found).zip(destinations) {
            ahead[self.lookup] = Some(AheadAnswer { answer: hop.0.into(), proof });
        }
    }
}

impl Element for GpuIpLookup {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut target = None::<ElementRef>;
        args.read("FOR", &mut target);
        anno::read_place(args, "ANNO", &mut self.anno);
        self.predicate = Predicate::read(args);
        if let Some(ElementRef(target)) = target {
            if self.predicate.is_some() {
                args.error_at("CHK_ANNO", "not with FOR: who takes the answers decides");
            }
            self.target = Some(target);
            return args.complete();
        }
        self.own.configure(args, &ConfigureContext { outputs: OUTPUTS_MAX, ..*context })
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        members::expect_chain(cx)?;
        members::expect_target(cx, self.target)
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        let count = batch.len();
        let Some(load) = Load::of(&mut batch) else { return cx.drop_batch(batch, 0) };
        let mut step = Step { element: cx.element(), answers: 0..0, stamp: 0 };
        let column = load.column(self.slice());
        if let (Some(chain), Some(routes), Some(at)) = (&mut load.chain, &self.routes, column) {
            step.answers = chain.step(&routes.current(), at, count);
            step.stamp = self.offload.as_ref().map_or(0, |offload| offload.stamp().get());
        }
        load.steps.push(step);
        cx.emit_batch(0, batch);
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const ALL: &[HandlerSpec] = &[
            HandlerSpec::read("on_device"),
            HandlerSpec::read("on_cores"),
            HandlerSpec::read("table").expensive(),
            HandlerSpec::read("lookup").with_param(),
            HandlerSpec::write("add"),
            HandlerSpec::write("set"),
            HandlerSpec::write("remove"),
            HandlerSpec::write("ctrl"),
        ];
        if self.target.is_some() { &ALL[..2] } else { ALL }
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
