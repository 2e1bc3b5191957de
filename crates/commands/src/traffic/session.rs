//! Trials: a sender and a sink on two threads, from the learning of addresses to the result.
//!
//! ```text
//! learn   announce both stations, resolve the gateway, send learning frames until one arrives
//! run     sender thread ─► frames ─► this thread: sink, ARP of both stations
//! wait    until all frames have arrived, or for the time that the caller allows
//! ```

use std::net::Ipv4Addr;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};
use warpswitch_packet::{LinkState, TxPort};
use warpswitch_wire::ethernet::MacAddr;

use super::frames::FrameSet;
use super::rate::Rate;
use super::schedule::Schedule;
use super::sender::{Limit, SendCounts, Sender, Step};
use super::sink::{Latency, Sink, SinkCounts};
use super::station::Station;
use super::tracker::{FlowCounts, Tracker};
use crate::threads::default_threads;

/// Between two looks of an idle sink.
const IDLE: Duration = Duration::from_millis(1);
/// Between two looks of a sink whose interface records arrivals. One that every frame wakes
/// takes the core of the device under test again and again. A ring of 4096 frames fills at 8
/// million a second.
const DRAIN: Duration = Duration::from_micros(500);
/// Between two calls of the progress function.
const PROGRESS_NS: u64 = 100_000_000;
/// Duplicates may follow the last frame for so long.
const SETTLE_NS: u64 = 5_000_000;
/// Learning takes at most so long, and repeats its frames so often.
const LEARNING_NS: u64 = 3_000_000_000;
const LEARNING_STEP: Duration = Duration::from_millis(20);
/// With a core to spare, a sender sleeps until shortly before a frame is due, as the kernel wakes
/// it late, and polls the clock for the rest.
const WAKE_NS: u64 = 80_000;
/// Cores from which on there is one to spare beside sender, sink and a device under test. On fewer
/// a sender that polls keeps the others from their core for a time slice of the scheduler.
const CORES_MIN: usize = 4;
/// On fewer cores a sender sleeps at least so long. Frames that fall due meanwhile leave together:
/// a sleep for each takes more of the core than sending them.
const PACE_NS: u64 = 50_000;
/// How late the kernel may wake a sender, beyond its own delays; it is 50 us otherwise.
const TIMER_SLACK: NonZeroU64 = NonZeroU64::MIN;
/// A sender waits so long for room in its port.
const ROOM: Duration = Duration::from_millis(1);

/// What to send.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Offered load.
    pub rate: Rate,
    /// Frames of a burst, at least 1.
    pub burst: u64,
    /// The end.
    pub limit: Limit,
    /// How long to wait for frames after the last one was sent.
    pub wait: Duration,
}

/// A flow with losses, duplicates or reordering.
#[derive(Clone, Copy, Debug)]
pub struct BadFlow {
    pub flow: u32,
    pub lost: u64,
    pub counts: FlowCounts,
}

/// Result of a trial.
#[derive(Clone, Debug, Default)]
pub struct TrialResult {
    pub sent: SendCounts,
    pub sink: SinkCounts,
    /// Sums over all flows.
    pub flows: FlowCounts,
    /// Frames that were sent and did not arrive; for a sink alone, missing numbers.
    pub lost: u64,
    /// Flows that are not as they should be.
    pub bad_flows: Vec<BadFlow>,
    pub latency: Option<Latency>,
    /// Nanoseconds of sending.
    pub sending_ns: u64,
    /// Frames that the kernel dropped because the sink was late.
    pub sink_drops: u64,
}

impl TrialResult {
    /// Whether all frames arrived once and in order.
    pub fn is_clean(&self) -> bool {
        let FlowCounts { duplicates, reordered, .. } = self.flows;
        self.lost == 0 && duplicates == 0 && reordered == 0
    }

    /// Sent packets per second.
    pub fn sent_pps(&self) -> f64 {
        per_s((self.sent.frames + self.sent.without_probe) as f64, self.sending_ns)
    }

    /// Sent bits per second on the wire.
    pub fn sent_bps(&self) -> f64 {
        per_s(self.sent.wire_bytes as f64 * 8.0, self.sending_ns)
    }

