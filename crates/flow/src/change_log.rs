//! The last changes of a pipeline, by which caches find the traversals that they affect.
//!
//! A cached traversal stores the version of the pipeline at which it was last valid. A lookup that
//! finds it checks the changes since then: if none affects the traversal, it gets the present
//! version, else it is removed. So a change costs one entry here, however much is cached, and the
//! next packet already gets the changed result: a barrier can be answered at once.
//!
//! | change | affects the traversals that |
//! | --- | --- |
//! | a flow comes | visited its table, found a flow of lower priority or none, and whose examined bits there do not exclude its match |
//! | a flow goes or gets other instructions | matched it |
//! | a group | used a group |
//! | a meter | used a meter |
//! | a port | all: floods, liveness of buckets and blocked ports depend on it |
//!
//! # Bounds
//! A lookup checks at most [`CHANGES_MAX`] changes. A traversal that missed more counts as
//! affected, and its next packet is looked up in the tables.

use warpswitch_rules::openflow::FlowMatch;

/// Changes that are kept.
pub const CHANGES_MAX: usize = 32;

/// A change of a pipeline.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all changes are flows that come and go")]
pub enum Change {
    /// A flow was added.
    Added {
        /// Its table.
        table: u8,
        /// Its priority.
        priority: u16,
        /// Its match.
        matching: FlowMatch,
    },
    /// The flow at this place has gone, or has other instructions.
    Flow(u32),
    /// A group was added, changed or removed.
    Group,
    /// A meter was added, changed or removed.
    Meter,
    /// Something that any traversal may depend on.
    All,
}

/// The last changes of a pipeline, and its version: the number of changes so far.
#[derive(Clone, Debug, Default)]
pub struct ChangeLog {
    version: u64,
    recent: Vec<Change>,
}

impl ChangeLog {
    /// The version.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Notes a change: the version grows.
    pub fn push(&mut self, change: Change) {
        match self.recent.get_mut(self.version as usize % CHANGES_MAX) {
            Some(old) => *old = change,
            None => self.recent.push(change),
        }
        self.version += 1;
    }

    /// The changes that led from a former version to the present one, in no particular order; none
    /// if they are too many.
    pub fn since(&self, version: u64) -> Option<impl Iterator<Item = &Change>> {
        let missed = usize::try_from(self.version.checked_sub(version)?).ok()?;
        let places = (version..self.version).map(|version| version as usize % CHANGES_MAX);
        (missed <= CHANGES_MAX).then(|| places.map(|place| &self.recent[place]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_changes() {
        let mut log = ChangeLog::default();
        for place in 0..100 {
            log.push(Change::Flow(place));
        }
        let since = |version| {
            let changes = log.since(version)?.map(|change| match change {
                Change::Flow(place) => *place,
                other => panic!("{other:?} was never made"),
            });
            Some(changes.collect::<Vec<u32>>())
        };
        assert_eq!(since(100), Some(vec![]));
        assert_eq!(since(97), Some(vec![97, 98, 99]));
        assert_eq!(since(68), Some((68..100).collect()));
        assert_eq!(since(67), None);
        assert_eq!(since(101), None, "no version of the future");
    }
}
