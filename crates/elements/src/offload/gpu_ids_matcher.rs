//! Looks for the rules of Snort or Suricata in wide batches, with the device's help.
//!
//! # Synopsis
//! `GPUIDSMatcher(RULES FILE [FILE ...] [, OUT FILE, VARS "NAME=VALUE" ..., LINK LINK, FLOWS_MAX N,
//! MEMORY_MAX BYTES, WINDOW BYTES, PAYLOAD BYTES, ANNO PLACE, CHK_ANNO PLACE=NUMBER])`
//!
//! # Ports
//! One input, one output; push. Takes wide batches, see `Batcher`.
//!
//! # Configuration
//! - `RULES`, `OUT`, `VARS`, `LINK`, `FLOWS_MAX`, `MEMORY_MAX`, `WINDOW`, `PAYLOAD`: as for
//!   `IDSMatcher`
//! - `ANNO`: place of the annotation that gets 1 for packets that a rule was found in, and 0 for
//!   others, four bytes; 44 by default
//! - `CHK_ANNO`: only packets whose annotation at `PLACE`, of four bytes, is `NUMBER` are looked
//!   into: a predicate, which an element before in the chain has decided
//!
//! The device searches payloads for what is looked for first in each rule, whatever flows they are
//! of. Flows and streams are followed behind the queue, in order: there the worker searches the
//! seams of segments, and segments that came out of order as one text with others, and confirms
//! what was found.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | all of `IDSMatcher` | | as there; `on_device` and `on_cores` count payloads of batches that went to a device, by where they were searched |
//!
//! # Drops
//! - `no wide batch`: packets that did not come through a `Batcher`
//!
//! # Threads
//! Belongs to the worker of its chain. Source: GPUIDSMatcher of Snap (Sun and Ricci, ANCS 2013,
//! section 4), with streams.
//!
//! # Example
//! ```text
//! Batcher -> HostToDeviceMemcpy -> GPUIDSMatcher(RULES conf/ids.rules, OUT eve.json)
//!   -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> told :: Dispatcher(ANNO 44);
//! ```

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpswitch_gpu::device::Loaded;
use warpswitch_gpu::scan::{ScanImage, TextFindings};
use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_ids::GROUPS;
use warpswitch_packet::Batch;
use warpswitch_scan::PatternId;
use warpswitch_wire::link::LinkType;

use super::anno::{self, Predicate};
use super::load::{Load, Step};
use super::members::{self, ChainMember, Joined};
use super::place::Offload;
use super::texts::{BatchTexts, Wanted};
use crate::inspect::ids_matcher::IdsMatcher;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("GPUIDSMatcher", "1/1", "h/h", || Box::<GpuIdsMatcher>::default())
        .drops(&["no wide batch"])
        .on_device();

/// Where it is written whether a rule was found.
const FOUND_ANNO: usize = 44;

/// See the module.
pub struct GpuIdsMatcher {
    own: IdsMatcher,
    anno: usize,
    predicate: Option<Predicate>,
    /// The patterns of each group that has some, on the device.
    images: [Option<Arc<Loaded<ScanImage>>>; GROUPS],
    /// How packets begin, if a device searches them.
    link: Option<LinkType>,
    found: Found,
}

impl Default for GpuIdsMatcher {
    fn default() -> Self {
        Self {
            own: IdsMatcher::default(),
            anno: FOUND_ANNO,
            predicate: None,
            images: [const { None }; GROUPS],
            link: None,
            found: Found::default(),
        }
    }
}

/// What occurs in the payloads of a batch.
#[derive(Debug, Default)]
struct Found {
    ids: Vec<PatternId>,
    /// By packet, which of these are its; none where it is not known.
    of: Vec<Option<Range<usize>>>,
    scratch: TextFindings,
}

impl Found {
    fn of(&self, place: usize) -> Option<&[PatternId]> {
        self.of.get(place)?.clone().map(|range| &self.ids[range])
    }

    fn clear(&mut self, packets: usize) {
        self.ids.clear();
        self.of.clear();
        self.of.resize(packets, None);
    }
}

