//! The action set of a packet, and the order in which it is executed (specification 1.3.5, 5.10).

use smallvec::SmallVec;
use warpswitch_rules::openflow::FlowAction;

/// Actions that wait for the end of the pipeline: one of each kind, one set-field of each field.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActionSet<'a> {
    /// With their places in the order of execution; actions of one place in the order in which
    /// they were written.
    actions: SmallVec<[(u8, &'a FlowAction); 8]>,
}

impl<'a> ActionSet<'a> {
    /// Merges actions: a new one takes the place of an old one of its kind.
    pub(crate) fn write(&mut self, actions: &'a [FlowAction]) {
        for action in actions {
            let Some(rank) = rank(action) else { continue };
            self.actions.retain(|(_, old)| !replaces(action, old));
            self.actions.push((rank, action));
        }
    }

    /// Empties it.
    pub(crate) fn clear(&mut self) {
        self.actions.clear();
    }

    /// Whether it holds no action.
    pub(crate) fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// The actions in the order of execution. With a group there is no output, with neither the
    /// packet is dropped, so nothing is executed.
    pub(crate) fn ordered(mut self) -> impl Iterator<Item = &'a FlowAction> {
        self.actions.sort_by_key(|&(rank, _)| rank);
        let has_group = self.actions.iter().any(|&(rank, _)| rank == GROUP);
        if !matches!(self.actions.last(), Some(&(GROUP | OUTPUT, _))) {
            self.actions.clear();
        }
        let is_executed = move |rank: u8| rank != OUTPUT || !has_group;
        self.actions.into_iter().filter(move |&(rank, _)| is_executed(rank)).map(|(_, a)| a)
    }
}

const GROUP: u8 = 10;
const OUTPUT: u8 = 11;

/// The place of an action in the order of execution; none for those that a set cannot hold. A
/// queue holds until the end of the set, so `pop_queue` has no place.
pub(crate) fn rank(action: &FlowAction) -> Option<u8> {
    Some(match action {
        FlowAction::CopyTtlIn => 1,
        FlowAction::PopVlan | FlowAction::PopMpls(_) | FlowAction::PopPbb => 2,
        FlowAction::PushMpls(_) => 3,
        FlowAction::PushPbb(_) => 4,
        FlowAction::PushVlan(_) => 5,
        FlowAction::CopyTtlOut => 6,
        FlowAction::DecMplsTtl | FlowAction::DecNwTtl => 7,
        FlowAction::SetField { .. }
        | FlowAction::Move { .. }
        | FlowAction::SetMplsTtl(_)
        | FlowAction::SetNwTtl(_) => 8,
        FlowAction::SetQueue(_) => 9,
        FlowAction::Group(_) => GROUP,
        FlowAction::Output { .. } | FlowAction::OutputBits { .. } => OUTPUT,
        _ => return None,
    })
}

/// Whether writing `new` removes `old`.
fn replaces(new: &FlowAction, old: &FlowAction) -> bool {
    match (new, old) {
        (
            FlowAction::SetField { field, mask, .. },
            FlowAction::SetField { field: old_field, mask: old_mask, .. },
        ) => field == old_field && old_mask & !mask == 0,
        (FlowAction::Move { .. }, FlowAction::Move { .. }) => new == old,
        _ => {
            let (new_rank, old_rank) = (rank(new), rank(old));
            let is_same_kind = std::mem::discriminant(new) == std::mem::discriminant(old);
            is_same_kind || new_rank == old_rank && new_rank == Some(OUTPUT)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_rules::openflow::field;

    fn set_field(name: &str, value: u128) -> FlowAction {
        let field = field(name).unwrap();
        FlowAction::SetField { field, value, mask: field.range.value_max() }
    }

    #[test]
    fn kinds_are_unique_and_in_order() {
        let output = |port| FlowAction::Output { port, max_len: 0 };
        let first = [output(1), set_field("eth_src", 1), FlowAction::PushVlan(0x8100)];
        let second = [
            output(2),
            set_field("eth_dst", 2),
            set_field("eth_src", 3),
            FlowAction::PopPbb,
            FlowAction::CopyTtlIn,
        ];
        let mut set = ActionSet::default();
        set.write(&first);
        set.write(&second);
        let expected = [&second[4], &second[3], &first[2], &second[1], &second[2], &second[0]];
        assert!(set.ordered().eq(expected));
    }

    #[test]
    fn a_queue_stays_set_for_the_output_of_a_bucket() {
        // `enqueue:1:2` as the bucket of a group.
        let output = FlowAction::Output { port: 1, max_len: 0 };
        let actions = [FlowAction::SetQueue(2), output, FlowAction::PopQueue];
        let mut set = ActionSet::default();
        set.write(&actions);
        assert!(set.ordered().eq(&actions[..2]));
    }

    #[test]
    fn a_group_takes_precedence_and_without_either_nothing_happens() {
        let actions = [FlowAction::Output { port: 1, max_len: 0 }, FlowAction::Group(3)];
        let mut set = ActionSet::default();
        set.write(&actions);
        assert!(set.ordered().eq([&actions[1]]));
        let dec = [FlowAction::DecNwTtl];
        let mut set = ActionSet::default();
        set.write(&actions);
        set.clear();
        set.write(&dec);
        assert_eq!(set.ordered().next(), None);
    }
}
