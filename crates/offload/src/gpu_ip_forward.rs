//! Checks, routes and rewrites IPv4 headers of wide batches on the device.
//!
//! # Synopsis
//! `GPUIPForward(ADDR/MASK [GATEWAY] OUTPUT, ..., [FILE FILENAME, FORMAT, DEVICES, OFFSET N,
//! EXPIRED OUTPUT, BAD OUTPUT, UNROUTED OUTPUT, ANNO PLACE, CHK_ANNO PLACE=NUMBER])`
//!
//! # Ports
//! One input, one output; push. Accepts wide batches, see `Batcher`.
//!
//! Does the work of `CheckIPHeader`, `StaticIPLookup` and `DecIPTTL` in one pass: sends 64 bytes of
//! each packet to the device, header and length, and gets them back with the TTL decremented. Trims
//! valid packets to their IP length, marks their headers, and sets the destination annotation to
//! the gateway of the route, or else to the destination.
//!
//! # Configuration
//! - routes, `FILE`, `FORMAT`, `DEVICES`: as for `StaticIPLookup`; outputs are those of a
//!   `Dispatcher` downstream of the chain
//! - `OFFSET`: offset of the IPv4 header; default: 0
//! - `EXPIRED`: output for packets with an expired TTL, whose destination annotation is set from
//!   the route; default: none
//! - `BAD`: output for invalid packets, which are not modified; default: none
//! - `UNROUTED`: output for valid packets without a route; default: none
//! - `ANNO`: offset of the 4-byte annotation to write with the output number, or with 0xffffffff
//!   for packets without an output, which a `Dispatcher` then drops; default: 40
//! - `CHK_ANNO`: predicate; modifies only packets whose 4-byte annotation at `PLACE` is `NUMBER`,
//!   which an earlier element of the chain writes
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `table`, `lookup`, `add`, `set`, `remove`, `ctrl` | | as of `StaticIPLookup` |
//! | `verdicts` | read | packets by verdict, one per line |
//! | `on_device` | read | packets whose headers came back from the device |
//! | `on_cores` | read | packets processed by the worker: no device, or the routes had changed |
//!
//! # Drops
//! - `no wide batch`: packets that did not pass a `Batcher`
//!
//! # Threads
//! Runs on the worker of its chain.
//!
//! # Example
//! ```text
//! Strip(14) -> Batcher -> HostToDeviceMemcpy
//!   -> GPUIPForward(10.0.0.0/24 0, 0/0 10.0.0.2 1, EXPIRED 2)
//!   -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> out :: Dispatcher;
//! out[2] -> ICMPError(10.0.0.1, timeexceeded) -> ...;
//! ```

use std::fmt::Write;
use std::sync::Arc;

use warpswitch_elements_lookup::IpLookup;
use warpswitch_elements_lookup::routes::{PacketAddress, RouteLookup};
use warpswitch_elements_support::cached::CachedLookup;
use warpswitch_gpu::routes::{self, HeaderImage, Verdict};
use warpswitch_gpu::work::Work;
use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::{Batch, Packet};
use warpswitch_routes::NextHop;
use warpswitch_wire::ipv4::Ipv4;

use super::anno::{self, Meant, NO_OUTPUT, NUMBER_ANNO, Predicate, Written};
use super::annotated;
use super::device_element::{DeviceClass, DeviceElement, Joined};
use super::load::{Load, Step};
use super::members;
use super::mirrors::HeaderMirror;
use super::place::Offload;
use super::slices::{Slice, ip_header};

/// The element class.
pub static CLASS: ElementClass =
    ElementClass::new("GPUIPForward", "1/1", "h/h", || Box::<GpuIpForward>::default())
        .drops(&["no wide batch"])
        .on_device()
        .extension(&DEVICE)
        .dear();

static DEVICE: DeviceClass = DeviceClass::new::<GpuIpForward>(NUMBER_ANNO);

/// Exceeds the number of outputs of any dispatcher.
const OUTPUTS_MAX: usize = 1 << 16;