    /// Part of the sent frames that was lost.
    pub fn loss_ratio(&self) -> f64 {
        match self.sent.frames {
            0 => 0.0,
            sent => self.lost as f64 / sent as f64,
        }
    }
}

fn per_s(count: f64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { count * 1e9 / ns as f64 }
}

/// Nanoseconds of the machine's monotonic clock, which all namespaces and processes share.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The wall clock, by which the kernel stamps received frames.
fn wall_ns() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// A number for the first run of a process, unlike that of another process on the same link.
pub fn run_number() -> u16 {
    (now_ns() >> 12) as u16 ^ std::process::id() as u16
}

/// The interfaces of a measurement.
pub struct Session {
    /// The side that sends.
    pub tx: Option<(Station, Box<dyn TxPort>)>,
    /// The side that receives.
    pub rx: Option<Station>,
    /// Checked now and then: whether to stop.
    pub is_ended: fn() -> bool,
    next_run: u16,
}

/// State that a sender shares with the thread of the sink.
#[derive(Default)]
struct Shared {
    sent: AtomicU64,
    is_done: AtomicBool,
    stop: AtomicBool,
}

impl Session {
    /// A session without interfaces, whose runs have numbers from `first_run` on.
    pub fn new(first_run: u16, is_ended: fn() -> bool) -> Self {
        Self { tx: None, rx: None, is_ended, next_run: first_run }
    }

    /// Names the interfaces that are down, for errors about frames that do not arrive; empty if
    /// none is.
    pub fn links_down(&mut self) -> String {
        let stations = self.tx.iter_mut().map(|(station, _)| station).chain(&mut self.rx);
        let down = stations.filter_map(|station| {
            let is_down = station.rx.check_link() != LinkState::Up;
            is_down.then(|| station.rx.device())
        });
        let down: Vec<String> = down
            .map(|name| {
                format!("interface {name} is down or has no carrier: ip link set {name} up")
            })
            .collect();
        down.join("; ")
    }

    /// Resolves `gateway` for the source address `own`.
    pub fn resolve(&mut self, gateway: Ipv4Addr, own: Ipv4Addr) -> Option<MacAddr> {
        let start_ns = now_ns();
        while now_ns() - start_ns < LEARNING_NS && !(self.is_ended)() {
            let (station, _) = self.tx.as_mut()?;
            station.resolve(gateway, own);
            self.serve_for(LEARNING_STEP, |rx| {
                rx.step();
            });
            let (station, _) = self.tx.as_ref()?;
            if let Some(mac) = station.resolved() {
                return Some(mac);
            }
        }
        None
    }

    /// Lets the devices between learn addresses. Returns whether a frame passed from the sender to
    /// the sink; true if there is no sink.
    pub fn learn(&mut self, frames: &FrameSet) -> bool {
        let Some(frame) = frames.learning_frame(self.next_run) else { return false };
        let mut sink = Sink::new(Some(self.next_run), Tracker::new(1, None));
        let start_ns = now_ns();
        if let Some(rx) = &mut self.rx {
            rx.announce();
        }
        while now_ns() - start_ns < LEARNING_NS && !(self.is_ended)() {
            let Some((station, _)) = &mut self.tx else { return false };
            station.announce();
            station.send_frame(&frame);
            if self.rx.is_none() {
                return true;
            }
            self.serve_for(LEARNING_STEP, |rx| {
                step_sink(&mut sink, rx);
            });
            if sink.counts().learning > 0 {
                return true;
            }
        }
        false
    }

    /// Serves both stations for a while; `receive` handles the frames of the sink's.
    fn serve_for(&mut self, time: Duration, mut receive: impl FnMut(&mut Station)) {
        let end_ns = now_ns() + time.as_nanos() as u64;
        while now_ns() < end_ns {
            if let Some((station, _)) = &mut self.tx {
                station.step();
            }
            if let Some(rx) = &mut self.rx {
                receive(rx);
            }
            thread::sleep(IDLE);
        }
    }

