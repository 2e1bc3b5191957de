//! Detects with Snort or Suricata rules in wide batches; the device searches the payloads.
//!
//! # Synopsis
//! `GPUIDSMatcher(RULES FILE [FILE ...] [, OUT FILE, VARS "NAME=VALUE" ..., LINK LINK, STATE STATE,
//! FLOWS_MAX N, MEMORY_MAX BYTES, FRAGMENTS_MAX BYTES, WINDOW BYTES, PAYLOAD BYTES, ANNO PLACE,
//! CHK_ANNO PLACE=NUMBER])`,
//! `GPUIDSMatcher(FOR ELEMENT [, LOOKUP N])`
//!
//! # Ports
//! One input, one output; push. Accepts wide batches, see `Batcher`.
//!
//! # Configuration
//! - `RULES`, `OUT`, `VARS`, `LINK`, `STATE`, `FLOWS_MAX`, `MEMORY_MAX`, `FRAGMENTS_MAX`,
//!   `WINDOW`, `PAYLOAD`: as for `IDSMatcher`
//! - `ANNO`: offset of the 4-byte annotation to write: 1 for packets that match a rule, 0 for
//!   others; default: 44
//! - `CHK_ANNO`: predicate; inspects only packets whose 4-byte annotation at `PLACE` is `NUMBER`,
//!   which an earlier element of the chain writes
//! - `FOR`: computes results for an `IDSMatcher` downstream of the chain, instead of `RULES`:
//!   searches payloads of Ethernet frames for its patterns and attaches the results to the packets.
//!   The `IDSMatcher` searches a payload itself if the packet was modified or the payload is at
//!   another place. Payloads with several patterns share a ring of 512 KB for their lists;
//!   overwritten results are not used
//! - `LOOKUP`: with `FOR`, the result slot of the packet (0 or 1) to write; default: the number of
//!   earlier lookups with `FOR` in the chain
//!
//! The device searches all payloads for the fast patterns of the rules, once for all matchers of a
//! chain. The worker tracks flows and streams in order, after the `GPUCompletionQueue`. It searches
//! the seams between segments and data of out-of-order segments, and confirms the candidates.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | all of `IDSMatcher` | | as there; with a device, `on_device` and `on_cores` count payloads by where they were searched; with `FOR` only these two |
//!
//! # Drops
//! - `no wide batch`: packets that did not pass a `Batcher`
//!
//! # Threads
//! Runs on the worker of its chain. Source: GPUIDSMatcher of Snap (Sun and Ricci, ANCS 2013,
//! section 4), with streams.
//!
//! # Example
//! ```text
//! Batcher -> HostToDeviceMemcpy -> GPUIDSMatcher(RULES conf/ids.rules, OUT eve.json)
//!   -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> hit :: Dispatcher(ANNO 44);
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpswitch_gpu::Chain;
use warpswitch_graph::language::args::{Args, ArgsError, ElementRef};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_ids::{GROUPS, payload};
use warpswitch_inspect::results::{self, ResultWriter};
use warpswitch_inspect::{IdsMatcher, ids_packet};
use warpswitch_packet::{Batch, CACHED_RESULTS, CachedResult, Column, PacketView};
use warpswitch_scan::Patterns;
use warpswitch_wire::link::LinkType;

use super::anno::{self, FOUND_ANNO, Meant, Predicate, Written};
use super::device_element::{DeviceClass, DeviceElement, Joined, Target};
use super::load::{Load, Step};
use super::members;
use super::place::Offload;
use super::searches::{Found, Part};
use super::texts::{BatchTexts, Wanted};

/// The element class.
pub static CLASS: ElementClass =
    ElementClass::new("GPUIDSMatcher", "1/1", "h/h", || Box::<GpuIdsMatcher>::default())
        .drops(&["no wide batch"])
        .on_device()
        .extension(&DEVICE);

static DEVICE: DeviceClass = DeviceClass::new::<GpuIdsMatcher>(FOUND_ANNO)
    .targets(&[Target { class: "IDSMatcher", cost: 40 }]);

/// Element `GPUIDSMatcher`.
pub struct GpuIdsMatcher {
    own: IdsMatcher,
    anno: usize,
    predicate: Option<Predicate>,
    meant: Meant,
    numbers: Vec<u32>,
    /// Link type of the searched packets; `None` without a device.
    link: Option<LinkType>,
    /// The matches of this element's patterns, if the union of the chain has others.
    picked: Found,
    /// The element of `FOR`.
    target: Option<usize>,
    /// The result slot of `LOOKUP`.
    number: Option<usize>,
    /// Slot and owner of the results.
    slot: usize,
    owner: u16,
    version: u32,
    /// Writes the results of `FOR`.
    writer: Option<ResultWriter>,
}

