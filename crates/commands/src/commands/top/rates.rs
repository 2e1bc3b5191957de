//! What a router counted, read from its handler `stats`, and the rates between two readings.

use std::collections::HashMap;
use std::time::Instant;

use clap::ValueEnum;
use serde::Serialize;

use crate::human;

/// The most elements of a router that are shown.
pub const ELEMENTS_MAX: usize = 1 << 16;
/// The most bytes of the handler's answer.
pub const STATS_BYTES_MAX: usize = 16 << 20;
/// The most bytes of a name; longer ones are no names.
const NAME_BYTES_MAX: usize = 512;
/// The most reasons that an element may have.
const REASONS_MAX: usize = 64;

/// One reading.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The router's clock for costs, if it counts them.
    clock_ns: Option<u64>,
    /// When it came.
    at: Instant,
    counts: Vec<Counts>,
}

/// What was counted about an element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    name: String,
    class: String,
    packets: u64,
    bytes: u64,
    batches: u64,
    own_ns: u64,
    held: u64,
    drops: u64,
    reasons: Vec<(String, u64)>,
}

/// What elements did between two readings.
#[derive(Clone, Debug, Serialize)]
pub struct Rates {
    /// Time between the readings.
    pub seconds: f64,
    /// Whether the router counts bytes and costs.
    pub counts_costs: bool,
    /// All elements, in the order of the text.
    pub elements: Vec<ElementRates>,
}

/// What one element did.
#[derive(Clone, Debug, Serialize)]
pub struct ElementRates {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Packets since the run began.
    pub packets: u64,
    /// Packets a second.
    pub packets_per_s: f64,
    /// Bytes since the run began, where they are counted.
    pub bytes: Option<u64>,
    /// Bits a second.
    pub bits_per_s: Option<f64>,
    /// Packets of a batch.
    pub mean_batch: Option<f64>,
    /// Time per packet, without that of elements that it pulled packets from.
    pub ns_per_packet: Option<f64>,
    /// Part of the time of one core, in percent.
    pub percent_of_core: Option<f64>,
    /// Packets that it holds.
    pub held: u64,
    /// Packets that it dropped since the run began.
    pub dropped: u64,
    /// Packets that it drops a second.
    pub drops_per_s: f64,
    /// The same by reason.
    pub drops: Vec<DropRate>,
}

/// Packets that were dropped for one reason.
#[derive(Clone, Debug, Serialize)]
pub struct DropRate {
    /// Why.
    pub reason: String,
    /// How many since the run began.
    pub packets: u64,
    /// How many a second.
    pub per_s: f64,
}

/// What a table is sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Packets a second
    #[default]
    Rate,
    /// Nanoseconds per packet
    Cost,
    /// Part of the time of a core
    Time,
    /// Drops a second
    Drops,
    /// Packets that are held
    Held,
    /// The order of the configuration
    Order,
}

impl Sort {
    /// The one after this.
    pub fn next(self) -> Self {
        let all = Self::value_variants();
        let at = all.iter().position(|sort| *sort == self).unwrap_or_default();
        all[(at + 1) % all.len()]
    }

    /// The heading of the column.
    pub fn heading(self) -> &'static str {
        match self {
            Sort::Rate => "packets/s",
            Sort::Cost => "ns/packet",
            Sort::Time => "% core",
            Sort::Drops => "drops/s",
            Sort::Held => "held",
            Sort::Order => "order",
        }
    }

    /// The value that sorts, the largest first; then whatever would, had something happened.
    fn key(self, element: &ElementRates) -> (f64, u64) {
        match self {
            Sort::Rate => (element.packets_per_s, element.packets),
            Sort::Cost => (element.ns_per_packet.unwrap_or(0.0), 0),
            Sort::Time => (element.percent_of_core.unwrap_or(0.0), 0),
            Sort::Drops => (element.drops_per_s, element.dropped),
            Sort::Held => (0.0, element.held),
            Sort::Order => (0.0, 0),
        }
    }
}

