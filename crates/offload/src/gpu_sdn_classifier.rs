//! Classifies frames of wide batches by the rules of a file, on the device.
//!
//! # Synopsis
//! `GPUSDNClassifier(RULES FILE, [RULES_FORMAT FORMAT, MISS OUTPUT, TCP_FLAGS BOOL, ENGINE ENGINE,
//! ANNO PLACE, CHK_ANNO PLACE=NUMBER])`,
//! `GPUSDNClassifier(FOR ELEMENT [, ENGINE ENGINE, CHK_ANNO PLACE=NUMBER])`
//!
//! # Ports
//! One input, one output; push. Accepts wide batches of Ethernet frames, see `Batcher`.
//!
//! # Configuration
//! - `RULES`, `RULES_FORMAT`, `MISS`, `TCP_FLAGS`: as for `SDNClassifier`; outputs are those of a
//!   `Dispatcher` downstream of the chain
//! - `ENGINE`: engine on the device; default: `turbo`
//! - `ANNO`: offset of the 4-byte annotation to write with the output number, or with 0xffffffff
//!   for frames to drop; default: 40
//! - `CHK_ANNO`: predicate; applies only to frames whose 4-byte annotation at `PLACE` is `NUMBER`,
//!   which an earlier element writes. With `FOR`, other frames keep the results that they carry, so
//!   that what a `RuleCache` has answered never crosses the link
//! - `FOR`: computes results for an `SDNClassifier` downstream of the chain, from its rules. The
//!   element uses a result unless the frame was modified or the rules changed
//! - `LOOKUP`: with `FOR`, the result slot of the packet (0 or 1) to write; default: the number of
//!   earlier lookups with `FOR` in the chain. All chains must use the same slot for one element
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `rules`, `hits`, `engine`, `bytes`, `add`, `remove`, `reset_counts` | | as of `SDNClassifier`, without `FOR` |
//! | `on_device` | read | frames whose results came from the device |
//! | `on_cores` | read | frames classified by the worker: no device, or the rules had changed |
//!
//! # Drops
//! - `no wide batch`: packets that did not pass a `Batcher`
//!
//! # Threads
//! Runs on the worker of its chain. Source: GPUSDNClassifier of Snap (Sun and Ricci, ANCS 2013,
//! section 4), with native port ranges.
//!
//! # Example
//! ```text
//! Batcher -> HostToDeviceMemcpy -> GPUSDNClassifier(RULES web.flows, MISS 2)
//!   -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> out :: Dispatcher;
//! ```

use std::sync::{Arc, Mutex};

use warpswitch_elements_lookup::{KEYLESS, SdnClassifier};
use warpswitch_elements_support::cached::{CachedLookup, TableVersion};
use warpswitch_gpu::Algorithm;
use warpswitch_gpu::chain::SharedLane;
use warpswitch_graph::language::args::{Args, ArgsError, ElementRef};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::{Batch, CACHED_RESULTS, CachedResult};
use warpswitch_rules::{RuleId, Schema};

use super::anno::{self, Meant, NO_OUTPUT, NUMBER_ANNO, Predicate, Written};
use super::annotated;
use super::device_element::{DeviceClass, DeviceElement, Joined, Target};
use super::load::{Load, Step};
use super::members;
use super::mirrors::{self, RuleMirror};
use super::place::Offload;
use super::slices::Slice;

/// The element class.
pub static CLASS: ElementClass =
    ElementClass::new("GPUSDNClassifier", "1/1", "h/h", || Box::<GpuSdnClassifier>::default())
        .drops(&["no wide batch"])
        .on_device()
        .extension(&DEVICE)
        .dear();

static DEVICE: DeviceClass = DeviceClass::new::<GpuSdnClassifier>(NUMBER_ANNO)
    .targets(&[Target { class: "SDNClassifier", cost: 30 }]);

/// Exceeds the number of outputs of any dispatcher.
const OUTPUTS_MAX: usize = 1 << 16;

/// Element `GPUSDNClassifier`.
pub struct GpuSdnClassifier {
    /// The rules; not used with a `target`.
    own: SdnClassifier,
    /// The element of `FOR`.
    target: Option<usize>,
    /// The result slot of `LOOKUP`.
    number: Option<usize>,
    algorithm: Algorithm,
    anno: usize,
    predicate: Option<Predicate>,
    rules: Option<Arc<RuleMirror>>,
    /// Chooses between launches and the resident kernel; `None` if this is not the only element of
    /// the chain, or the device has no lane left.
    lane: Option<SharedLane>,
    /// Version of the rules.
    version: Arc<TableVersion>,
    schema: Option<&'static Schema>,
    /// Slot and owner of the results.
    slot: usize,
    owner: u16,
    answers: Vec<RuleId>,
    meant: Meant,
    on_device: u64,
    on_cores: u64,
}

impl Default for GpuSdnClassifier {
    fn default() -> Self {
        Self {
            own: SdnClassifier::default(),
            target: None,
            number: None,
            algorithm: Algorithm::Turbo,
            anno: NUMBER_ANNO,
            predicate: None,
            rules: None,
            lane: None,
            version: Arc::default(),
            schema: None,
            slot: 0,
            owner: 0,
            answers: Vec::new(),
            meant: Meant::default(),
            on_device: 0,
            on_cores: 0,
        }
    }
}

impl GpuSdnClassifier {
    /// Takes the ids of a step out of the chain's answers, one a packet.
    fn unpack(&mut self, load: &Load, step: &Step, packets: usize) -> bool {
        let Some(column) = load.column(step) else { return false };
        let Some(chain) = load.chain.as_ref().filter(|_| !step.answers.is_empty()) else {
            return false;
        };
        self.answers.clear();
        let answers = &chain.answers()[step.answers.clone()];
        self.answers.extend(answers.iter().map(|&id| RuleId(id)));
        column.scatter(packets, RuleId::NONE, &mut self.answers);
        true
    }
}

