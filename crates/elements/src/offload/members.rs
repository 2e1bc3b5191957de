//! The elements between a `Batcher` and its `Debatcher`.

use std::sync::Arc;

use warpswitch_graph::language::PortRef;
use warpswitch_graph::language::args::Args;
use warpswitch_graph::{Context, Element};
use warpswitch_packet::{AHEAD_LOOKUPS, Batch};

use super::anno::Written;
use super::batcher::Batcher;
use super::gpu_ids_matcher::GpuIdsMatcher;
use super::gpu_ip_forward::GpuIpForward;
use super::gpu_ip_lookup::GpuIpLookup;
use super::gpu_ip6_lookup::GpuIp6Lookup;
use super::gpu_sdn_classifier::GpuSdnClassifier;
use super::load::{Load, Step};
use super::place::Offload;
use super::plan;
use super::slices::Slice;
use super::texts::Wanted;

/// What members of a chain are called, in their order; those between the first and the second have
/// kernels.
const FIRST: &str = "HostToDeviceMemcpy";
const LAST: [&str; 3] = ["DeviceToHostMemcpy", "GPUCompletionQueue", "Debatcher"];

/// Why an element's answers cannot be looked up ahead.
pub(super) const ELSEWHERE: &str = "the element has another LOOKUP in another chain";

/// What an element with a kernel does in its chain.
pub(super) trait ChainMember: Element {
    /// Gets ready for a device, in a chain in which it has the lookup with number `lookup` if its
    /// answers are for an element behind.
    ///
    /// # Errors
    /// Why it cannot.
    fn join(
        &mut self,
        cx: &mut Context<'_>,
        offload: &Arc<Offload>,
        lookup: usize,
    ) -> Result<Joined, String>;

    /// Where it writes answers to packets, if it does.
    fn written(&self) -> Option<Written>;

    /// Does to packets what its answers ask for.
    fn apply(&mut self, cx: &mut Context<'_>, step: &Step, load: &mut Load, batch: &mut Batch);
}

/// An element with a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    element: usize,
    kind: &'static Kind,
}

type MaybeJoined = Result<Joined, String>;

/// A class of such elements. Its functions find the element by its number; `None` if it is not of
/// the class, or is another worker's.
#[derive(Debug)]
struct Kind {
    class: &'static str,
    join: fn(usize, &mut Context<'_>, &Arc<Offload>, usize) -> Option<MaybeJoined>,
    written: fn(usize, &mut Context<'_>) -> Option<Option<Written>>,
    apply: fn(&mut Context<'_>, &Step, &mut Load, &mut Batch) -> Option<()>,
}

/// In the order in which errors name them.
static KINDS: [Kind; 5] = [
    Kind::new::<GpuIpLookup>("GPUIPLookup"),
    Kind::new::<GpuIp6Lookup>("GPUIP6Lookup"),
    Kind::new::<GpuIpForward>("GPUIPForward"),
    Kind::new::<GpuSdnClassifier>("GPUSDNClassifier"),
    Kind::new::<GpuIdsMatcher>("GPUIDSMatcher"),
];

impl Kind {
    const fn new<M: ChainMember>(class: &'static str) -> Self {
        Self {
            class,
            join: |element, cx, offload, lookup| {
                cx.with_element(element, |member: &mut M, cx| member.join(cx, offload, lookup))
            },
            written: |element, cx| cx.with_element(element, |member: &mut M, _| member.written()),
            apply: |cx, step, load, batch| {
                let apply = |member: &mut M, cx: &mut Context<'_>| {
                    member.apply(cx, step, load, batch);
                };
                cx.with_element(step.element, apply)
            },
        }
    }

    fn of(class: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.class == class)
    }
}

/// What a member brings to its chain.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    /// What it looks at; none if that is no slice.
    pub(super) slice: Option<Slice>,
    /// Payloads that it has searched.
    pub(super) texts: Option<Wanted>,
    pub(super) answer_bytes: usize,
    /// Which of a packet's answers are its, if they are for an element behind the chain.
    pub(super) ahead: Option<usize>,
}

/// The class of an element, and how it is named in errors.
fn class_of(cx: &Context<'_>, element: usize) -> (String, String) {
    let element = &cx.graph().elements[element];
    (element.class.clone(), format!("'{} :: {}'", element.name, element.class))
}

/// The element that output 0 of `element` leads to.
fn next(cx: &Context<'_>, element: usize) -> Option<usize> {
    cx.flow().targets(PortRef { element, port: 0 }).first().map(|target| target.element)
}

