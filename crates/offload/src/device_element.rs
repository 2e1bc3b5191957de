//! The trait of elements that a device does work for, and what their classes register.
//!
//! A class of such elements has a [`DeviceClass`] as its
//! [extension](warpswitch_graph::ElementClass::extension). Chains, plans and checks find all that
//! they need there: a crate of its own can define device elements, which stand in chains like those
//! of this one.

use std::sync::Arc;

use warpswitch_graph::{Context, Element, ElementClass};
use warpswitch_packet::Batch;

use super::anno::{Predicate, Written};
use super::load::{Load, Step};
use super::place::Offload;
use super::slices::Slice;
use super::texts::Wanted;

/// An element between `HostToDeviceMemcpy` and `DeviceToHostMemcpy`. Its [`Element::push`] starts
/// its kernel and passes the wide batch on; its answers are used at the end of the chain.
pub trait DeviceElement: Element {
    /// Prepares for a device. Its answers go to `slot` of packets if they are for an element behind
    /// the chain.
    ///
    /// # Errors
    /// Why it cannot.
    fn join(
        &mut self,
        cx: &mut Context<'_>,
        offload: &Arc<Offload>,
        slot: usize,
    ) -> Result<Joined, String>;

    /// The annotation that it writes its answers to, if it writes one.
    fn written(&self) -> Option<Written>;

    /// Does to the packets what the answers of its step say. Without answers, as when the batch
    /// passed by the device, it computes them itself: both ways give the same. See
    /// [`Load::answers`]. It writes no annotation but those that it reports and the destination.
    fn apply(&mut self, cx: &mut Context<'_>, step: &Step, load: &mut Load, batch: &mut Batch);
}

/// What an element adds to its chain.
#[derive(Clone, Debug)]
pub struct Joined {
    /// What its kernel reads of each packet; `None` if that is no slice.
    pub slice: Option<Slice>,
    /// Payloads that it has searched.
    pub(crate) texts: Option<Wanted>,
    /// Bytes of an answer.
    pub answer_bytes: usize,
    /// The slot of its results, if they are for an element behind the chain.
    pub slot: Option<usize>,
    /// Which packets it is for, if not for all: others stay off the device, unless an element of
    /// the chain in front may write the predicate's annotation.
    pub only: Option<Predicate>,
}

impl Joined {
    /// A kernel that reads `slice` of each packet, and gives so many bytes.
    pub fn new(slice: Slice, answer_bytes: usize) -> Self {
        Self { slice: Some(slice), texts: None, answer_bytes, slot: None, only: None }
    }

    /// The same for packets that meet `only`, if it is there.
    pub fn only(self, only: Option<Predicate>) -> Self {
        Self { only, ..self }
    }
}

/// The elements whose lookups a device can do: the class of a device element registers them.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Their class.
    pub class: &'static str,
    /// How much a lookup costs on a core, compared with others: where a packet has no slots for all
    /// lookups, those with the highest number get them.
    pub cost: u32,
}

type MaybeJoined = Result<Joined, String>;

/// The capability of a class of device elements. Its functions find an element by its number; they
/// give `None` if it is not of the class, or belongs to another worker.
#[derive(Debug)]
pub struct DeviceClass {
    pub(crate) targets: &'static [Target],
    pub(crate) written_at: usize,
    pub(crate) join: fn(usize, &mut Context<'_>, &Arc<Offload>, usize) -> Option<MaybeJoined>,
    pub(crate) written: fn(usize, &mut Context<'_>) -> Option<Option<Written>>,
    pub(crate) apply: fn(&mut Context<'_>, &Step, &mut Load, &mut Batch) -> Option<()>,
}

impl DeviceClass {
    /// The capability of the elements `E`, which write answers to the annotation at `written_at`
    /// unless their argument `ANNO` names another.
    pub const fn new<E: DeviceElement>(written_at: usize) -> Self {
        Self {
            targets: &[],
            written_at,
            join: |element, cx, offload, slot| {
                cx.with_element(element, |own: &mut E, cx| own.join(cx, offload, slot))
            },
            written: |element, cx| cx.with_element(element, |own: &mut E, _| own.written()),
            apply: |cx, step, load, batch| {
                let apply = |own: &mut E, cx: &mut Context<'_>| own.apply(cx, step, load, batch);
                cx.with_element(step.element, apply)
            },
        }
    }

    /// The same, and with the argument `FOR` they compute results for elements of these classes.
    pub const fn targets(self, targets: &'static [Target]) -> Self {
        Self { targets, ..self }
    }

    /// The capability of a class, if its elements are device elements.
    pub fn of(class: &ElementClass) -> Option<&'static Self> {
        class.extension?.downcast_ref()
    }

    /// Whether its elements can compute results for those of a class.
    pub(crate) fn serves(&self, class: &str) -> bool {
        self.targets.iter().any(|target| target.class == class)
    }
}
