//! The structure of a chain: the elements between a `Batcher` and its `Debatcher`.

use std::sync::Arc;

use warpswitch_graph::Context;
use warpswitch_graph::language::PortRef;
use warpswitch_graph::language::args::Args;
use warpswitch_packet::{Batch, CACHED_RESULTS};

use super::anno::Written;
use super::batcher::Batcher;
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
}

/// The extension of an element's class; `None` if it is not a device element.
fn device_class(cx: &Context<'_>, element: usize) -> Option<&'static DeviceClass> {
    DeviceClass::of(cx.class_of(element))
}

/// The class of an element, and its name in errors.
fn class_of(cx: &Context<'_>, element: usize) -> (String, String) {
    let element = &cx.graph().elements[element];
    (element.class.clone(), format!("'{} :: {}'", element.name, element.class))
}

/// The element that output 0 of `element` leads to.
fn next(cx: &Context<'_>, element: usize) -> Option<usize> {
    cx.flow().targets(PortRef { element, port: 0 }).first().map(|target| target.element)
}

/// The device elements of the chain downstream of this `Batcher`.
///
/// # Errors
/// The first element that is invalid at its position.
pub(super) fn of_chain(cx: &mut Context<'_>) -> Result<Vec<Member>, String> {
    let mut members = Vec::new();
    let (mut at, mut expected) = (next(cx, cx.element()), FIRST);
    let mut takes_kernels = false;
    for _ in 0..=cx.graph().elements.len() {
        let wanted = match takes_kernels {
            true => format!("a device element or {expected}"),
            false => expected.to_owned(),
        };
        let Some(element) = at else {
            return Err(format!("the chain ends where {wanted} was expected"));
        };
        let (class, name) = class_of(cx, element);
        if cx.flow().origins(PortRef { element, port: 0 }).len() > 1 {
            return Err(format!("{name} has other inputs, too: a chain has one Batcher"));
        }
        // Access before the run assigns both elements to the same worker.
        cx.with_element(element, |_: &mut Batcher, _| ());
        let found = device_class(cx, element).filter(|_| takes_kernels);
        match found {
            Some(class) => members.push(Member { element, class }),
            None if expected != class => {
                let hint = match class.as_str() {
                    "Dispatcher" => "; chains do not branch: use CHK_ANNO of the elements behind",
                    _ => "",
                };
                return Err(format!("{name} is invalid here: {wanted} was expected{hint}"));
            }
            None if class == FIRST => (expected, takes_kernels) = (LAST[0], true),
            None => {
                let place = LAST.iter().position(|last| *last == class);
                let next = place.and_then(|place| LAST.get(place + 1));
                let Some(next) = next else { return Ok(members) };
                (expected, takes_kernels) = (next, false);
            }
        }
        at = next(cx, element);
    }
    Err("the chain has a cycle".to_owned())
}

/// Warnings about members whose results a later member overwrites.
pub(super) fn overwritten(cx: &mut Context<'_>, members: &[Member]) -> Vec<String> {
    let (mut told, mut before) = (Vec::new(), Vec::<(usize, Written)>::new());
    for member in members {
        let Some(Some(written)) = (member.class.written)(member.element, cx) else { continue };
        if let Some(&(first, _)) = before.iter().rev().find(|(_, first)| written.hides(*first)) {
            let (first, second) = (class_of(cx, first).1, class_of(cx, member.element).1);
            let place = written.place;
            told.push(format!("{second} overwrites ANNO {place} of {first}"));
        }
        before.push((member.element, written));
    }
    told
}

/// Checks that this element is a member of a chain.
///
/// # Errors
/// If it does not.
pub fn expect_chain(cx: &Context<'_>) -> Result<(), String> {
    let origins = cx.flow().origins(PortRef { element: cx.element(), port: 0 });
    let is_member = |element: usize| {
        let class = cx.graph().elements[element].class.as_str();
        let is_known = class == "Batcher" || class == FIRST || LAST.contains(&class);
        (is_known && class != LAST[LAST.len() - 1]) || device_class(cx, element).is_some()
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
pub(super) fn refuse_with_target(args: &mut Args<'_>) {
    for keyword in ["ANNO", "CHK_ANNO"] {
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

/// Calls [`apply`](super::DeviceElement::apply) of the element of a step.
pub(super) fn apply(cx: &mut Context<'_>, step: &Step, load: &mut Load, batch: &mut Batch) {
    let class = device_class(cx, step.element).expect("members have steps");
    (class.apply)(cx, step, load, batch).expect("a chain belongs to one worker");
}