impl Reading {
    /// Reads an answer of the handler, which came `at` this time.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, at: Instant) -> Result<Self, String> {
        let mut lines = text.lines().enumerate();
        let mut clock_ns = None;
        let columns = loop {
            let (_, line) = lines.next().ok_or("the header line is missing")?;
            match line.split_once('\t') {
                Some(("element", _)) => break Columns::of(line)?,
                Some(("clock_ns", ns)) => clock_ns = ns.parse().ok(),
                _ => {}
            }
        };
        let mut counts = Vec::new();
        for (idx, line) in lines {
            if counts.len() == ELEMENTS_MAX {
                return Err(format!("more than {ELEMENTS_MAX} elements"));
            }
            let row = columns.row(line);
            counts.push(row.ok_or_else(|| format!("invalid line {}", idx + 1))?);
        }
        Ok(Self { clock_ns, at, counts })
    }

    /// What happened between `before` and this reading; rates are 0 without one.
    pub fn since(&self, before: Option<&Reading>) -> Rates {
        let seconds = before.map_or(0.0, |before| self.seconds_since(before));
        let known = before.into_iter().flat_map(|before| &before.counts);
        let known: HashMap<&str, &Counts> =
            known.map(|counts| (counts.name.as_str(), counts)).collect();
        let counts_costs = self.clock_ns.is_some();
        let rates = |counts: &Counts| {
            let before = known.get(counts.name.as_str()).copied();
            // What began anew has no rates yet.
            let before = before.filter(|before| before.leads_to(counts)).unwrap_or(counts);
            counts.rates(before, seconds, counts_costs)
        };
        let elements = self.counts.iter().map(rates).collect();
        Rates { seconds: human::rounded(seconds, 3), counts_costs, elements }
    }

    fn seconds_since(&self, before: &Reading) -> f64 {
        match (before.clock_ns, self.clock_ns) {
            (Some(before), Some(now)) if now > before => (now - before) as f64 / 1e9,
            _ => (self.at - before.at).as_secs_f64(),
        }
    }
}

/// Where the columns of the handler's table stand.
struct Columns {
    places: [usize; 8],
    /// Columns in all: reasons stand behind them.
    count: usize,
}

impl Columns {
    fn of(line: &str) -> Result<Self, String> {
        let names: Vec<&str> = line.split('\t').collect();
        let wanted = ["element", "class", "packets", "bytes", "batches", "own_ns", "held", "drops"];
        let mut places = [0; 8];
        for (place, wanted) in places.iter_mut().zip(wanted) {
            let found = names.iter().position(|name| *name == wanted);
            *place = found.ok_or_else(|| format!("missing column '{wanted}'"))?;
        }
        Ok(Self { places, count: names.len() })
    }

    fn row(&self, line: &str) -> Option<Counts> {
        let fields: Vec<&str> = line.splitn(self.count + REASONS_MAX + 1, '\t').collect();
        let [name, class, packets, bytes, batches, own_ns, held, drops] = self.places;
        let word = |place: usize| {
            let word = fields.get(place).copied()?;
            let is_name = !word.is_empty() && word.bytes().all(|b| b.is_ascii_graphic());
            (is_name && word.len() <= NAME_BYTES_MAX).then(|| word.to_owned())
        };
        let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
        let reasons = fields.iter().skip(self.count).take(REASONS_MAX).map(|field| {
            let (count, reason) = field.split_once(' ')?;
            (reason.len() <= NAME_BYTES_MAX).then_some(())?;
            Some((reason.to_owned(), count.parse().ok()?))
        });
        Some(Counts {
            name: word(name)?,
            class: word(class)?,
            packets: number(packets)?,
            bytes: number(bytes)?,
            batches: number(batches)?,
            own_ns: number(own_ns)?,
            held: number(held)?,
            drops: number(drops)?,
            reasons: reasons.collect::<Option<Vec<_>>>()?,
        })
    }
}

impl Counts {
    /// Whether `later` may be the same element that has gone on.
    fn leads_to(&self, later: &Counts) -> bool {
        let of = |c: &Counts| [c.packets, c.bytes, c.batches, c.own_ns, c.drops];
        self.class == later.class && of(self).iter().zip(of(later)).all(|(was, is)| *was <= is)
    }

