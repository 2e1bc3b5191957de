//! Drops packets at random before queues are full: random early detection.
//!
//! # Synopsis
//! `RED(MIN_THRESH, MAX_THRESH, MAX_P, QUEUES, STABILITY, GENTLE)`
//!
//! # Ports
//! One input, one or two outputs; push or pull. Dropped packets are emitted on output 1 if it is
//! connected.
//!
//! # Configuration
//! - `MIN_THRESH`: average queue length in packets up to which nothing is dropped
//! - `MAX_THRESH`: average queue length at which packets are dropped with probability `MAX_P`
//! - `MAX_P`: probability
//! - `QUEUES`: queue names; default: the nearest queues downstream, or upstream if the input is
//!   pull
//! - `STABILITY`: each packet weighs 1/2^`STABILITY` in the average queue length; default: 4
//! - `GENTLE`: whether the probability rises further, to 1 at twice `MAX_THRESH`; default: true;
//!   otherwise all packets beyond `MAX_THRESH` are dropped
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `min_thresh`, `max_thresh`, `max_p` | read, write | same as the arguments |
//! | `drops` | read | packets |
//! | `avg_queue_size` | read | packets |
//! | `stats` | read | current queue length, average, drops |
//! | `queues` | read | names, one per line |
//! | `config` | read | current arguments |
//!
//! # Drops
//! - `early`: dropped to keep queues short
//!
//! # Threads
//! Runs on one worker, the same as its queues.
//!
//! # Example
//! ```text
//! InfiniteSource -> RED(5, 50, 0.02) -> Queue -> RatedUnqueue(1000) -> Discard;
//! ```
//!
//! # Source
//! Floyd, Jacobson, "Random Early Detection Gateways for Congestion Avoidance", 1993; the gentle
//! variant is Floyd's.

use warpswitch_graph::language::args::{Args, ArgsError, ElementRef, Fixed};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Time,
};
use warpswitch_packet::Batch;

use super::link_unqueue::LinkUnqueue;
use super::queue::Queue;
use warpswitch_elements_support::format;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("RED", "1/1-2", "a/ah", || Box::<Red>::default()).drops(&["early"]);

/// Bits behind the point of an average.
const SCALE: u32 = 10;
/// The probability that is certain.
const ONE: u32 = 1 << 16;
/// The unit of idle time, in which averages fall.
const IDLE_NS: i64 = Time::SECOND / 50;

/// See the module.
#[derive(Debug, Default)]
pub struct Red {
    thresh_min: u32,
    thresh_max: u32,
    probability: u32,
    is_gentle: bool,
    stability: u32,
    queues: Vec<usize>,
    /// Average of what queues hold.
    average: u64,
    /// When the queues were last seen empty.
    empty_since: Option<i64>,
    /// Packets since the last drop; none if they need not be counted.
    since_drop: Option<u32>,
    random: u32,
    drops: u64,
}

/// Packets that `element` holds, if it is a queue.
fn queue_len(cx: &mut Context<'_>, element: usize) -> Option<usize> {
    let len = cx.with_element(element, |queue: &mut Queue, _| queue.len());
    len.or_else(|| cx.with_element(element, |link: &mut LinkUnqueue, _| link.len()))
}