/// Names of verdicts in the handler `verdicts`, by [`Verdict`].
const VERDICTS: [&str; Verdict::ALL.len()] = [
    "forwarded",
    "tiny packet",
    "bad IP version",
    "bad IP header length",
    "bad IP length",
    "bad IP checksum",
    "no route",
    "expired",
];

/// Element `GPUIPForward`.
#[derive(Debug)]
pub struct GpuIpForward {
    own: IpLookup,
    offset: u32,
    expired: u32,
    bad: u32,
    unrouted: u32,
    anno: usize,
    predicate: Option<Predicate>,
    meant: Meant,
    headers: Option<Arc<HeaderMirror>>,
    /// Headers of the current batch, their destinations and next hops.
    slices: Vec<routes::Slice>,
    destinations: Vec<u32>,
    found: Vec<NextHop>,
    verdicts: [u64; Verdict::ALL.len()],
    on_device: u64,
    on_cores: u64,
}

impl Default for GpuIpForward {
    fn default() -> Self {
        let (slices, destinations, found) = Default::default();
        Self {
            own: IpLookup::without_routes(),
            offset: 0,
            expired: NO_OUTPUT,
            bad: NO_OUTPUT,
            unrouted: NO_OUTPUT,
            anno: NUMBER_ANNO,
            predicate: None,
            meant: Meant::default(),
            headers: None,
            slices,
            destinations,
            found,
            verdicts: Default::default(),
            on_device: 0,
            on_cores: 0,
        }
    }
}

impl GpuIpForward {
    /// Unpacks the headers of a step from the results of the chain; returns whether it has any.
    fn unpack(&mut self, load: &Load, step: &Step, count: usize) -> bool {
        let Some(column) = load.column(step) else { return false };
        let Some(chain) = load.chain.as_ref().filter(|_| !step.answers.is_empty()) else {
            return false;
        };
        self.slices.resize(column.len(count), routes::Slice::new(&[]));
        HeaderImage::unpack(&chain.answers()[step.answers.clone()], &mut self.slices);
        column.scatter(count, routes::Slice::new(&[]), &mut self.slices);
        true
    }

    /// Processes the headers on the worker, as the device does.
    fn forward(&mut self, batch: &Batch) {
        self.slices.clear();
        self.slices.extend(batch.iter().map(|packet| ip_header(packet, self.offset)));
        self.destinations.clear();
        self.destinations.extend(self.slices.iter().map(destination));
        self.found.clear();
        self.found.resize(batch.len(), NextHop::NONE);
        self.own.look_up(&self.destinations, &mut self.found);
        for (slice, &hop) in self.slices.iter_mut().zip(&self.found) {
            slice.forward(|_| hop);
        }
    }
}

/// The destination address of a header.
fn destination(slice: &routes::Slice) -> u32 {
    Ipv4::new_unchecked(slice.bytes()).dst().to_bits()
}

/// Updates a valid packet like `CheckIPHeader`: trims it to its IP length, marks its headers, and
/// sets its destination annotation.
fn mark(packet: &mut Packet, at: u32, slice: &routes::Slice) {
    let bytes = slice.bytes();
    let view = Ipv4::new_unchecked(&bytes);
    let end = at as usize + view.total_bytes();
    packet.take(packet.len().saturating_sub(end));
    packet.set_ip_header(at as usize, view.header_bytes());
    view.dst().to_bits().put(packet);
}

/// Writes back the changed bytes of a header: TTL and checksum, with the protocol between them.
fn write_back(packet: &mut Packet, at: u32, slice: &routes::Slice) {
    const CHANGED: std::ops::Range<usize> = 8..12;
    if let Some(header) = packet.data_mut().get_mut(at as usize..)
        && let Some(changed) = header.get_mut(CHANGED)
    {
        changed.copy_from_slice(&slice.bytes()[CHANGED]);
    }
}

impl DeviceElement for GpuIpForward {
    fn join(
        &mut self,
        _cx: &mut Context<'_>,
        offload: &Arc<Offload>,
        _slot: usize,
    ) -> Result<Joined, String> {
        let headers = Arc::new(HeaderMirror::build(offload, self.own.numbered())?);
        self.own.results().follow(headers.clone());
        self.headers = Some(headers);
        let slice = Slice::IpHeader(self.offset);
        let answer_bytes = HeaderImage::FORM.answer_bytes;
        Ok(Joined { only: self.predicate, ..Joined::new(slice, answer_bytes) })
    }

