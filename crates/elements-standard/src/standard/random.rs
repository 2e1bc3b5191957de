//! Samples, splits or corrupts packets at random.
//!
//! # Synopsis
//! `RandomSample([P], SAMPLE, DROP, ACTIVE)`, `ProbSplitter(P)`, `RandomBitErrors(P [, KIND,
//! ACTIVE])`
//!
//! # Ports
//! `RandomSample`: one input, one or two outputs, push or pull; packets that are not sampled are
//! emitted on output 1 if it is connected. `ProbSplitter`: one push input, two push outputs;
//! packets are emitted on output 1 with probability `P`. `RandomBitErrors`: one input, one output,
//! push or pull.
//!
//! # Configuration
//! - `P`: probability that a packet is sampled, that it is emitted on output 1, or that a bit is in
//!   error
//! - `SAMPLE`: same as `P`
//! - `DROP`: probability that a packet is not sampled
//! - `KIND`: effect of a bit error: `flip`, `set` or `clear`; default: `flip`
//! - `ACTIVE`: whether the element is active; default: true; otherwise all packets pass unchanged
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `sampling_prob`, `drop_prob` | read, write | probability, `RandomSample` only |
//! | `drops` | read | packets, `RandomSample` only |
//! | `prob` | read, write | probability, `ProbSplitter` only |
//! | `p_bit_error` | read, write | probability, `RandomBitErrors` only |
//! | `error_kind` | read, write | same as `KIND` |
//! | `active` | read, write | true or false |
//! | `config` | read | current arguments, `RandomSample` only |
//!
//! # Drops
//! - `not in the sample`: packet not sampled by a `RandomSample` without output 1
//!
//! # Threads
//! One instance per worker; random choices derive from the seed of the run.
//!
//! # Example
//! ```text
//! InfiniteSource(LIMIT 1000) -> RandomSample(0.1) -> RandomBitErrors(0.001) -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, Fixed};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::Batch;

use warpswitch_elements_support::format;

/// The class `RandomSample`.
pub static SAMPLE: ElementClass =
    ElementClass::new("RandomSample", "1/1-2", "a/ah", || Box::<RandomSample>::default())
        .drops(&["not in the sample"]);
/// The class `ProbSplitter`.
pub static SPLITTER: ElementClass =
    ElementClass::new("ProbSplitter", "1/2", "h/h", || Box::<ProbSplitter>::default());
/// The class `RandomBitErrors`.
pub static BIT_ERRORS: ElementClass =
    ElementClass::new("RandomBitErrors", "1/1", "a/a", || Box::<RandomBitErrors>::default());

/// Bits behind the point of a probability.
const BITS: u32 = 28;
/// The probability that is certain.
const ONE: u32 = 1 << BITS;

/// Returns true with `probability`, in units of 1 / `ONE`.
fn happens(cx: &mut Context<'_>, probability: u32) -> bool {
    cx.random() & (ONE - 1) < probability
}

/// Reads a probability that a handler was given.
fn parse(value: &str, message: &str) -> Result<u32, HandlerError> {
    let Fixed(probability) = format::parse::<Fixed<BITS>>(value)?;
    (probability <= ONE).then_some(probability).ok_or_else(|| HandlerError::failed(message))
}