impl DeviceElement for GpuSdnClassifier {
    fn join(
        &mut self,
        cx: &mut Context<'_>,
        offload: &Arc<Offload>,
        slot: usize,
    ) -> Result<Joined, String> {
        let slot = self.number.unwrap_or(slot);
        let algorithm = self.algorithm;
        let of = |element: &mut SdnClassifier| {
            let schema = element.schema().ok_or("it has no rules")?;
            let rules = mirrors::rules_of(element, offload, algorithm)?;
            Ok::<_, String>((rules, schema, element.results().version().clone()))
        };
        let ((rules, schema, version), owner) = match self.target {
            None => (of(&mut self.own)?, 0),
            Some(target) => {
                let mirror = |target: &mut SdnClassifier, _: &mut Context<'_>| {
                    let owner = target.results().accept(slot, offload.costs());
                    Ok::<_, String>((of(target)?, owner.ok_or(members::ELSEWHERE)?))
                };
                let name = &cx.graph().elements[target].name;
                let wrong = format!("FOR: '{name}' is not an SDNClassifier");
                cx.with_element(target, mirror).ok_or(wrong)??
            }
        };
        let lane = if members::is_alone(cx) { rules.0.lane() } else { None };
        self.lane = lane.map(|lane| Arc::new(Mutex::new(lane)));
        (self.rules, self.schema, self.version) = (Some(rules), Some(schema), version);
        (self.slot, self.owner) = (slot, owner);
        let slot = self.target.map(|_| slot);
        Ok(Joined { slot, only: self.predicate, ..Joined::new(Slice::Key(schema), 4) })
    }

    fn written(&self) -> Option<Written> {
        self.target.is_none().then_some(Written { place: self.anno, predicate: self.predicate })
    }

    fn launch(&mut self, cx: &mut Context<'_>, load: &mut Load, packets: usize) {
        let mut step = Step::new(cx.element());
        step.sees_paints = self.target.is_none();
        let place = load.place(&step, packets);
        if let (Some(chain), Some(rules), Some((at, count))) = (&mut load.chain, &self.rules, place)
        {
            let current = rules.0.current();
            step.answers = match &self.lane {
                Some(lane) => chain.only_step(lane, &current, at, count),
                None => chain.step(&current, at, count),
            };
            step.version = self.version.get();
        }
        load.steps.push(step);
    }

    fn apply(&mut self, cx: &mut Context<'_>, step: &Step, load: &mut Load, batch: &mut Batch) {
        let slice = self.schema.map(Slice::Key);
        let count = load.place(step, batch.len()).map_or(batch.len(), |place| place.1);
        let count = count as u64;
        let has_answers = self.unpack(load, step, batch.len());
        let Load { keyless, results, keeps_results, frame_keys, paints, branch, .. } = load;
        let keyless = keyless.iter().filter(|(of, _)| Some(*of) == slice).map(|&(_, idx)| idx);
        if self.target.is_some() {
            if !has_answers {
                return;
            }
            self.on_device += count;
            results.resize(batch.len(), [CachedResult::NONE; CACHED_RESULTS]);
            self.meant.read(self.predicate, branch, batch);
            *keeps_results |= self.predicate.is_some();
            let (version, slot, owner) = (step.version, self.slot, self.owner);
            let answers = self.answers.iter().map(|id| id.0);
            let all = results.iter_mut().zip(answers).zip(frame_keys.iter()).enumerate();
            for (at, ((results, answer), key)) in all {
                if let Some(key) = *key
                    && self.meant.has(at)
                {
                    results[slot] = CachedResult { version, key, answer, owner };
                }
            }
            keyless.for_each(|idx| results[idx][slot].answer = KEYLESS);
            return;
        }
        self.own.look_at_headers(cx, batch);
        let is_valid = has_answers && self.own.results().holds(step.version);
        *(if is_valid { &mut self.on_device } else { &mut self.on_cores }) += count;
        let paints = (!paints.is_empty()).then_some(&paints[..]);
        let Self { own, answers, meant, .. } = self;
        meant.read(self.predicate, branch, batch);
        let answers = is_valid.then_some(answers);
        let outputs = own.outputs(batch, answers, paints, keyless, meant.packets());
        let outputs = &mut outputs[..batch.len()];
        for output in &mut *outputs {
            *output = if (*output as usize) < OUTPUTS_MAX { *output } else { NO_OUTPUT };
        }
        meant.write(batch, self.anno, outputs);
    }
}

impl Element for GpuSdnClassifier {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut target, mut engine) = (None::<ElementRef>, None::<String>);
        args.read("FOR", &mut target).read("ENGINE", &mut engine);
        match engine.map(|name| name.parse::<Algorithm>()).transpose() {
            Ok(algorithm) => self.algorithm = algorithm.unwrap_or(self.algorithm),
            Err(error) => args.error_at("ENGINE", &error.to_string()),
        }
        if let Some(ElementRef(target)) = target {
            members::refuse_with_target(args, &["ANNO"]);
            self.predicate = Predicate::read(args);
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
            HandlerSpec::read("rules"),
            HandlerSpec::read("hits"),
            HandlerSpec::read("engine"),
            HandlerSpec::read("bytes"),
            HandlerSpec::write("add"),
            HandlerSpec::write("remove"),
            HandlerSpec::button("reset_counts"),
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

    fn finish(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.own.finish(cx)
    }
}
