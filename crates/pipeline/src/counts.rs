//! Counters that packets change while they read tables and groups.

use warpswitch_flow::programs::NO_FLOW;

use crate::flows::FlowCounters;
use crate::group::GroupCounts;

/// Lookups of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableCounters {
    pub(crate) lookups: u64,
    pub(crate) matches: u64,
}

/// All counters but those of meters, which are part of their state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// By place of the flow.
    pub(crate) flows: Vec<FlowCounters>,
    /// By table.
    pub(crate) tables: Vec<TableCounters>,
    /// By group.
    pub(crate) groups: GroupCounts,
    /// Packets that needed more work than a packet may cost.
    pub(crate) limited: u64,
    /// Packets that a meter or their TTL ended.
    pub(crate) ended: u64,
    /// Packets that nothing sent anywhere, other than these.
    pub(crate) unsent: u64,
}

impl Counts {
    #[inline]
    pub(crate) fn credit(&mut self, table: u8, flow: u32, bytes: u64, now: u64) {
        let lookups = &mut self.tables[usize::from(table)];
        lookups.lookups += 1;
        lookups.matches += 1;
        let counters = &mut self.flows[flow as usize];
        counters.packets += u64::from(counters.plan.counts_packets);
        counters.bytes += if counters.plan.counts_bytes { bytes } else { 0 };
        counters.used_ns = counters.used_ns.max(now);
    }

    /// Credits tables and flows, or [`NO_FLOW`], with a packet.
    #[inline]
    pub(crate) fn credit_all(
        &mut self,
        lookups: impl Iterator<Item = (u8, u32)>,
        bytes: usize,
        now: u64,
    ) {
        for (table, flow) in lookups {
            match flow {
                NO_FLOW => self.miss(table),
                _ => self.credit(table, flow, bytes as u64, now),
            }
        }
    }

    #[inline]
    pub(crate) fn miss(&mut self, table: u8) {
        self.tables[usize::from(table)].lookups += 1;
    }

    pub(crate) fn count_bucket(&mut self, group: u32, bucket: Option<u32>, bytes: u64) {
        let Some(counters) = self.groups.get_mut(&group) else { return };
        let count = match bucket {
            None => &mut counters.total,
            Some(bucket) => &mut counters.buckets[bucket as usize],
        };
        count.0 += 1;
        count.1 += bytes;
    }
}