impl Red {
    fn check(&self) -> Result<(), &'static str> {
        match () {
            () if self.thresh_max > 0xffff => Err("MAX_THRESH must be <= 65535"),
            () if self.thresh_min > self.thresh_max => Err("MIN_THRESH must be <= MAX_THRESH"),
            () if self.probability > ONE => Err("MAX_P must be between 0 and 1"),
            () if self.stability > 16 => Err("STABILITY must be between 0 and 16"),
            () => Ok(()),
        }
    }

    fn all_queues_len(&self, cx: &mut Context<'_>) -> u64 {
        self.queues.iter().map(|&queue| queue_len(cx, queue).unwrap_or(0) as u64).sum()
    }

    /// Averages in that queues hold `len` packets.
    fn update(&mut self, len: u64) {
        let (target, half) = ((len << SCALE) as i64, (1i64 << self.stability) / 2);
        let step = (target + half - self.average as i64) >> self.stability;
        self.average = self.average.saturating_add_signed(step);
    }

    /// Brings the average up to date.
    fn look(&mut self, len: u64, now: Time) {
        if self.stability == 0 {
            self.average = len << SCALE;
        } else if len > 0 {
            self.update(len);
            self.empty_since = None;
        } else {
            // Nobody asked while they were empty.
            let unit = now.0.div_euclid(IDLE_NS);
            let steps = self.empty_since.replace(unit).map_or(1, |since| unit - since);
            if steps >= 16 << self.stability {
                self.average = 0;
            }
            for _ in 0..steps.min(16 << self.stability) {
                self.update(0);
            }
        }
    }

    /// The probability of a drop, as a fraction of [`ONE`].
    fn probability(&self) -> i64 {
        let (min, max) = (i64::from(self.thresh_min), i64::from(self.thresh_max));
        let (most, average) = (i64::from(self.probability), self.average as i64);
        let packets = (average + (1 << SCALE) / 2) >> SCALE;
        if packets <= max {
            match max - min {
                0 => -1,
                range => ((most / range * average) >> SCALE) - most * min / range,
            }
        } else {
            let rest = i64::from(ONE) - most;
            ((rest / max.max(1) * average) >> SCALE) - (i64::from(ONE) - 2 * most)
        }
    }

    /// Whether to drop a packet, while queues hold `len`.
    fn drops(&mut self, cx: &mut Context<'_>, len: u64) -> bool {
        self.look(len, cx.now());
        let packets = (self.average + (1 << SCALE) / 2) >> SCALE;
        let thresh_kill = match self.is_gentle && self.probability != ONE {
            true => 2 * u64::from(self.thresh_max),
            false => self.thresh_max.into(),
        };
        if packets <= self.thresh_min.into() || packets > thresh_kill {
            self.since_drop = None;
            return packets > thresh_kill;
        }
        let count = self.since_drop.map_or(0, |count| count + 1);
        self.since_drop = Some(count);
        let probability = self.probability();
        let drops =
            count > 0 && probability > 0 && i64::from(count) > i64::from(self.random) / probability;
        if drops {
            self.since_drop = Some(0);
        }
        if self.since_drop == Some(0) {
            self.random = cx.random() >> 5 & 0xffff;
        }
        drops
    }

    /// Drops of `batch` what is to be; each packet that passes adds `change` to what queues hold,
    /// which is `len` for the first one.
    fn thin(&mut self, cx: &mut Context<'_>, batch: &mut Batch, mut len: i64, is_pull: bool) {
        cx.sort(batch, |cx, _| {
            let drops = self.drops(cx, u64::try_from(len).unwrap_or(0));
            // Behind this element the queues have not seen the packets before this one yet; in
            // front of it they have given those behind it already.
            len += if is_pull { -1 } else { i64::from(!drops) };
            self.drops += u64::from(drops);
            if drops { Fate::EmitOrDrop(1, 0) } else { Fate::Pass }
        });
    }

    fn find_queues(&mut self, cx: &mut Context<'_>) {
        let elements = cx.graph().elements.len();
        let own = cx.element();
        let is_queue: Vec<bool> =
            (0..elements).map(|idx| idx != own && queue_len(cx, idx).is_some()).collect();
        let (own, stops) = (cx.element(), |idx: usize| is_queue[idx]);
        let found = match cx.output_is_push(0) {
            true => cx.flow().downstream(own, Some(0), |visit| stops(visit.at.element)),
            false => cx.flow().upstream(own, Some(0), |visit| stops(visit.at.element)),
        };
        self.queues = found.into_iter().filter(|&idx| is_queue[idx]).collect();
    }
}

