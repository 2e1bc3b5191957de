//! Branches of a chain: the members between a `Dispatcher` and `DeviceToHostMemcpy`.
//!
//! ```text
//!                               ┌─► [0] GPUIPLookup ───┐
//! GPUSDNClassifier ─► Dispatcher┤                      ├─► DeviceToHostMemcpy ─► …
//!                               └─► [1] GPUIDSMatcher ─┘
//! ```
//! A wide batch is never split: the `Dispatcher` has the members of all branches launch on it.
//! Which packets are on a branch is known when the `Debatcher` applies the results: it reads the
//! numbers after the members in front of the `Dispatcher` and before any member of a branch, which
//! may overwrite them.

use warpswitch_graph::Context;
use warpswitch_graph::language::PortRef;
use warpswitch_graph::language::args::Args;
use warpswitch_packet::Batch;

use super::anno::Predicate;
use super::annotated;
use super::load::Load;
use super::members::{self, Member};

/// The class that begins branches.
pub(super) const CLASS: &str = "Dispatcher";
/// The class that all branches lead to.
const JOIN: &str = "DeviceToHostMemcpy";

/// Appends the members of all branches of a `Dispatcher`. Returns the element that the branches
/// lead to, and the number of branches.
///
/// # Errors
/// The first branch that does not consist of device elements and end where the others do.
pub(super) fn of_dispatcher(
    cx: &mut Context<'_>,
    dispatcher: usize,
    found: &mut Vec<Member>,
) -> Result<(Option<usize>, usize), String> {
    members::enter(cx, dispatcher, 1)?;
    let place = annotated::read_at(&cx.graph().elements[dispatcher]);
    let count = annotated::outputs_of(cx.flow(), dispatcher);
    let mut join = None;
    for port in 0..count {
        let branch = Predicate { place, number: port as u32 };
        let first = members::next(cx, PortRef { element: dispatcher, port });
        let from = found.len();
        let end = members::device_elements(cx, first, Some(branch), found)?;
        reject_lookups_ahead(cx, &found[from..])?;
        reject_other_end(cx, dispatcher, end)?;
        if let (Some(one), Some(other)) = (join, end)
            && one != other
        {
            let names = [dispatcher, one, other].map(|element| members::name_of(cx, element));
            let [name, one, other] = names;
            return Err(format!("branches of {name} lead to {one} and {other}: expected only one"));
        }
        join = end;
    }
    Ok((join, count))
}

/// Rejects a branch that leads to an element of another class than `DeviceToHostMemcpy`.
fn reject_other_end(cx: &Context<'_>, dispatcher: usize, end: Option<usize>) -> Result<(), String> {
    let Some(end) = end else { return Ok(()) };
    let hint = match cx.graph().elements[end].class.as_str() {
        JOIN => return Ok(()),
        CLASS => "; branches do not branch: use CHK_ANNO of the elements behind",
        _ => "",
    };
    let (name, by) = (members::name_of(cx, end), members::name_of(cx, dispatcher));
    Err(format!(
        "{name} is invalid on a branch of {by}: a device element or {JOIN} was expected{hint}"
    ))
}

/// Rejects members that compute results ahead: these are for all packets.
fn reject_lookups_ahead(cx: &Context<'_>, found: &[Member]) -> Result<(), String> {
    let is_ahead = |member: &&Member| {
        let mut target = None::<String>;
        Args::new(&cx.graph().elements[member.element()].config).read("FOR", &mut target);
        member.has_targets() && target.is_some()
    };
    match found.iter().find(is_ahead) {
        Some(member) => Err(format!(
            "FOR of {} is not allowed on a branch: place the element in front of the Dispatcher",
            members::name_of(cx, member.element())
        )),
        None => Ok(()),
    }
}

/// Whether a `Dispatcher` is in a chain.
pub(super) fn is_in_chain(cx: &Context<'_>, dispatcher: usize) -> bool {
    let origins = cx.flow().origins(PortRef { element: dispatcher, port: 0 });
    origins.iter().any(|from| members::is_on_device(cx, from.element))
}

/// Launches the members of all branches but the first, to which the `Dispatcher` emits the batch.
pub(super) fn launch(cx: &mut Context<'_>, load: &mut Load, packets: usize) {
    let home = load.home.clone();
    for &(element, branch) in home.branches() {
        if branch.number > 0 {
            members::launch(cx, element, load, packets);
        }
    }
}

/// The packets on the branch of a step's element.
#[derive(Debug, Default)]
pub(crate) struct BranchPackets {
    /// By packet, the number that the `Dispatcher` reads; empty until a step on a branch.
    numbers: Vec<u32>,
    /// Whether the element is on a branch; all packets are for it otherwise.
    is_branch: bool,
    packets: Vec<bool>,
}

impl BranchPackets {
    /// Selects the packets for an element on `branch`, if it is on one.
    pub(super) fn enter(&mut self, branch: Option<Predicate>, batch: &Batch) {
        self.is_branch = branch.is_some();
        self.packets.clear();
        let Some(branch) = branch else { return };
        if self.numbers.is_empty() {
            batch.read_annos(branch.place, &mut self.numbers);
        }
        self.packets.extend(self.numbers.iter().map(|&number| number == branch.number));
    }

    /// The packets on the branch; `None` if all packets are for the element.
    pub(super) fn packets(&self) -> Option<&[bool]> {
        self.is_branch.then_some(&self.packets[..])
    }

    /// Forgets the batch.
    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        self.packets.clear();
        self.is_branch = false;
    }
}