    /// Runs a trial. `progress` gets the frames sent and received so far.
    pub fn run(
        &mut self,
        trial: &Trial,
        frames: FrameSet,
        progress: &mut dyn FnMut(u64, u64),
    ) -> TrialResult {
        let run = self.next_run;
        self.next_run = run.wrapping_add(1);
        let drops_before = self.sink_drops();
        let sink = Sink::new(Some(run), Tracker::new(frames.flows(), Some(0)));
        let mut sink = sink.until_arrival(wall_ns);
        let schedule = Schedule::new(trial.rate, trial.burst, now_ns());
        let start_ns = schedule.start_ns();
        let mut sender = Sender::new(frames, schedule, trial.limit, run, 0);
        let Some((station, port)) = &mut self.tx else { return TrialResult::default() };
        let (rx, is_ended) = (&mut self.rx, self.is_ended);
        // Bridges forget addresses.
        if let Some(rx) = rx {
            rx.announce();
        }
        let shared = Shared::default();
        thread::scope(|scope| {
            scope.spawn(|| send(&mut sender, port.as_mut(), &shared));
            let mut receiving = Receiving { tx: Some(station), rx: rx.as_mut(), sink: &mut sink };
            receiving.until_done(trial, &shared, is_ended, progress);
            shared.stop.store(true, Ordering::Relaxed);
        });
        let sent = sender.counts();
        let sent_by_flow = sender.sent_by_flow();
        let sending_ns = match trial.limit.duration_ns {
            // A paced sender is idle after its last frame.
            Some(ns) if trial.rate != Rate::Max => ns.max(sent.last_ns.saturating_sub(start_ns)),
            _ => sent.last_ns.saturating_sub(start_ns),
        };
        let sink_drops = self.sink_drops() - drops_before;
        let has_sink = self.rx.is_some();
        let sums = Sums::new(&sink, has_sink.then_some(&sent_by_flow[..]));
        sums.result(&sink, sent, sending_ns, sink_drops)
    }

    /// Receives the frames of another process, of up to `flows` flows, until `limit`.
    pub fn receive(
        &mut self,
        flows: u32,
        limit: Limit,
        progress: &mut dyn FnMut(u64, u64),
    ) -> TrialResult {
        let mut sink = Sink::new(None, Tracker::new(flows, None)).until_arrival(wall_ns);
        let start_ns = now_ns();
        let mut receiving = Receiving { tx: None, rx: self.rx.as_mut(), sink: &mut sink };
        let mut shown_ns = start_ns;
        loop {
            let now = now_ns();
            let is_over = limit.duration_ns.is_some_and(|ns| now - start_ns >= ns)
                || limit.count.is_some_and(|count| receiving.sink.counts().frames >= count);
            if is_over || (self.is_ended)() {
                break;
            }
            receiving.step();
            if now - shown_ns >= PROGRESS_NS {
                shown_ns = now;
                progress(0, receiving.sink.counts().frames);
            }
        }
        let sink_drops = self.sink_drops();
        Sums::new(&sink, None).result(&sink, SendCounts::default(), 0, sink_drops)
    }

    fn sink_drops(&mut self) -> u64 {
        self.rx.as_mut().map_or(0, |rx| rx.rx.counts().dropped)
    }
}

/// Steps the sink; other frames go to its station. Returns whether frames arrived.
fn step_sink(sink: &mut Sink, station: &mut Station) -> bool {
    let mut others: Vec<Vec<u8>> = Vec::new();
    let received = sink.step(&mut now_ns, station.rx.as_mut(), |frame| others.push(frame.into()));
    others.iter().for_each(|frame| station.handle(frame));
    received > 0
}

/// The thread of the sink.
struct Receiving<'a> {
    tx: Option<&'a mut Station>,
    rx: Option<&'a mut Station>,
    sink: &'a mut Sink,
}