/// The members with kernels of the chain that begins behind this element.
///
/// # Errors
/// Where it is not as it has to be.
pub(super) fn of_chain(cx: &mut Context<'_>) -> Result<Vec<Member>, String> {
    let mut members = Vec::new();
    let (mut at, mut expected) = (next(cx, cx.element()), vec![FIRST]);
    for _ in 0..=cx.graph().elements.len() {
        let wanted = expected.join(" or ");
        let Some(element) = at else {
            return Err(format!("the chain ends where {wanted} was expected"));
        };
        let (class, name) = class_of(cx, element);
        if cx.flow().origins(PortRef { element, port: 0 }).len() > 1 {
            return Err(format!("{name} gets packets of others, too: a chain has one Batcher"));
        }
        // Whom an element asks before the run, the same worker runs.
        cx.with_element(element, |_: &mut Batcher, _| ());
        let kind = Kind::of(&class).filter(|_| expected.len() > 1);
        match kind {
            Some(kind) => members.push(Member { element, kind }),
            None if !expected.contains(&class.as_str()) => {
                return Err(format!("{name} takes no wide batches here: {wanted} was expected"));
            }
            None if class == FIRST => {
                expected = KINDS.iter().map(|kind| kind.class).chain([LAST[0]]).collect();
            }
            None => match LAST.iter().position(|last| *last == class) {
                Some(place) if place + 1 < LAST.len() => expected = vec![LAST[place + 1]],
                _ => return Ok(members),
            },
        }
        at = next(cx, element);
    }
    Err("the chain goes in a circle".to_owned())
}

/// Members whose answers another one behind them writes over, in words.
pub(super) fn overwritten(cx: &mut Context<'_>, members: &[Member]) -> Vec<String> {
    let (mut told, mut before) = (Vec::new(), Vec::<(usize, Written)>::new());
    for member in members {
        let Some(Some(written)) = (member.kind.written)(member.element, cx) else { continue };
        if let Some(&(first, _)) = before.iter().rev().find(|(_, first)| written.hides(*first)) {
            let (first, second) = (class_of(cx, first).1, class_of(cx, member.element).1);
            let place = written.place;
            told.push(format!("{second} writes to ANNO {place}, where {first} has written"));
        }
        before.push((member.element, written));
    }
    told
}

/// Whether this element stands in a chain.
///
/// # Errors
/// If it does not.
pub(super) fn expect_chain(cx: &Context<'_>) -> Result<(), String> {
    let origins = cx.flow().origins(PortRef { element: cx.element(), port: 0 });
    let is_member = |class: &str| {
        class == "Batcher" || class == FIRST || LAST.contains(&class) || Kind::of(class).is_some()
    };
    let mut classes = origins.iter().map(|from| &cx.graph().elements[from.element].class);
    match classes.all(|class| is_member(class) && class != LAST[LAST.len() - 1]) {
        true => Ok(()),
        false => Err("takes wide batches only: a Batcher has to lead to it".to_owned()),
    }
}

/// Whether what this element looks up FOR is of a class that its form is for. Gives what is strange
/// about its place.
///
/// # Errors
/// If it is not.
pub(super) fn look_at_target(
    cx: &Context<'_>,
    target: Option<usize>,
) -> Result<Vec<String>, String> {
    let Some(target) = target else { return Ok(Vec::new()) };
    let own = &cx.graph().elements[cx.element()].class;
    let (class, name) = class_of(cx, target);
    if plan::form(&class) != Some(own) {
        return Err(format!("FOR: {name} is none that a {own} can look up for"));
    }
    if cx.flow().downstream(cx.element(), None, |_| false).contains(&target) {
        return Ok(Vec::new());
    }
    Ok(vec![format!(
        "FOR: no packet comes from here to {name}, so the answers are for nobody: put the chain \
         somewhere in front of it"
    )])
}

/// Refuses what says where, and for whom, answers are written: with FOR they are not.
pub(super) fn refuse_with_target(args: &mut Args<'_>) {
    for keyword in ["ANNO", "CHK_ANNO"] {
        let mut text = None::<String>;
        args.read(keyword, &mut text);
        if text.is_some() {
            args.error_at(keyword, "not with FOR: who takes the answers decides");
        }
    }
}

/// Reads `LOOKUP`.
pub(super) fn read_number(args: &mut Args<'_>) -> Option<usize> {
    let mut number = None::<u32>;
    args.read("LOOKUP", &mut number);
    let number = number? as usize;
    if number >= AHEAD_LOOKUPS {
        args.error_at("LOOKUP", &format!("expected a number below {AHEAD_LOOKUPS}"));
        return None;
    }
    Some(number)
}

/// The `Batcher` that the chain of this element begins with.
pub(super) fn batcher_before(cx: &Context<'_>) -> Option<usize> {
    let mut at = cx.element();
    for _ in 0..cx.graph().elements.len() {
        at = cx.flow().origins(PortRef { element: at, port: 0 }).first()?.element;
        if cx.graph().elements[at].class == "Batcher" {
            return Some(at);
        }
    }
    None
}

impl Member {
    /// The element.
    pub(super) fn element(self) -> usize {
        self.element
    }

    /// Has the element [join](ChainMember::join) its chain.
    ///
    /// # Errors
    /// Why it cannot.
    pub(super) fn join(
        self,
        cx: &mut Context<'_>,
        offload: &Arc<Offload>,
        lookup: usize,
    ) -> Result<Joined, String> {
        let joined = (self.kind.join)(self.element, cx, offload, lookup);
        let name = class_of(cx, self.element).1;
        joined.expect("it has the class").map_err(|error| format!("{name}: {error}"))
    }
}

/// Has the element of a step [do](ChainMember::apply) what its answers ask for.
pub(super) fn apply(cx: &mut Context<'_>, step: &Step, load: &mut Load, batch: &mut Batch) {
    let kind = Kind::of(&cx.graph().elements[step.element].class).expect("members have steps");
    (kind.apply)(cx, step, load, batch).expect("a chain belongs to one worker");
}
