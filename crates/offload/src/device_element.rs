//! The trait of elements that run kernels on a device, and the extension of their classes.
//!
//! The class of a device element has a [`DeviceClass`] as its
//! [extension](warpswitch_graph::ElementClass::extension). Chains, plans and checks depend only on
//! it, so other crates can define device elements.

use std::sync::Arc;

use warpswitch_graph::{Context, Element, ElementClass};
use warpswitch_packet::Batch;

use super::anno::{Predicate, Written};
use super::load::{Load, Step};
use super::place::Offload;
use super::slices::Slice;
use super::texts::Wanted;

/// An element between `HostToDeviceMemcpy` and `DeviceToHostMemcpy`. Its [`Element::push`] is
/// [`DeviceElement::launch_and_forward`]; the `Debatcher` applies its results.
pub trait DeviceElement: Element {
    /// Prepares for a device. Results for an element downstream of the chain go to result slot
    /// `slot` of the packets.
    ///
    /// # Errors
    /// The reason for the failure.
    fn join(
        &mut self,
        cx: &mut Context<'_>,
        offload: &Arc<Offload>,
        slot: usize,
    ) -> Result<Joined, String>;

    /// The annotation that it writes its results to; `None` if it writes none.
    fn written(&self) -> Option<Written>;

    /// Launches its kernel on a wide batch of `packets` packets, and adds a step for it.
    fn launch(&mut self, cx: &mut Context<'_>, load: &mut Load, packets: usize);

    /// Launches its kernel and forwards the wide batch. Drops an ordinary one for the first reason
    /// of the class.
    fn launch_and_forward(&mut self, cx: &mut Context<'_>, mut batch: Batch) {
        let packets = batch.len();
        let Some(load) = Load::of(&mut batch) else { return cx.drop_batch(batch, 0) };
        self.launch(cx, load, packets);
        cx.emit_batch(0, batch);
    }

    /// Applies the answers of a step to the packets. Without answers, as when the batch bypassed
    /// the device, it computes equal ones itself: see [`Load::answers`]. It writes no annotation
    /// but those that [`DeviceElement::written`] reports and the destination, and changes no packet
    /// off its branch: see [`Load::write`].
    fn apply(&mut self, cx: &mut Context<'_>, step: &Step, load: &mut Load, batch: &mut Batch);
}

/// The requirements of an element that joined its chain.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The slice that its kernel reads; `None` if it reads none.
    pub slice: Option<Slice>,
    /// The search of payloads that it requires.
    pub(crate) texts: Option<Wanted>,
    /// Bytes of a result on the device.
    pub answer_bytes: usize,
    /// The slot of its results, if they are for an element behind the chain.
    pub slot: Option<usize>,
    /// Which packets it is for, if not for all: others stay off the device, unless an element of
    /// the chain in front may write the predicate's annotation.
    pub only: Option<Predicate>,
}

impl Joined {
    /// A kernel that reads `slice` and returns `answer_bytes` per packet.
    pub fn new(slice: Slice, answer_bytes: usize) -> Self {
        Self { slice: Some(slice), texts: None, answer_bytes, slot: None, only: None }
    }

    /// The same for packets that meet `only`, if it is there.
    pub fn only(self, only: Option<Predicate>) -> Self {
        Self { only, ..self }
    }
}

/// Elements whose lookups a device can do. Registered by the class of a device element.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Their class.
    pub class: &'static str,
    /// Relative cost of a lookup on a core. If packets have too few result slots, the most
    /// expensive lookups get them.
    pub cost: u32,
}

type MaybeJoined = Result<Joined, String>;

/// The extension of a class of device elements. Its functions take the number of an element; they
/// return `None` if it is of another class or runs on another worker.
#[derive(Debug)]
pub struct DeviceClass {
    pub(crate) targets: &'static [Target],
    pub(crate) written_at: usize,
    pub(crate) join: fn(usize, &mut Context<'_>, &Arc<Offload>, usize) -> Option<MaybeJoined>,
    pub(crate) written: fn(usize, &mut Context<'_>) -> Option<Option<Written>>,
    pub(crate) launch: fn(usize, &mut Context<'_>, &mut Load, usize) -> Option<()>,
    pub(crate) apply: fn(&mut Context<'_>, &Step, &mut Load, &mut Batch) -> Option<()>,
}

impl DeviceClass {
    /// The extension of the elements `E`, which write results to the annotation at `written_at`
    /// unless their argument `ANNO` names another.
    pub const fn new<E: DeviceElement>(written_at: usize) -> Self {
        Self {
            targets: &[],
            written_at,
            join: |element, cx, offload, slot| {
                cx.with_element(element, |own: &mut E, cx| own.join(cx, offload, slot))
            },
            written: |element, cx| cx.with_element(element, |own: &mut E, _| own.written()),
            launch: |element, cx, load, packets| {
                cx.with_element(element, |own: &mut E, cx| own.launch(cx, load, packets))
            },
            apply: |cx, step, load, batch| {
                let apply = |own: &mut E, cx: &mut Context<'_>| own.apply(cx, step, load, batch);
                cx.with_element(step.element, apply)
            },
        }
    }

    /// Adds classes of elements that it can compute results for, with the argument `FOR`.
    pub const fn targets(self, targets: &'static [Target]) -> Self {
        Self { targets, ..self }
    }

    /// The extension of a class; `None` if its elements are not device elements.
    pub fn of(class: &ElementClass) -> Option<&'static Self> {
        class.extension?.downcast_ref()
    }

    /// Whether its elements can compute results for elements of `class`.
    pub(crate) fn serves(&self, class: &str) -> bool {
        self.targets.iter().any(|target| target.class == class)
    }
}
