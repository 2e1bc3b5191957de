//! What tables, groups and meters have counted.

use crate::group::{GroupStats, targets};
use crate::meter::MeterStats;
use crate::pipeline::Pipeline;
use crate::table::TableStats;

impl Pipeline {
    /// Figures of all tables.
    pub fn table_stats(&self) -> Vec<TableStats> {
        let tables = self.tables.iter().zip(&self.counts.tables).enumerate();
        let stats = tables.map(|(number, (table, counters))| TableStats {
            table: number as u8,
            flows: table.len,
            lookups: counters.lookups,
            matches: counters.matches,
        });
        stats.collect()
    }

    /// Figures of one group, or of all in the order of their numbers.
    pub fn group_stats(&self, id: Option<u32>, now: u64) -> Vec<GroupStats> {
        let chosen = self.groups.values().filter(|group| id.is_none_or(|id| group.id == id));
        let stats = chosen.map(|group| {
            let counters = &self.counts.groups[&group.id];
            GroupStats {
                group: group.clone(),
                references: self.group_references(group.id),
                packets: counters.total.0,
                bytes: counters.total.1,
                age_ns: now.saturating_sub(counters.created_ns),
                buckets: counters.buckets.clone(),
            }
        });
        stats.collect()
    }

    fn group_references(&self, id: u32) -> u32 {
        let flows = self.references.of_group(id).len();
        let groups = self.groups.values().filter(|group| targets(group).any(|other| other == id));
        (flows + groups.count()) as u32
    }

    /// Figures of one meter, or of all in the order of their numbers.
    pub fn meter_stats(&self, id: Option<u32>, now: u64) -> Vec<MeterStats> {
        let chosen = self.meters.iter().filter(|(number, _)| id.is_none_or(|id| **number == id));
        let stats = chosen.map(|(&number, state)| {
            state.stats(self.references.of_meter(number).len() as u32, now)
        });
        stats.collect()
    }
}