fn unparse(probability: u32) -> String {
    format::binary(probability.into(), BITS)
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct RandomSample {
    probability: u32,
    active: bool,
    drops: u64,
}

const SAMPLE_MESSAGE: &str = "sampling probability must be between 0 and 1";

impl Element for RandomSample {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        self.active = true;
        let (mut sample, mut drop) = (None::<Fixed<BITS>>, None::<Fixed<BITS>>);
        args.read_p("P", &mut sample)
            .read("SAMPLE", &mut sample)
            .read("DROP", &mut drop)
            .read("ACTIVE", &mut self.active);
        args.complete()?;
        let drop = drop.and_then(|drop| ONE.checked_sub(drop.0));
        match sample.map(|sample| sample.0).or(drop).filter(|&sample| sample <= ONE) {
            Some(sample) => self.probability = sample,
            None => args.error_at("", SAMPLE_MESSAGE),
        }
        args.consume()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        if !self.active {
            return;
        }
        cx.sort(batch, |cx, _| {
            if happens(cx, self.probability) {
                return Fate::Pass;
            }
            self.drops += 1;
            Fate::EmitOrDrop(1, 0)
        });
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::both("sampling_prob"),
                HandlerSpec::both("drop_prob"),
                HandlerSpec::both("active"),
                HandlerSpec::read("drops"),
                HandlerSpec::read("config"),
            ]
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        let sample = unparse(self.probability);
        Ok(match name {
            "sampling_prob" => sample,
            "drop_prob" => unparse(ONE - self.probability),
            "active" => self.active.to_string(),
            "drops" => self.drops.to_string(),
            _ => format!("SAMPLE {sample}, ACTIVE {}", self.active),
        })
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "sampling_prob" => self.probability = parse(value, SAMPLE_MESSAGE)?,
            "drop_prob" => self.probability = ONE - parse(value, SAMPLE_MESSAGE)?,
            _ => self.active = format::parse(value)?,
        }
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.drops = old.drops;
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(Self { drops: 0, ..self.clone() })
    }

    fn absorb(&mut self, copy: &mut dyn Element) {
        if let Some(copy) = copy.downcast_mut::<Self>() {
            self.drops += copy.drops;
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct ProbSplitter {
    probability: u32,
}

const SPLIT_MESSAGE: &str = "split probability must be between 0 and 1";

impl Element for ProbSplitter {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut probability = Fixed::<BITS>(0);
        args.read_mp("P", &mut probability);
        args.complete()?;
        if probability.0 > ONE {
            args.error_at("", SPLIT_MESSAGE);
        }
        self.probability = probability.0;
        args.consume()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |cx, _| match happens(cx, self.probability) {
            true => Fate::Emit(1),
            false => Fate::Pass,
        });
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::both("prob")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(unparse(self.probability))
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.probability = parse(value, SPLIT_MESSAGE)?;
        Ok(String::new())
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Flip,
    Set,
    Clear,
}

impl Kind {
    const ALL: [(Kind, &str); 3] =
        [(Kind::Flip, "flip"), (Kind::Set, "set"), (Kind::Clear, "clear")];

    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Kind::Flip);
        }
        let found = Self::ALL.iter().find(|(_, name)| *name == text);
        let message = || format!("bad action '{text}' (must be 'set', 'clear', or 'flip')");
        found.map(|(kind, _)| *kind).ok_or_else(message)
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct RandomBitErrors {
    probability: u32,
    kind: Kind,
    active: bool,
    /// The probability that so many bits of a byte are right and the rest does not matter.
    at_most: [u32; 8],
}

const ERROR_MESSAGE: &str = "drop probability must be between 0 and 1";

impl RandomBitErrors {
    fn set_probability(&mut self, probability: u32) {
        self.probability = probability;
        let (wrong, right) = (u64::from(probability), u64::from(ONE - probability));
        let times = |a: u64, b: u64| (a * b + u64::from(ONE) / 2) >> BITS;
        let mut sum = 0;
        for (bits, at_most) in self.at_most.iter_mut().enumerate() {
            let power = |base: u64, n: usize| (0..n).fold(u64::from(ONE), |p, _| times(p, base));
            // Eight over `bits`: as many ways there are to choose the wrong ones.
            let ways = (0..bits as u64).fold(1, |ways, n| ways * (8 - n) / (n + 1));
            sum += ways * times(power(wrong, bits), power(right, 8 - bits));
            *at_most = sum.min(u64::from(ONE)) as u32;
        }
    }

    /// The bits of a byte that are wrong.
    fn wrong_bits(&self, cx: &mut Context<'_>) -> u8 {
        let chance = cx.random() & (ONE - 1);
        let count = self.at_most.partition_point(|&at_most| at_most <= chance);
        let mut wrong = 0u8;
        while wrong.count_ones() < count as u32 {
            wrong |= 1 << (cx.random() & 7);
        }
        wrong
    }
}