    fn rates(&self, before: &Counts, seconds: f64, counts_costs: bool) -> ElementRates {
        let per_s = |count: u64| {
            if seconds > 0.0 { human::rounded(count as f64 / seconds, 3) } else { 0.0 }
        };
        let per = |part: u64, whole: u64| {
            (whole > 0).then(|| human::rounded(part as f64 / whole as f64, 1))
        };
        let packets = self.packets - before.packets;
        let own_ns = self.own_ns - before.own_ns;
        let drop = |(reason, count): &(String, u64)| {
            let was = before.reasons.iter().find(|(known, _)| known == reason);
            let was = was.map_or(0, |(_, count)| *count);
            let per_s = per_s(count.saturating_sub(was));
            DropRate { reason: reason.clone(), packets: *count, per_s }
        };
        let percent = per_s(own_ns) / 1e9 * 100.0;
        ElementRates {
            name: self.name.clone(),
            class: self.class.clone(),
            packets: self.packets,
            packets_per_s: per_s(packets),
            bytes: counts_costs.then_some(self.bytes),
            bits_per_s: counts_costs.then(|| per_s(self.bytes - before.bytes) * 8.0),
            mean_batch: per(packets, self.batches - before.batches),
            ns_per_packet: if counts_costs { per(own_ns, packets) } else { None },
            percent_of_core: counts_costs.then(|| human::rounded(percent, 2)),
            held: self.held,
            dropped: self.drops,
            drops_per_s: per_s(self.drops - before.drops),
            drops: self.reasons.iter().map(drop).collect(),
        }
    }
}

impl Rates {
    /// Indices of the elements whose name or class contains `filter`, sorted.
    pub fn sorted(&self, sort: Sort, filter: &str) -> Vec<usize> {
        let filter = filter.to_lowercase();
        let is_meant = |idx: &usize| {
            let element = &self.elements[*idx];
            let has = |text: &str| text.to_lowercase().contains(&filter);
            has(&element.name) || has(&element.class)
        };
        let mut found: Vec<usize> = (0..self.elements.len()).filter(is_meant).collect();
        // Stable: what is alike stays in the order of the text.
        found.sort_by(|left, right| {
            let key = |idx: usize| sort.key(&self.elements[idx]);
            let (left, right) = (key(*left), key(*right));
            right.0.total_cmp(&left.0).then(right.1.cmp(&left.1))
        });
        found
    }

    /// The element called `name`.
    pub fn element(&self, name: &str) -> Option<&ElementRates> {
        self.elements.iter().find(|element| element.name == name)
    }
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::*;

    /// Two readings, half a second apart.
    pub const BEFORE: &str = "clock_ns\t1000000000\n\
        element\tclass\tpackets\tbytes\tbatches\town_ns\theld\tdrops\n\
        src\tInfiniteSource\t1000\t64000\t10\t5000\t0\t0\n\
        q\tQueue\t2000\t128000\t20\t9000\t3\t100\t100 full\n\
        sink\tDiscard\t0\t0\t0\t0\t0\t0\n";
    pub const AFTER: &str = "clock_ns\t1500000000\n\
        element\tclass\tpackets\tbytes\tbatches\town_ns\theld\tdrops\n\
        src\tInfiniteSource\t501000\t32064000\t5010\t50005000\t0\t0\n\
        q\tQueue\t2000\t128000\t20\t9000\t7\t350\t300 full\t50 unconnected output\n\
        sink\tDiscard\t0\t0\t0\t0\t0\t0\n";

    /// The rates between them.
    pub fn rates() -> Rates {
        let at = Instant::now();
        let before = Reading::parse(BEFORE, at).expect("it is right");
        Reading::parse(AFTER, at).expect("it is right").since(Some(&before))
    }

    #[test]
    fn rates_are_differences() {
        let rates = rates();
        assert_eq!((rates.seconds, rates.counts_costs), (0.5, true));
        let src = rates.element("src").expect("it is there");
        assert_eq!((src.packets, src.packets_per_s), (501_000, 1e6));
        assert_eq!((src.bytes, src.bits_per_s), (Some(32_064_000), Some(512e6)));
        assert_eq!((src.mean_batch, src.ns_per_packet), (Some(100.0), Some(100.0)));
        assert_eq!(src.percent_of_core, Some(10.0));
        let q = rates.element("q").expect("it is there");
        assert_eq!((q.packets_per_s, q.mean_batch, q.held), (0.0, None, 7));
        assert_eq!((q.dropped, q.drops_per_s), (350, 500.0));
        let drops = q.drops.iter().map(|d| (d.reason.as_str(), d.packets, d.per_s));
        let expected = [("full", 300, 400.0), ("unconnected output", 50, 100.0)];
        assert_eq!(drops.collect::<Vec<_>>(), expected);
        assert!(rates.element("other").is_none());
    }