impl Receiving<'_> {
    fn until_done(
        &mut self,
        trial: &Trial,
        shared: &Shared,
        is_ended: fn() -> bool,
        progress: &mut dyn FnMut(u64, u64),
    ) {
        let mut shown_ns = now_ns();
        let mut done_ns = None;
        loop {
            self.step();
            let (now, sent) = (now_ns(), shared.sent.load(Ordering::Relaxed));
            if now - shown_ns >= PROGRESS_NS {
                shown_ns = now;
                progress(sent, self.sink.counts().frames);
            }
            if is_ended() {
                shared.stop.store(true, Ordering::Relaxed);
            }
            // `Acquire`: with it, `sent` is final.
            if !shared.is_done.load(Ordering::Acquire) {
                continue;
            }
            let done_ns = *done_ns.get_or_insert(now);
            let counts = self.sink.counts();
            let has_all = counts.frames >= shared.sent.load(Ordering::Relaxed)
                && now.saturating_sub(counts.last_ns) >= SETTLE_NS;
            if self.rx.is_none() || has_all || now - done_ns >= trial.wait.as_nanos() as u64 {
                return;
            }
        }
    }

    /// Receives once, or sleeps a little.
    fn step(&mut self) {
        let mut has_received = self.rx.as_mut().is_some_and(|rx| step_sink(self.sink, rx));
        has_received |= self.tx.as_mut().is_some_and(|tx| tx.step());
        if has_received {
            return;
        }
        if self.sink.has_arrival_times() {
            thread::sleep(DRAIN);
        } else {
            let fds = [&mut self.tx, &mut self.rx].map(|side| side.as_mut()?.rx.wake_fd());
            let mut fds: Vec<PollFd<'_>> =
                fds.iter().flatten().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            wait(&mut fds, IDLE);
        }
    }
}

/// Waits until a descriptor is ready, or for `time`.
fn wait(fds: &mut [PollFd<'_>], time: Duration) {
    let timeout = Timespec::try_from(time).expect("a short time");
    // An interrupted wait is a short one.
    _ = poll(fds, Some(&timeout));
}

/// The thread of the sender.
fn send(sender: &mut Sender, port: &mut dyn TxPort, shared: &Shared) {
    // Without it frames leave in larger groups, at the same mean rate.
    _ = set_current_timer_slack(Some(TIMER_SLACK));
    let (polled_ns, slept_ns_min) = match default_threads() < CORES_MIN {
        true => (0, PACE_NS),
        false => (WAKE_NS, 0),
    };
    while !shared.stop.load(Ordering::Relaxed) {
        let step = sender.step(&mut now_ns, port);
        shared.sent.store(sender.counts().frames, Ordering::Relaxed);
        match step {
            Step::Done => break,
            Step::Sent => {}
            Step::Wait(until_ns) => {
                let left_ns = until_ns.saturating_sub(now_ns()).saturating_sub(polled_ns);
                match left_ns {
                    0 => thread::yield_now(),
                    // In steps, so that an interrupt takes effect soon.
                    left_ns => {
                        let slept_ns = left_ns.clamp(slept_ns_min, PROGRESS_NS);
                        thread::sleep(Duration::from_nanos(slept_ns));
                    }
                }
            }
            Step::Full | Step::Refused => match port.wake_fd() {
                Some(fd) => wait(&mut [PollFd::new(&fd, PollFlags::OUT)], ROOM),
                None => thread::yield_now(),
            },
        }
    }
    shared.is_done.store(true, Ordering::Release);
}

/// Sums over the flows of a trial.
struct Sums {
    flows: FlowCounts,
    lost: u64,
    bad_flows: Vec<BadFlow>,
}

impl Sums {
    /// Of a sink, beside the frames sent per flow if they are known.
    fn new(sink: &Sink, sent_by_flow: Option<&[u64]>) -> Self {
        let mut sums = Self { flows: FlowCounts::default(), lost: 0, bad_flows: Vec::new() };
        for (flow, (counts, gaps)) in sink.tracker().counts().zip(sink.tracker().gaps()).enumerate()
        {
            let lost = match sent_by_flow {
                Some(sent) => sent[flow].saturating_sub(counts.received),
                None => gaps,
            };
            sums.flows.received += counts.received;
            sums.flows.duplicates += counts.duplicates;
            sums.flows.reordered += counts.reordered;
            sums.lost += lost;
            if lost + counts.duplicates + counts.reordered > 0 {
                sums.bad_flows.push(BadFlow { flow: flow as u32, lost, counts });
            }
        }
        sums
    }

    fn result(
        self,
        sink: &Sink,
        sent: SendCounts,
        sending_ns: u64,
        sink_drops: u64,
    ) -> TrialResult {
        let Self { flows, lost, bad_flows } = self;
        let (sink, latency) = (sink.counts(), sink.latency());
        TrialResult { sent, sink, flows, lost, bad_flows, latency, sending_ns, sink_drops }
    }
}
