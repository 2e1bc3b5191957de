//! The paced sender.

use std::collections::HashMap;

use warpswitch_packet::{Packet, Pool, Transmitted, TxPort};

use super::frames::{FrameSet, Prepared};
use super::probe::{Probe, Purpose};
use super::rate::wire_bytes;
use super::schedule::Schedule;

/// The most frames of one call of a port.
const FRAMES_PER_CALL: usize = 64;
/// A late sender stops so long after the end of the run.
const LATE_NS_MAX: u64 = 50_000_000;

/// When a run ends; without any limit, when it is stopped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limit {
    /// After so many frames.
    pub count: Option<u64>,
    /// After this time.
    pub duration_ns: Option<u64>,
}

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendCounts {
    /// Frames sent with a probe.
    pub frames: u64,
    /// Frames sent without a probe: they had no room.
    pub without_probe: u64,
    /// Bytes on the wire of all frames sent.
    pub wire_bytes: u64,
    /// Frames that the port refused.
    pub refused: u64,
    /// Time of the last transmission.
    pub last_ns: u64,
}

/// Result of [`Sender::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Frames were sent.
    Sent,
    /// No frame is due until then.
    Wait(u64),
    /// The port is full.
    Full,
    /// The port refused a frame.
    Refused,
    /// The run is over.
    Done,
}

/// See the module.
#[derive(Debug)]
pub struct Sender {
    frames: FrameSet,
    schedule: Schedule,
    limit: Limit,
    run: u16,
    first_sequence: u32,
    /// Frames of each flow that were numbered.
    numbered: Vec<u64>,
    /// Frames of each flow that were refused.
    refused: HashMap<u32, u64>,
    /// Frames that are due, with the number of each.
    packets: Vec<Packet>,
    pending: Vec<(Prepared, u32)>,
    /// Frames scheduled.
    scheduled: u64,
    pool: Pool,
    counts: SendCounts,
}

impl Sender {
    /// A sender whose flows start with frame number `first_sequence`.
    pub fn new(
        frames: FrameSet,
        schedule: Schedule,
        limit: Limit,
        run: u16,
        first_sequence: u32,
    ) -> Self {
        let numbered = vec![0; frames.flows() as usize];
        Self {
            frames,
            schedule,
            limit,
            run,
            first_sequence,
            numbered,
            refused: HashMap::new(),
            packets: Vec::with_capacity(FRAMES_PER_CALL),
            pending: Vec::with_capacity(FRAMES_PER_CALL),
            scheduled: 0,
            pool: Pool::new(),
            counts: SendCounts::default(),
        }
    }

    /// The counters.
    pub fn counts(&self) -> SendCounts {
        self.counts
    }

    /// Frames with a probe that the port accepted, per flow.
    pub fn sent_by_flow(&self) -> Vec<u64> {
        let mut sent = self.numbered.clone();
        let with_probe = self.pending.iter().filter(|(prepared, _)| prepared.place.is_some());
        let unsent = with_probe.map(|(prepared, _)| (prepared.flow, 1));
        let refused = self.refused.iter().map(|(&flow, &count)| (flow, count));
        for (flow, count) in unsent.chain(refused) {
            sent[flow as usize] -= count;
        }
        sent
    }

    /// Sends the frames that are due, as many as one call of the port accepts.
    pub fn step(&mut self, clock: &mut dyn FnMut() -> u64, tx: &mut dyn TxPort) -> Step {
        let now_ns = clock();
        if self.is_late(now_ns) {
            return Step::Done;
        }
        if let Some(step) = self.prepare(now_ns)
            && self.packets.is_empty()
        {
            return step;
        }
        let sent_ns = clock();
        self.write_probes(sent_ns);
        match tx.send(&self.packets) {
            Transmitted::Frames(count) => {
                self.count_sent(count);
                self.counts.last_ns = sent_ns;
                Step::Sent
            }
            Transmitted::Full => Step::Full,
            Transmitted::Refused => {
                self.count_refused();
                Step::Refused
            }
        }
    }

    fn end_ns(&self) -> Option<u64> {
        Some(self.schedule.start_ns().saturating_add(self.limit.duration_ns?))
    }

    fn is_late(&self, now_ns: u64) -> bool {
        self.end_ns().is_some_and(|end| now_ns >= end.saturating_add(LATE_NS_MAX))
    }

    /// Prepares the frames that are due; returns why there are no more.
    fn prepare(&mut self, now_ns: u64) -> Option<Step> {
        while self.packets.len() < FRAMES_PER_CALL {
            let due_ns = self.schedule.due_ns(now_ns);
            let is_counted_out = self.limit.count.is_some_and(|count| self.scheduled >= count);
            if is_counted_out || self.end_ns().is_some_and(|end| due_ns >= end) {
                return Some(Step::Done);
            }
            let ready_ns = self.schedule.ready_ns(now_ns);
            if ready_ns > now_ns {
                return Some(Step::Wait(ready_ns));
            }
            let (packet, prepared) = self.frames.next(&mut self.pool);
            self.schedule.advance(wire_bytes(packet.len()), now_ns);
            self.scheduled += 1;
            let numbered = &mut self.numbered[prepared.flow as usize];
            let sequence = self.first_sequence.wrapping_add(*numbered as u32);
            *numbered += u64::from(prepared.place.is_some());
            self.packets.push(packet);
            self.pending.push((prepared, sequence));
        }
        None
    }

    fn write_probes(&mut self, time_ns: u64) {
        for (packet, &(prepared, sequence)) in self.packets.iter_mut().zip(&self.pending) {
            let Some(place) = prepared.place else { continue };
            let (purpose, run, flow) = (Purpose::Measure, self.run, prepared.flow);
            place.write(packet.data_mut(), Probe { purpose, run, flow, sequence, time_ns });
        }
    }

    fn count_sent(&mut self, count: usize) {
        let packets = self.packets.drain(..count);
        for (packet, (prepared, _)) in packets.zip(self.pending.drain(..count)) {
            self.counts.wire_bytes += wire_bytes(packet.len());
            match prepared.place {
                Some(_) => self.counts.frames += 1,
                None => self.counts.without_probe += 1,
            }
            self.pool.recycle(packet);
        }
    }

    fn count_refused(&mut self) {
        self.pool.recycle(self.packets.remove(0));
        let (prepared, _) = self.pending.remove(0);
        *self.refused.entry(prepared.flow).or_default() += u64::from(prepared.place.is_some());
        self.counts.refused += 1;
    }
}