impl Element for RandomBitErrors {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        self.active = true;
        let (mut probability, mut kind) = (Fixed::<BITS>(0), String::new());
        args.read_mp("P", &mut probability)
            .read_p("KIND", &mut kind)
            .read_p("ACTIVE", &mut self.active);
        args.complete()?;
        match Kind::parse(&kind) {
            Ok(kind) => self.kind = kind,
            Err(message) => args.error_at("", &message),
        }
        match probability.0 {
            0 => args.warn_at("P", "zero bit error probability (underflow?)"),
            1..=ONE => {}
            _ => args.error_at("", ERROR_MESSAGE),
        }
        self.set_probability(probability.0.min(ONE));
        args.consume()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        if !self.active || self.probability == 0 {
            return;
        }
        for packet in batch.iter_mut() {
            for byte in packet.data_mut() {
                let wrong = self.wrong_bits(cx);
                match self.kind {
                    Kind::Flip => *byte ^= wrong,
                    Kind::Set => *byte |= wrong,
                    Kind::Clear => *byte &= !wrong,
                }
            }
        }
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::both("p_bit_error"),
                HandlerSpec::both("error_kind"),
                HandlerSpec::both("active"),
            ]
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "p_bit_error" => unparse(self.probability),
            "active" => self.active.to_string(),
            _ => {
                let name = Kind::ALL.iter().find(|(kind, _)| *kind == self.kind);
                name.map_or(String::new(), |(_, name)| (*name).to_owned())
            }
        })
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "p_bit_error" => self.set_probability(parse(value, ERROR_MESSAGE)?),
            "active" => self.active = format::parse(value)?,
            _ => self.kind = Kind::parse(value.trim()).map_err(HandlerError::failed)?,
        }
        Ok(String::new())
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    fn counts(config: &str) -> (u32, u32) {
        let (mut router, _) = run(config, &crate::registry());
        let mut read = |handler: &str| -> u32 {
            router.read(handler).expect("it is there").parse().expect("a number")
        };
        (read("a.count"), read("b.count"))
    }

    #[test]
    fn chance_keeps_to_its_probability() {
        for (element, least, most) in [
            ("RandomSample(0.25)", 2_300, 2_700),
            ("RandomSample(DROP 0.25)", 7_300, 7_700),
            ("RandomSample(0)", 0, 0),
            ("RandomSample(1)", 10_000, 10_000),
            ("RandomSample(SAMPLE 0, ACTIVE false)", 10_000, 10_000),
            ("ProbSplitter(0.1)", 8_800, 9_200),
        ] {
            let config = format!(
                "InfiniteSource(LIMIT 10000, BURST 100) -> s :: {element} -> a :: Counter
                 -> Discard; s[1] -> b :: Counter -> Discard;"
            );
            let (passed, others) = counts(&config);
            assert!((least..=most).contains(&passed), "{element}: {passed}");
            assert_eq!(passed + others, 10_000, "{element}");
        }
        let config = "InfiniteSource(LIMIT 100, BURST 100) -> Queue -> s :: RandomSample(0.5)
            -> Unqueue -> a :: Counter -> Discard; b :: Counter -> Discard; Idle -> b;";
        assert!((20..80).contains(&counts(config).0), "asked for one by one");
    }

    #[test]
    fn bits_go_wrong_in_proportion() {
        for (arguments, data, least, most) in [
            ("0.1", 0u8, 700, 900),
            ("0.1, set", 0, 700, 900),
            ("0.5, clear", 0xff, 3_800, 4_200),
            ("1", 0x55, 8_000, 8_000),
            ("0.1, set", 0xff, 0, 0),
            ("0", 0x12, 0, 0),
            ("0.5, flip, false", 0x12, 0, 0),
        ] {
            let config = format!(
                "InfiniteSource(DATA \\<{data:02x}>, LENGTH 1000, LIMIT 1)
                 -> RandomBitErrors({arguments}) -> Print(\"\", -1) -> Discard;"
            );
            let (_, transcript) = run(&config, &crate::registry());
            let said = transcript.said();
            let hex =
                said.lines().last().and_then(|line| line.split_once("| ")).expect("it speaks");
            let hex: String = hex.1.chars().filter(|c| *c != ' ').collect();
            let wrong: u32 = (0..1000)
                .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex digits"))
                .map(|byte| (byte ^ data).count_ones())
                .sum();
            assert!((least..=most).contains(&wrong), "{arguments}: {wrong}");
        }
    }

    #[test]
    fn what_is_no_probability_is_refused() {
        for (element, message) in [
            ("RandomSample", super::SAMPLE_MESSAGE),
            ("RandomSample(1.5)", super::SAMPLE_MESSAGE),
            ("RandomSample(DROP 2)", super::SAMPLE_MESSAGE),
            ("RandomBitErrors(2)", super::ERROR_MESSAGE),
            ("RandomBitErrors(0.5, x)", "bad action 'x' (must be 'set', 'clear', or 'flip')"),
        ] {
            let config = format!("Idle -> {element} -> Discard");
            let errors = router(&config, &crate::registry()).err().expect("it is wrong");
            assert!(errors.to_click().contains(message), "{}", errors.to_click());
        }
        let config = "Idle -> r :: RandomSample(0.5) -> Discard";
        let (mut router, _) = router(config, &crate::registry()).expect("it is right");
        router.write("r.drop_prob", "0.125").expect("it obeys");
        assert_eq!(router.read("r.config"), Ok("SAMPLE 0.875, ACTIVE true".into()));
        assert!(router.write("r.sampling_prob", "1.1").is_err());
    }
}
