//! The structure of a chain: the elements between a `Batcher` and its `Debatcher`.

use std::sync::Arc;

use warpswitch_graph::Context;
use warpswitch_graph::language::PortRef;
use warpswitch_graph::language::args::Args;
use warpswitch_packet::{Batch, CACHED_RESULTS};

use super::anno::{Predicate, Written};
use super::batcher::Batcher;
use super::branches;
use super::device_element::{DeviceClass, Joined};
use super::load::{Load, Step};
use super::place::Offload;

/// Classes of the members of a chain, in order. Device elements stand between `FIRST` and
/// `LAST[0]`.
const FIRST: &str = "HostToDeviceMemcpy";
const LAST: [&str; 3] = ["DeviceToHostMemcpy", "GPUCompletionQueue", "Debatcher"];

/// Error for an element that uses two different result slots.
pub(super) const ELSEWHERE: &str = "the element uses a different LOOKUP in another chain";

/// A device element of a chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    element: usize,
    class: &'static DeviceClass,
    /// The branch that it is on; `None` if it is for the packets of all branches.
    branch: Option<Predicate>,
}

/// The extension of an element's class; `None` if it is not a device element.
fn device_class(cx: &Context<'_>, element: usize) -> Option<&'static DeviceClass> {
    DeviceClass::of(cx.class_of(element))
}

/// Whether an element emits wide batches between the copies to and from the device. Excludes
/// `Dispatcher`s.
pub(super) fn is_on_device(cx: &Context<'_>, element: usize) -> bool {
    cx.graph().elements[element].class == FIRST || device_class(cx, element).is_some()
}

/// The class of an element, and its name in errors.
fn class_of(cx: &Context<'_>, element: usize) -> (String, String) {
    (cx.graph().elements[element].class.clone(), name_of(cx, element))
}

/// The name of an element in errors.
pub(super) fn name_of(cx: &Context<'_>, element: usize) -> String {
    format!("'{}'", cx.graph().elements[element].declaration())
}

/// The element that an output leads to.
pub(super) fn next(cx: &Context<'_>, output: PortRef) -> Option<usize> {
    cx.flow().targets(output).first().map(|target| target.element)
}

/// Checks that an element of a chain has no more than `inputs` connections to its input, and
/// assigns it to the worker of the chain.
///
/// # Errors
/// If it has others.
pub(super) fn enter(cx: &mut Context<'_>, element: usize, inputs: usize) -> Result<(), String> {
    if cx.flow().origins(PortRef { element, port: 0 }).len() > inputs {
        return Err(format!(
            "{} has other inputs, too: a chain has one Batcher, and its branches join at {}",
            name_of(cx, element),
            LAST[0]
        ));
    }
    // Access before the run assigns both elements to the same worker.
    cx.with_element(element, |_: &mut Batcher, _| ());
    Ok(())
}

/// Appends the device elements from `at` on; returns the first other element. Terminates because
/// each has one input, so none is visited twice.
///
/// # Errors
/// If one has other inputs.
pub(super) fn device_elements(
    cx: &mut Context<'_>,
    mut at: Option<usize>,
    branch: Option<Predicate>,
    members: &mut Vec<Member>,
) -> Result<Option<usize>, String> {
    while let Some(element) = at
        && let Some(class) = device_class(cx, element)
    {
        enter(cx, element, 1)?;
        members.push(Member { element, class, branch });
        at = next(cx, PortRef { element, port: 0 });
    }
    Ok(at)
}

/// Checks that `at` is an element of `class`, with `inputs` connections to its input. Returns the
/// next element. `wanted` are the valid elements in errors.
fn pass(
    cx: &mut Context<'_>,
    at: Option<usize>,
    class: &str,
    wanted: &str,
    inputs: usize,
) -> Result<Option<usize>, String> {
    let element = at.ok_or_else(|| format!("the chain ends where {wanted} is required"))?;
    enter(cx, element, inputs)?;
    let (found, name) = class_of(cx, element);
    if found != class {
        return Err(format!("expected {wanted} here, not {name}"));
    }
    Ok(next(cx, PortRef { element, port: 0 }))
}

/// The device elements of the chain downstream of this `Batcher`, branch by branch.
///
/// # Errors
/// The first element that is invalid at its position.
pub(super) fn of_chain(cx: &mut Context<'_>) -> Result<Vec<Member>, String> {
    let mut members = Vec::new();
    let mut at = next(cx, PortRef { element: cx.element(), port: 0 });
    at = pass(cx, at, FIRST, FIRST, 1)?;
    at = device_elements(cx, at, None, &mut members)?;
    let (mut inputs, wanted) = (1, format!("a device element or {}", LAST[0]));
    if let Some(dispatcher) = at.filter(|&at| cx.graph().elements[at].class == branches::CLASS) {
        (at, inputs) = branches::of_dispatcher(cx, dispatcher, &mut members)?;
    }
    let [first, rest @ ..] = LAST;
    at = pass(cx, at, first, &wanted, inputs)?;
    for class in rest {
        at = pass(cx, at, class, class, 1)?;
    }
    Ok(members)
}

/// Whether this element is the only device element of its chain.
pub(super) fn is_alone(cx: &Context<'_>) -> bool {
    let own = PortRef { element: cx.element(), port: 0 };
    let flow = cx.flow();
    let class_at = |port: &PortRef| cx.graph().elements[port.element].class.as_str();
    flow.origins(own).iter().map(class_at).eq([FIRST])
        && flow.targets(own).iter().map(class_at).eq([LAST[0]])
}

/// Warnings about members whose results a later member overwrites.
pub(super) fn overwritten(cx: &mut Context<'_>, members: &[Member]) -> Vec<String> {
    let (mut warnings, mut before) = (Vec::new(), Vec::<(Member, Written)>::new());
    for member in members {
        let Some(Some(written)) = (member.class.written)(member.element, cx) else { continue };
        let hides = |(first, of_first): &&(Member, Written)| {
            written.hides(*of_first) && !member.is_apart_from(*first)
        };
        if let Some(&(first, _)) = before.iter().rev().find(hides) {
            let (first, second) = (name_of(cx, first.element), name_of(cx, member.element));
            let place = written.place;
            warnings.push(format!("{second} overwrites ANNO {place} of {first}"));
        }
        before.push((*member, written));
    }
    warnings
}

/// Checks that this element is a member of a chain.
///
/// # Errors
/// If it does not.
pub fn expect_chain(cx: &Context<'_>) -> Result<(), String> {
    let origins = cx.flow().origins(PortRef { element: cx.element(), port: 0 });
    let is_member = |element: usize| {
        let class = cx.graph().elements[element].class.as_str();
        match class {
            branches::CLASS => branches::is_in_chain(cx, element),
            "Batcher" => true,
            _ => LAST[..LAST.len() - 1].contains(&class) || is_on_device(cx, element),
        }
    };
    match origins.iter().all(|from| is_member(from.element)) {
        true => Ok(()),
        false => Err("accepts only wide batches: put it downstream of a Batcher".to_owned()),
    }
}

/// Checks the class of the element of `FOR`. Returns a warning if packets of this chain do not
/// reach it.
///
/// # Errors
/// If this element cannot compute results for that class.
pub(super) fn look_at_target(
    cx: &Context<'_>,
    target: Option<usize>,
) -> Result<Vec<String>, String> {
    let Some(target) = target else { return Ok(Vec::new()) };
    let own = &cx.graph().elements[cx.element()].class;
    let (class, name) = class_of(cx, target);
    if !device_class(cx, cx.element()).is_some_and(|own| own.serves(&class)) {
        return Err(format!("FOR: {own} cannot compute results for {name}"));
    }
    if cx.flow().downstream(cx.element(), None, |_| false).contains(&target) {
        return Ok(Vec::new());
    }
    Ok(vec![format!("FOR: {name} is unreachable from this chain: place the chain upstream of it")])
}

/// Rejects arguments about annotations, which elements with `FOR` do not write.
pub(super) fn refuse_with_target(args: &mut Args<'_>, keywords: &[&str]) {
    for keyword in keywords {
        let mut text = None::<String>;
        args.read(keyword, &mut text);
        if text.is_some() {
            args.error_at(keyword, "not allowed with FOR, which writes no annotation");
        }
    }
}

/// Reads `LOOKUP`.
pub(super) fn read_number(args: &mut Args<'_>) -> Option<usize> {
    let mut number = None::<u32>;
    args.read("LOOKUP", &mut number);
    let number = number? as usize;
    if number >= CACHED_RESULTS {
        args.error_at("LOOKUP", &format!("expected a number below {CACHED_RESULTS}"));
        return None;
    }
    Some(number)
}

/// The `Batcher` of this element's chain.
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

    /// The branch that it is on.
    pub(super) fn branch(self) -> Option<Predicate> {
        self.branch
    }

    /// Whether its class can compute results for other elements.
    pub(super) fn has_targets(self) -> bool {
        !self.class.targets.is_empty()
    }

    /// Whether no packet is for both members, because they are on different branches.
    fn is_apart_from(self, other: Self) -> bool {
        self.branch.zip(other.branch).is_some_and(|(own, other)| own != other)
    }

    /// Calls [`join`](super::DeviceElement::join) of the element.
    ///
    /// # Errors
    /// That of the element, with its name.
    pub(super) fn join(
        self,
        cx: &mut Context<'_>,
        offload: &Arc<Offload>,
        slot: usize,
    ) -> Result<Joined, String> {
        let joined = (self.class.join)(self.element, cx, offload, slot);
        let name = class_of(cx, self.element).1;
        joined.expect("it has the class").map_err(|error| format!("{name}: {error}"))
    }
}

/// Calls [`launch`](super::DeviceElement::launch) of an element.
pub(super) fn launch(cx: &mut Context<'_>, element: usize, load: &mut Load, packets: usize) {
    let class = device_class(cx, element).expect("branches consist of device elements");
    (class.launch)(element, cx, load, packets).expect("a chain belongs to one worker");
}

/// Calls [`apply`](super::DeviceElement::apply) of the element of a step.
pub(super) fn apply(cx: &mut Context<'_>, step: &Step, load: &mut Load, batch: &mut Batch) {
    let class = device_class(cx, step.element).expect("members have steps");
    load.branch.enter(load.home.branch_of(step.element), batch);
    (class.apply)(cx, step, load, batch).expect("a chain belongs to one worker");
}