impl Default for GpuIdsMatcher {
    fn default() -> Self {
        Self {
            own: IdsMatcher::default(),
            anno: FOUND_ANNO,
            predicate: None,
            meant: Meant::default(),
            numbers: Vec::new(),
            link: None,
            picked: Found::default(),
            target: None,
            number: None,
            slot: 0,
            owner: 0,
            version: 0,
            writer: None,
        }
    }
}

impl GpuIdsMatcher {
    /// The payloads of a batch and the chain that searches them; `None` if the batch bypassed the
    /// device or its link type differs.
    fn texts<'l>(&self, load: &'l mut Load) -> Option<(&'l mut BatchTexts, &'l mut Chain)> {
        let list = load.texts.as_mut().filter(|list| self.link == Some(list.link))?;
        Some((list, load.chain.as_mut()?))
    }

    /// Counts the payloads of a bypassed batch, which the worker searches.
    fn count_bypassed(&self, batch: &Batch) {
        let (Some(link), Some((engine, _))) = (self.link, self.own.engine()) else { return };
        let patterns = engine.patterns();
        let is_searched = |packet: PacketView<'_>| {
            let found = payload(&ids_packet(packet, link, 0));
            found.is_some_and(|(group, text)| !patterns[group].is_empty() && !text.is_empty())
        };
        let ours = batch.views().iter().enumerate().filter(|(place, _)| self.meant.has(*place));
        let on_cores = ours.filter(|(_, packet)| is_searched(*packet)).count() as u64;
        self.own.counts().on_cores.fetch_add(on_cores, Ordering::Relaxed);
    }

    /// Registers with the `IDSMatcher` of `FOR`, and requests a search for its patterns.
    fn join_for(
        &mut self,
        target: usize,
        cx: &mut Context<'_>,
        offload: &Offload,
        slot: usize,
    ) -> Result<Joined, String> {
        let slot = self.number.unwrap_or(slot);
        let take = |target: &mut IdsMatcher, _: &mut Context<'_>| {
            let (engine, _) = target.engine().ok_or("it has no rules")?;
            let patterns = engine.patterns().map(Patterns::clone);
            let accepted = target.accept(slot, offload.costs()).ok_or(members::ELSEWHERE)?;
            Ok::<_, String>((patterns, accepted))
        };
        let wrong = format!("FOR: '{}' is not an IDSMatcher", cx.graph().elements[target].name);
        let (patterns, accepted) = cx.with_element(target, take).ok_or(wrong)??;
        (self.owner, self.version) = (accepted.owner, accepted.version);
        self.writer = Some(accepted.writer);
        // Results have the place of the payload as key, which depends on the link type.
        let link = LinkType::Ethernet;
        (self.link, self.slot) = (Some(link), slot);
        let texts = Some(Wanted { link, patterns, is_ahead: true });
        Ok(Joined { slice: None, texts, answer_bytes: 0, slot: Some(slot), only: None })
    }

    /// Attaches the matches to the packets as results.
    fn make_results(&mut self, step: &Step, load: &mut Load, packets: usize) {
        let Load { texts: Some(list), chain: Some(chain), results, .. } = load else { return };
        list.read(chain);
        let list = &*list;
        let Some(part) = list.searches.of(step.element) else { return };
        self.count(part, list, chain.was_rescued());
        let Some(writer) = &mut self.writer else { return };
        let found = own_found(part, list, &mut self.picked, |_| true);
        results.resize(packets, [CachedResult::NONE; CACHED_RESULTS]);
        let (version, owner) = (self.version, self.owner);
        for ((place, results), &key) in results.iter_mut().enumerate().zip(list.keys()) {
            let Some(key) = key else { continue };
            let patterns = match results::has_text(key, |group| part.has(group)) {
                true => found.of(place),
                false => Some(&[][..]),
            };
            if let Some((answer, key)) = patterns.and_then(|found| writer.answer(found, key)) {
                results[self.slot] = CachedResult { version, key, answer, owner };
            }
        }
    }

    fn count(&self, part: Part<'_>, list: &BatchTexts, was_rescued: bool) {
        let (searched, asked) = list.counts(|group| part.has(group));
        let (on_device, on_cores) =
            if was_rescued { (0, searched + asked) } else { (searched, asked) };
        let counts = self.own.counts();
        counts.on_device.fetch_add(on_device, Ordering::Relaxed);
        counts.on_cores.fetch_add(on_cores, Ordering::Relaxed);
    }
}