impl GpuIdsMatcher {
    /// The payloads of a batch, if they begin as this element takes them.
    fn texts<'l>(&self, load: &'l Load) -> Option<&'l BatchTexts> {
        load.texts.as_ref().filter(|list| self.link == Some(list.link))
    }

    /// Reads what the device found.
    fn read_found(&mut self, step: &Step, load: &Load, packets: usize) {
        self.found.clear(packets);
        let (Some(list), Some(chain)) = (self.texts(load), &load.chain) else { return };
        let Found { ids, of, scratch } = &mut self.found;
        let (mut told, mut asked, mut at) = (0, list.left_out, step.answers.start);
        for (group, image) in self.images.iter().enumerate() {
            if image.is_none() {
                continue;
            }
            let end = at + ScanImage::FORM.answers_len(list.texts.pages_of(group).len());
            let Some(words) = chain.answers().get(at..end) else { return };
            list.texts.read(group, words, scratch, |owner, found| match found {
                Some(found) => {
                    told += 1;
                    let start = ids.len();
                    ids.extend_from_slice(found);
                    of[owner as usize] = Some(start..ids.len());
                }
                None => asked += 1,
            });
            at = end;
        }
        let counts = self.own.counts();
        let (on_device, on_cores) =
            if chain.was_rescued() { (0, told + asked) } else { (told, asked) };
        counts.on_device.fetch_add(on_device, Ordering::Relaxed);
        counts.on_cores.fetch_add(on_cores, Ordering::Relaxed);
    }
}

impl ChainMember for GpuIdsMatcher {
    fn join(
        &mut self,
        _cx: &mut Context<'_>,
        offload: &Arc<Offload>,
        _lookup: usize,
    ) -> Result<Joined, String> {
        let Some((engine, link)) = self.own.engine() else {
            return Err("it has no rules".to_owned());
        };
        let mut groups = [false; GROUPS];
        for (group, patterns) in engine.patterns().into_iter().enumerate() {
            groups[group] = !patterns.is_empty();
            let image = groups[group].then(|| Arc::new(ScanImage::new(patterns)));
            self.images[group] = image.map(|image| offload.device().load_or_retire(image));
        }
        self.link = Some(link);
        let texts = Some(Wanted { link, groups });
        Ok(Joined { slice: None, texts, answer_bytes: 0, ahead: None })
    }

    fn apply(&mut self, cx: &mut Context<'_>, step: &Step, load: &mut Load, batch: &mut Batch) {
        self.read_found(step, load, batch.len());
        let Self { own, anno, predicate, found, .. } = self;
        let (anno, predicate) = (*anno, *predicate);
        let is_for = |packet: &warpswitch_packet::Packet| anno::is_for(predicate, packet);
        let hits = own.look(cx, batch, is_for, |place| found.of(place));
        for (packet, &is_hit) in batch.iter_mut().zip(hits) {
            if anno::is_for(predicate, packet) {
                packet.set_anno_u32(anno, is_hit.into());
            }
        }
    }
}

impl Element for GpuIdsMatcher {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        anno::read_place(args, "ANNO", &mut self.anno);
        self.predicate = Predicate::read(args);
        self.own.configure(args, context)
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        members::expect_chain(cx)?;
        self.own.start(cx)
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        let Some(load) = Load::of(&mut batch) else { return cx.drop_batch(batch, 0) };
        let mut step = Step::new(cx.element());
        let list = load.texts.as_ref().filter(|list| self.link == Some(list.link));
        if let (Some(chain), Some(list)) = (&mut load.chain, list) {
            for (group, image) in self.images.iter().enumerate() {
                if let Some(image) = image {
                    let answers = chain.scan(image, list.texts.pages_of(group));
                    let is_first = step.answers.is_empty();
                    let start = if is_first { answers.start } else { step.answers.start };
                    step.answers = start..answers.end;
                }
            }
        }
        load.steps.push(step);
        cx.emit_batch(0, batch);
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        self.own.handlers()
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        self.own.read(cx, name, param)
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