impl Element for Red {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        (self.stability, self.is_gentle) = (4, true);
        let (mut probability, mut queues) = (Fixed::<16>(0), Vec::<ElementRef>::new());
        args.read_mp("MIN_THRESH", &mut self.thresh_min)
            .read_mp("MAX_THRESH", &mut self.thresh_max)
            .read_mp("MAX_P", &mut probability)
            .read("QUEUES", &mut queues)
            .read("STABILITY", &mut self.stability)
            .read("GENTLE", &mut self.is_gentle);
        args.complete()?;
        self.probability = probability.0;
        self.queues = queues.iter().map(|queue| queue.0).collect();
        if let Err(message) = self.check() {
            args.error_at("", message);
        }
        args.consume()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if self.queues.is_empty() {
            self.find_queues(cx);
        }
        if self.queues.is_empty() {
            return Err("no nearby Queues".to_owned());
        }
        let other = self.queues.iter().find(|&&queue| queue_len(cx, queue).is_none());
        match other {
            Some(&other) => {
                let name = &cx.graph().elements[other].name;
                Err(format!("'{name}' is not a Storage element"))
            }
            None => Ok(()),
        }
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        let len = self.all_queues_len(cx) as i64;
        self.thin(cx, &mut batch, len, false);
        cx.emit_batch(0, batch);
    }

    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, packets_max: usize) -> Batch {
        let mut batch = cx.pull(0, packets_max);
        if !batch.is_empty() {
            let len = self.all_queues_len(cx) as i64 + batch.len() as i64 - 1;
            self.thin(cx, &mut batch, len, true);
        }
        batch
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("drops"),
                HandlerSpec::both("min_thresh"),
                HandlerSpec::both("max_thresh"),
                HandlerSpec::both("max_p"),
                HandlerSpec::read("avg_queue_size"),
                HandlerSpec::read("stats"),
                HandlerSpec::read("queues"),
                HandlerSpec::read("config"),
            ]
        }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        let elements = &cx.graph().elements;
        let names = self.queues.iter().map(|&queue| elements[queue].name.clone());
        let average = format::binary(self.average, SCALE);
        let probability = format::binary(self.probability.into(), 16);
        Ok(match name {
            "drops" => self.drops.to_string(),
            "min_thresh" => self.thresh_min.to_string(),
            "max_thresh" => self.thresh_max.to_string(),
            "max_p" => probability,
            "avg_queue_size" => average,
            "queues" => names.map(|name| name + "\n").collect(),
            "stats" => {
                let len = self.all_queues_len(cx);
                format!("{len} current queue\n{average} avg queue\n{} drops\n", self.drops)
            }
            _ => {
                let (min, max, stability) = (self.thresh_min, self.thresh_max, self.stability);
                let queues: String = names.map(|name| format!(" {name}")).collect();
                let gentle = if self.is_gentle { "" } else { ", GENTLE false" };
                let rest = format!("QUEUES{queues}, STABILITY {stability}{gentle}");
                format!("{min}, {max}, {probability}, {rest}")
            }
        })
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let old = (self.thresh_min, self.thresh_max, self.probability);
        match name {
            "min_thresh" => self.thresh_min = format::parse(value)?,
            "max_thresh" => self.thresh_max = format::parse(value)?,
            _ => self.probability = format::parse::<Fixed<16>>(value)?.0,
        }
        self.check().map(|()| String::new()).map_err(|message| {
            (self.thresh_min, self.thresh_max, self.probability) = old;
            HandlerError::failed(message)
        })
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            (self.average, self.empty_since, self.drops) =
                (old.average, old.empty_since, old.drops);
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::Time;
    use warpswitch_graph::simulate::{SimulatedHost, router, run, run_until};

    #[test]
    fn a_queue_that_overflows_is_kept_short() {
        for (burst, red, least, most) in [
            (1, "RED(5, 50, 0.02)", 10, 100),
            (16, "RED(5, 50, 0.02)", 10, 130),
            (1, "RED(5, 20, 1, GENTLE false)", 3, 22),
            (1, "RED(100, 200, 0.5, STABILITY 0)", 100, 400),
        ] {
            let config = format!(
                "RatedSource(RATE 2000) -> Queue -> Unqueue({burst}) -> r :: {red} -> q :: Queue
                 -> RatedUnqueue(1000) -> c :: Counter -> Discard; r[1] -> d :: Counter -> Discard;"
            );
            let host = SimulatedHost::running(0, 5 * Time::SECOND - 1);
            let (mut router, _) = run_until(&config, &crate::registry(), host);
            let mut read = |handler: &str| -> f64 {
                router.read(handler).expect("it is there").parse().expect("a number")
            };
            let average = read("r.avg_queue_size");
            assert!((least.into()..=most.into()).contains(&average), "{red}: {average}");
            assert!(read("c.count") > 4_900.0, "{red}");
            assert!((read("d.count") - 5_000.0).abs() < 500.0, "{red}: {}", read("d.count"));
            assert_eq!(read("d.count"), read("r.drops"));
            assert_eq!(read("q.drops"), 0.0, "{red}");
        }
    }

    #[test]
    fn it_looks_upstream_if_it_is_asked() {
        let config = "InfiniteSource(LIMIT 500, BURST 500) -> q :: Queue -> Null
            -> r :: RED(5, 50, 0.5) -> u :: Unqueue(7) -> c :: Counter -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        let mut read = |handler: &str| router.read(handler).expect("it is there");
        assert_eq!(read("r.queues"), "q\n");
        assert_eq!(read("r.config"), "5, 50, 0.5, QUEUES q, STABILITY 4");
        assert_eq!(read("q.length"), "0");
        let (drops, passed): (u32, u32) = (
            read("r.drops").parse().expect("a number"),
            read("c.count").parse().expect("a number"),
        );
        assert_eq!(drops + passed, 500);
        assert!(drops > 100 && passed > 5, "{drops} {passed}");
        assert!(read("r.stats").starts_with("0 current queue\n"));
        assert!(router.write("r.min_thresh", "60").is_err());
        assert_eq!(router.read("r.min_thresh"), Ok("5".into()));
    }

    #[test]
    fn what_it_cannot_do_is_an_error() {
        for (config, message) in [
            ("Idle -> RED(5, 50, 0.5) -> Discard", "no nearby Queues"),
            ("Idle -> RED(60, 50, 0.5) -> Queue -> Idle", "MIN_THRESH must be <= MAX_THRESH"),
            ("Idle -> RED(5, 50, 1.5) -> Queue -> Idle", "MAX_P must be between 0 and 1"),
            ("Idle -> RED(5, 70000, 1) -> Queue -> Idle", "MAX_THRESH must be <= 65535"),
            ("Idle -> RED(5, 50, 1, QUEUES i) -> i :: Idle", "'i' is not a Storage element"),
        ] {
            let errors = router(config, &crate::registry()).err().expect("it is wrong");
            assert!(errors.to_click().contains(message), "{}", errors.to_click());
        }
    }
}
