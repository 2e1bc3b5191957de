//! What a run counts, and the summary of it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use warpswitch_rules::extract::NoKey;
use warpswitch_rules::{RuleId, Ruleset};

use crate::auto::AutoReport;
use crate::cache::CacheReport;
use crate::digest::Digest;
use crate::human::rounded;
use crate::packets::Batch;

/// Counts of one worker, or of all.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Packets, with a key or without.
    pub packets: u64,
    /// Packets that no rule matches.
    pub misses: u64,
    /// Packets that each rule won.
    pub rule_hits: Vec<u64>,
    /// Frames without a key, by reason.
    pub no_keys: Vec<u64>,
    /// Time spent in lookups, all workers together.
    pub lookup_time: Duration,
}

impl Tally {
    /// Of nothing, over so many rules.
    pub fn new(rules: usize) -> Self {
        Self {
            packets: 0,
            misses: 0,
            rule_hits: vec![0; rules],
            no_keys: vec![0; NoKey::ALL.len()],
            lookup_time: Duration::ZERO,
        }
    }

    /// Counts the answers of keys.
    pub fn count_winners(&mut self, winners: &[RuleId]) {
        self.packets += winners.len() as u64;
        for winner in winners {
            match self.rule_hits.get_mut(winner.as_usize()) {
                Some(hits) => *hits += 1,
                None => self.misses += 1,
            }
        }
    }

    /// Counts a whole batch.
    pub fn count_batch(&mut self, batch: &Batch) {
        self.count_winners(&batch.winners);
        for reason in batch.no_keys.iter().flatten() {
            let place = NoKey::ALL.iter().position(|known| known == reason);
            self.no_keys[place.expect("the list of reasons is complete")] += 1;
            self.packets += 1;
        }
    }

    /// Adds the counts of another worker.
    pub fn add(&mut self, other: &Tally) {
        self.packets += other.packets;
        self.misses += other.misses;
        self.lookup_time += other.lookup_time;
        for (sum, hits) in self.rule_hits.iter_mut().zip(&other.rule_hits) {
            *sum += hits;
        }
        for (sum, count) in self.no_keys.iter_mut().zip(&other.no_keys) {
            *sum += count;
        }
    }

    /// Frames without a key.
    pub fn no_key_total(&self) -> u64 {
        self.no_keys.iter().sum()
    }

    /// Packets that some rule won.
    pub fn hits(&self) -> u64 {
        self.packets - self.misses - self.no_key_total()
    }

    /// Packets by the action of the winner, the most frequent first.
    pub fn actions(&self, ruleset: &Ruleset) -> Vec<ActionCount> {
        let mut counted: BTreeMap<_, u64> = BTreeMap::new();
        for id in ruleset.ids() {
            *counted.entry(ruleset.action(id)).or_insert(0) += self.rule_hits[id.as_usize()];
        }
        let with_hits = counted.into_iter().filter(|&(_, packets)| packets > 0);
        let mut actions: Vec<ActionCount> = with_hits
            .map(|(action, packets)| ActionCount { action: action.to_string(), packets })
            .collect();
        actions.sort_by_key(|count| std::cmp::Reverse(count.packets));
        actions
    }

    /// Frames without a key by reason, in the order of the reasons.
    pub fn reasons(&self) -> BTreeMap<&'static str, u64> {
        let reasons = NoKey::ALL.iter().zip(&self.no_keys).filter(|&(_, &count)| count > 0);
        reasons.map(|(reason, &count)| (reason.name(), count)).collect()
    }

    /// The rules that won most packets, the hottest first.
    pub fn hottest(&self, count: usize) -> Vec<(RuleId, u64)> {
        let mut hits: Vec<(RuleId, u64)> =
            (0..).map(RuleId).zip(self.rule_hits.iter().copied()).collect();
        hits.sort_by_key(|&(_, hits)| std::cmp::Reverse(hits));
        hits.retain(|&(_, hits)| hits > 0);
        hits.truncate(count);
        hits
    }
}

/// Packets whose winner has one action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ActionCount {
    /// The action in its canonical text.
    pub action: String,
    /// Packets.
    pub packets: u64,
}

/// Frames without a key.
#[derive(Clone, Debug, Serialize)]
pub struct NoKeyCount {
    /// All of them.
    pub total: u64,
    /// By reason; reasons that never came are left out.
    pub reasons: BTreeMap<&'static str, u64>,
}

/// The summary of a run as `--json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Number of rules.
    pub rules: usize,
    /// Name of the schema.
    pub schema: &'static str,
    /// Name of the engine.
    pub engine: &'static str,
    /// Worker threads.
    pub threads: usize,
    /// Packets: hits, misses and those without a key.
    pub packets: u64,
    /// Packets that a rule won.
    pub hits: u64,
    /// Packets with a key that no rule matches.
    pub misses: u64,
    /// Packets without a key.
    pub no_key: NoKeyCount,
    /// Hits by action.
    pub actions: Vec<ActionCount>,
    /// Time from the first read to the last write.
    pub seconds: f64,
    /// Million packets per second over that time.
    pub mpps: f64,
    /// Million lookups per second while the workers were in the engine, all together.
    pub lookup_mpps: f64,
    /// Time to build the engine.
    pub build_ms: f64,
    /// Bytes of the engine's structure.
    pub bytes: usize,
    /// Fingerprint of the answers.
    pub digest: String,
    /// Whether the capture was cut off in the middle of a frame.
    pub truncated: bool,
    /// What was chosen where engines choose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto: Option<AutoReport>,
    /// The cache in front of the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheReport>,
}

/// What a summary needs beside the counts.
pub struct RunFacts {
    /// Name of the engine.
    pub engine: &'static str,
    /// Worker threads.
    pub threads: usize,
    /// Time from the first read to the last write.
    pub time: Duration,
    /// Time to build the engine.
    pub build_time: Duration,
    /// Bytes of the engine's structure.
    pub bytes: usize,
    /// Fingerprint of the answers.
    pub digest: Digest,
    /// Whether the capture was cut off.
    pub truncated: bool,
    /// What was chosen where engines choose.
    pub auto: Option<AutoReport>,
    /// The cache in front of the engine.
    pub cache: Option<CacheReport>,
}

impl Summary {
    /// Puts a summary together.
    pub fn new(ruleset: &Ruleset, tally: &Tally, run: &RunFacts) -> Self {
        let keys = tally.packets - tally.no_key_total();
        Self {
            rules: ruleset.len(),
            schema: ruleset.schema().name,
            engine: run.engine,
            threads: run.threads,
            packets: tally.packets,
            hits: tally.hits(),
            misses: tally.misses,
            no_key: NoKeyCount { total: tally.no_key_total(), reasons: tally.reasons() },
            actions: tally.actions(ruleset),
            seconds: rounded(run.time.as_secs_f64(), 6),
            mpps: rounded(mpps(tally.packets, run.time), 4),
            lookup_mpps: rounded(mpps(keys, tally.lookup_time / run.threads as u32), 4),
            build_ms: rounded(run.build_time.as_secs_f64() * 1e3, 3),
            bytes: run.bytes,
            digest: run.digest.to_string(),
            truncated: run.truncated,
            auto: run.auto.clone(),
            cache: run.cache.clone(),
        }
    }
}

/// Million packets per second; 0 where there was no time.
pub fn mpps(packets: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { packets as f64 / time.as_secs_f64() / 1e6 }
}