/// The matches of an element's own patterns; in `picked` if the union of the chain has others.
fn own_found<'f>(
    part: Part<'_>,
    list: &'f BatchTexts,
    picked: &'f mut Found,
    is_for: impl Fn(usize) -> bool,
) -> &'f Found {
    if (0..GROUPS).all(|group| part.is_all(group)) {
        return list.found();
    }
    picked.pick(part, list.found(), is_for);
    picked
}

impl DeviceElement for GpuIdsMatcher {
    fn join(
        &mut self,
        cx: &mut Context<'_>,
        offload: &Arc<Offload>,
        slot: usize,
    ) -> Result<Joined, String> {
        if let Some(target) = self.target {
            return self.join_for(target, cx, offload, slot);
        }
        let Some((engine, link)) = self.own.engine() else {
            return Err("it has no rules".to_owned());
        };
        let patterns = engine.patterns().map(Patterns::clone);
        let texts = Some(Wanted { link, patterns, is_ahead: false });
        self.link = Some(link);
        Ok(Joined { slice: None, texts, answer_bytes: 0, slot: None, only: self.predicate })
    }

    fn written(&self) -> Option<Written> {
        let written = Written { place: self.anno, predicate: self.predicate };
        self.target.is_none().then_some(written)
    }

    fn launch(&mut self, cx: &mut Context<'_>, load: &mut Load, _packets: usize) {
        if let Some((list, chain)) = self.texts(load) {
            list.search(chain);
        }
        load.steps.push(Step::new(cx.element()));
    }

    fn apply(&mut self, cx: &mut Context<'_>, step: &Step, load: &mut Load, batch: &mut Batch) {
        if self.target.is_some() {
            return self.make_results(step, load, batch.len());
        }
        self.meant.read(self.predicate, &load.branch, batch);
        let (mut found, mut picked) = (None, std::mem::take(&mut self.picked));
        if let Some((list, chain)) = self.texts(load) {
            list.read(chain);
            let list = &*list;
            if let Some(part) = list.searches.of(step.element) {
                self.count(part, list, chain.was_rescued());
                let meant = &self.meant;
                found = Some(own_found(part, list, &mut picked, |place| meant.has(place)));
            }
        }
        if found.is_none() {
            self.count_bypassed(batch);
        }
        let Self { own, anno, meant, numbers, .. } = self;
        let hits = own.look(
            cx,
            batch,
            meant.packets(),
            |place| Some(warpswitch_ids::Found { patterns: found?.of(place)?, place: None }),
            |places, groups| found.map_or(0, |found| found.searched_in_vain(places, groups)),
        );
        if hits.len() == batch.len() && meant.packets().is_none() && !hits.contains(&true) {
            batch.set_annos(*anno, Column::All(0));
        } else if hits.len() == batch.len() {
            numbers.clear();
            numbers.extend(hits.iter().map(|&is_hit| u32::from(is_hit)));
            meant.write(batch, *anno, numbers);
        }
        self.picked = picked;
    }
}

impl Element for GpuIdsMatcher {
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
        self.own.configure(args, context)
    }

    fn check_place(&mut self, cx: &mut Context<'_>) -> Result<Vec<String>, String> {
        members::expect_chain(cx)?;
        let mut told = members::look_at_target(cx, self.target)?;
        told.extend(self.predicate.and_then(|predicate| predicate.unwritten(cx)));
        Ok(told)
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.own.start(cx)
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        self.launch_and_forward(cx, batch);
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const FOR_ANOTHER: &[HandlerSpec] =
            &[HandlerSpec::read("on_device"), HandlerSpec::read("on_cores")];
        if self.target.is_some() { FOR_ANOTHER } else { self.own.handlers() }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        let counts = self.own.counts();
        match (self.target, name) {
            (Some(_), "on_device") => Ok(counts.on_device.load(Ordering::Relaxed).to_string()),
            (Some(_), _) => Ok(counts.on_cores.load(Ordering::Relaxed).to_string()),
            (None, _) => self.own.read(cx, name, param),
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

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.own.take_state(cx, &mut old.own);
        }
    }

    fn finish(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.own.finish(cx)
    }
}