    fn written(&self) -> Option<Written> {
        Some(Written { place: self.anno, predicate: self.predicate })
    }

    fn launch(&mut self, cx: &mut Context<'_>, load: &mut Load, packets: usize) {
        let mut step = Step::new(cx.element());
        let place = load.place(&step, packets);
        if let (Some(chain), Some(headers), Some((at, count))) =
            (&mut load.chain, &self.headers, place)
        {
            step.answers = chain.step(&headers.0.current(), at, count);
            step.version = self.own.results().version().get();
        }
        load.steps.push(step);
    }

    fn apply(&mut self, _cx: &mut Context<'_>, step: &Step, load: &mut Load, batch: &mut Batch) {
        let count = batch.len();
        if self.own.results().holds(step.version) && self.unpack(load, step, count) {
            self.on_device += load.place(step, count).map_or(0, |place| place.1) as u64;
        } else {
            self.on_cores += count as u64;
            self.forward(batch);
        }
        self.meant.read(self.predicate, &load.branch, batch);
        for (place, (packet, slice)) in batch.iter_mut().zip(&self.slices).enumerate() {
            if !self.meant.has(place) {
                continue;
            }
            let (verdict, hop) = slice.outcome();
            self.verdicts[verdict as usize] += 1;
            let output = match (verdict, self.own.way(hop)) {
                (Verdict::SentOn | Verdict::Expired, Some((gateway, output))) => {
                    mark(packet, self.offset, slice);
                    if let Some(gateway) = gateway {
                        gateway.put(packet);
                    }
                    let is_sent_on = verdict == Verdict::SentOn;
                    if is_sent_on {
                        write_back(packet, self.offset, slice);
                    }
                    if is_sent_on { output } else { self.expired }
                }
                (Verdict::NoRoute, _) => {
                    mark(packet, self.offset, slice);
                    self.unrouted
                }
                _ => self.bad,
            };
            packet.set_anno_u32(self.anno, output);
        }
    }
}

impl Element for GpuIpForward {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read("OFFSET", &mut self.offset)
            .read("EXPIRED", &mut self.expired)
            .read("BAD", &mut self.bad)
            .read("UNROUTED", &mut self.unrouted);
        anno::read_anno(args, &mut self.anno);
        self.predicate = Predicate::read(args);
        self.own.configure(args, &ConfigureContext { outputs: OUTPUTS_MAX, ..*context })
    }

    fn check_place(&mut self, cx: &mut Context<'_>) -> Result<Vec<String>, String> {
        members::expect_chain(cx)?;
        let routes = self.own.named_outputs().map(|(prefix, output)| (prefix.to_string(), output));
        let others = [("EXPIRED", self.expired), ("BAD", self.bad), ("UNROUTED", self.unrouted)];
        let others = others.into_iter().filter(|(_, output)| *output != NO_OUTPUT);
        let others = others.map(|(name, output)| (name.to_owned(), output));
        let mut warnings = annotated::beyond_outputs(cx, self.anno, others.chain(routes));
        warnings.extend(self.predicate.and_then(|predicate| predicate.unwritten(cx)));
        Ok(warnings)
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        self.launch_and_forward(cx, batch);
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("verdicts"),
                HandlerSpec::read("on_device"),
                HandlerSpec::read("on_cores"),
                HandlerSpec::read("table").expensive(),
                HandlerSpec::read("lookup").with_param(),
                HandlerSpec::write("add"),
                HandlerSpec::write("set"),
                HandlerSpec::write("remove"),
                HandlerSpec::write("ctrl"),
            ]
        }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "on_device" => self.on_device.to_string(),
            "on_cores" => self.on_cores.to_string(),
            "verdicts" => {
                let mut text = String::new();
                for (count, verdict) in self.verdicts.iter().zip(VERDICTS) {
                    // Writing to a `String` cannot fail.
                    let _ = writeln!(text, "{count}\t{verdict}");
                }
                text
            }
            _ => return self.own.read(cx, name, param),
        })
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