    #[test]
    fn what_began_anew_has_no_rates_and_without_costs_time_is_ours() {
        let at = Instant::now();
        let parse = |text: &str, at| Reading::parse(text, at).expect("it is right");
        let swapped = parse(BEFORE, at).since(Some(&parse(AFTER, at)));
        assert!(swapped.elements.iter().all(|e| e.packets_per_s == 0.0 && e.drops_per_s == 0.0));
        let plain = |text: &str| text.split_once('\n').expect("lines").1.to_owned();
        let before = parse(&plain(BEFORE), at);
        let after = parse(&plain(AFTER), at + Duration::from_secs(2)).since(Some(&before));
        assert_eq!((after.seconds, after.counts_costs), (2.0, false));
        let src = after.element("src").expect("it is there");
        assert_eq!((src.packets_per_s, src.bits_per_s), (250_000.0, None));
        assert_eq!((src.ns_per_packet, src.percent_of_core), (None, None));
        let first = parse(AFTER, at).since(None);
        assert!(first.elements.iter().all(|e| e.packets_per_s == 0.0 && e.mean_batch.is_none()));
    }

    #[test]
    fn elements_are_sorted_and_filtered() {
        let rates = rates();
        let names = |sort, filter: &str| -> Vec<&str> {
            let found = rates.sorted(sort, filter);
            found.into_iter().map(|idx| rates.elements[idx].name.as_str()).collect()
        };
        assert_eq!(names(Sort::Rate, ""), ["src", "q", "sink"]);
        assert_eq!(names(Sort::Drops, ""), ["q", "src", "sink"]);
        assert_eq!(names(Sort::Held, ""), ["q", "src", "sink"]);
        assert_eq!(names(Sort::Order, "s"), ["src", "sink"]);
        assert_eq!(names(Sort::Cost, "QUEUE"), ["q"]);
        let all = Sort::value_variants();
        let mut sort = Sort::default();
        all.iter().for_each(|_| sort = sort.next());
        assert_eq!(sort, Sort::default());
    }

    #[test]
    fn answers_that_make_no_sense_are_refused() {
        let head = "element\tclass\tpackets\tbytes\tbatches\town_ns\theld\tdrops\n";
        let rows = |rows: &str| format!("{head}{rows}");
        let cases = [
            (String::new(), "the header line is missing"),
            ("element\tclass\n".into(), "missing column 'packets'"),
            (rows("a\tB\t1\t2\t3\n"), "invalid line 2"),
            (rows("a\tB\t-1\t2\t3\t4\t5\t6\n"), "invalid line 2"),
            (rows("a b\tB\t1\t2\t3\t4\t5\t6\n"), "invalid line 2"),
            (rows("a\t\u{fffd}\t1\t2\t3\t4\t5\t6\n"), "invalid line 2"),
            (rows("a\tB\t1\t2\t3\t4\t5\t6\tfull\n"), "invalid line 2"),
            (rows(&"a\tB\t1\t2\t3\t4\t5\t6\n".repeat(ELEMENTS_MAX + 1)), "more than 65536"),
        ];
        for (text, why) in cases {
            let error = Reading::parse(&text, Instant::now()).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
        // More columns than these may come some day.
        let more = rows("a\tB\t1\t2\t3\t4\t5\t6\tnew\n").replace("drops\n", "drops\tnew\n");
        assert!(Reading::parse(&more, Instant::now()).is_ok());
        // The largest counts there are do not overflow.
        let most = rows(&format!("a\tB{}\n", format!("\t{}", u64::MAX).repeat(6)));
        let reading = Reading::parse(&most, Instant::now()).expect("numbers");
        assert!(reading.since(Some(&reading)).elements[0].packets_per_s == 0.0);
    }
}
