//! Against the plain references of what a chain looks up, whatever a device does.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use warpswitch_classify::BuildOptions;
use warpswitch_routes::{NextHop, Prefix};
use warpswitch_rules::generate::{Family, Prng, RulesetSpec, Style};
use warpswitch_rules::{KeyBuf, RuleId, Ruleset, linear};
use warpswitch_scan::{Case, PatternId, Patterns, naive};
use warpswitch_testkit::dense;

use super::*;
use crate::deadline::Deadline;
use crate::host::{FaultPlan, HostPool};
use crate::image::Algorithm;
use crate::routes::LiveRoutes;
use crate::scan::{Place, TextFindings, put_text, text_words};
use crate::{Device, engine};

/// The time since the first look at it.
fn now() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

fn pool(faults: FaultPlan, slack: Option<Duration>) -> Arc<Device> {
    let start = &mut |worker| _ = thread::spawn(worker);
    let device = Device::from_pool(HostPool::with_faults(2, Some(faults), start));
    if let Some(slack) = slack {
        device.set_deadline(Deadline { slack, now });
    }
    device
}

fn routes() -> Vec<(Prefix<u32>, NextHop)> {
    let mut draw = Prng::new(5);
    let one = |number| {
        let prefix = Prefix::containing(draw.next_u64() as u32, draw.below(33) as u8);
        (prefix, NextHop(number))
    };
    (1..400).map(one).collect()
}

/// What rules and routes say of keys, whose second word is the destination.
fn expected(ruleset: &Ruleset, routes: &LiveRoutes<u32>, keys: &KeyBuf) -> Vec<(RuleId, NextHop)> {
    let mut ids = vec![RuleId::NONE; keys.len()];
    linear::classify(ruleset, keys.as_batch(), &mut ids);
    let image = routes.current();
    let words = keys.as_batch().words().chunks_exact(4);
    ids.into_iter().zip(words.map(|key| image.image().lookup(key[1]))).collect()
}

/// Whatever a device does, each step of each batch has its answers.
#[test]
fn no_fault_costs_an_answer() {
    let spec = RulesetSpec { style: Style::Acl, family: Family::Ipv4, rules: 80, seed: 3 };
    let ruleset = spec.generate();
    let keys = dense::keys_near(&ruleset, 3000, 4);
    let (none, delay_max) = (FaultPlan::default(), Duration::from_micros(300));
    let slow = FaultPlan { delay_chance: 0.5, delay_max, ..none };
    let cases = [
        (None, slow, None),
        (Some(ErrorKind::Call), FaultPlan { error_chance: 0.2, ..slow }, None),
        (Some(ErrorKind::Hung), FaultPlan { hang_chance: 0.2, ..slow }, Some(10)),
    ];
    for seed in 0..4 {
        for (kind, plan, slack_ms) in cases {
            let device = pool(FaultPlan { seed, ..plan }, slack_ms.map(Duration::from_millis));
            let options = BuildOptions::default();
            let rules = engine::load(&device, Algorithm::Turbo, &ruleset, &options).unwrap();
            let routes = LiveRoutes::build(&device, routes(), 1 << 30).unwrap();
            let want = expected(&ruleset, &routes, &keys);
            let mut chains: Vec<Chain> =
                (0..3).map(|_| device.chain(ChainRoom::of(1024, 1024)).unwrap()).collect();
            let mut got = Vec::new();
            for (number, batch) in keys.as_batch().words().chunks(4 * 100).enumerate() {
                let (chain, len) = (&mut chains[number % 3], batch.len() / 4);
                let words = chain.words_mut();
                words[..batch.len()].copy_from_slice(batch);
                let routes_at = batch.len().next_multiple_of(ALIGN_WORDS);
                for (word, key) in words[routes_at..].iter_mut().zip(batch.chunks(4)) {
                    *word = key[1];
                }
                chain.begin(routes_at + len);
                let ids = chain.step(&rules, 0, len);
                let hops = chain.step(&routes.current(), routes_at, len);
                let again = chain.step(&rules, 0, len);
                chain.end();
                chain.wait();
                let answers = chain.answers();
                assert_eq!(answers[ids.clone()], answers[again], "the same keys twice");
                let mut found = vec![NextHop(7); len];
                crate::routes::RouteImage::<u32>::unpack(&answers[hops], &mut found);
                got.extend(answers[ids].iter().map(|id| RuleId(*id)).zip(found));
            }
            assert_eq!(got, want, "seed {seed}, {plan:?}");
            assert_eq!(device.retired().map(GpuError::kind), kind, "seed {seed}, {plan:?}");
        }
    }
}

#[test]
fn a_chain_without_steps_ends() {
    let device = pool(FaultPlan::default(), None);
    let mut chain = device.chain(ChainRoom::of(64, 0)).unwrap();
    chain.begin(64);
    chain.end();
    chain.wait();
    assert!(!chain.was_rescued());
    device.retire(GpuError::new(ErrorKind::CardLost, "pulled out"));
    chain.begin(1);
    chain.end();
    assert!(chain.poll() && chain.was_rescued());
}

/// Texts of two groups of patterns.
struct TextCase {
    patterns: [Patterns; 2],
    /// With the group of each.
    texts: Vec<(usize, Vec<u8>)>,
}

impl TextCase {
    fn new(seed: u64) -> Self {
        let mut draw = Prng::new(seed);
        let mut bytes =
            |len: usize| -> Vec<u8> { (0..len).map(|_| b"abAB"[draw.below(4) as usize]).collect() };
        let mut patterns = [Patterns::new(), Patterns::new()];
        for idx in 0..60 {
            let case = if idx % 2 == 0 { Case::Insensitive } else { Case::Sensitive };
            patterns[idx % 2].push(&bytes(4 + idx / 4), case).unwrap();
        }
        let lens = [0, 1, 15, 16, 17, 200, 1460, 9000, 40_000];
        let texts = (0..135).map(|idx| (idx % 2, bytes(lens[idx % lens.len()]))).collect();
        Self { patterns, texts }
    }

    /// Puts texts with these numbers into a chain, as many as it has room for, and begins a batch.
    fn begin(&self, numbers: Range<usize>, chain: &mut Chain, room: ChainRoom) -> Texts {
        let mut texts = Texts::new(100, room.pages, 2);
        let (words, mut at) = (chain.words_mut(), room.words);
        for group in 0..2 {
            for idx in numbers.clone().filter(|&idx| self.texts[idx].0 == group) {
                let text = &self.texts[idx].1;
                if at + text_words(text.len()) <= words.len() {
                    let place = put_text(words, at, text);
                    if texts.push(group, idx as u32, place, text.len()) {
                        at += text_words(text.len());
                    }
                }
            }
        }
        let sent = texts.end(words);
        chain.begin(sent);
        chain.gather(&texts, 0, at - room.words);
        texts
    }

    /// Holds what was found in texts against the reference; how many the host was asked for.
    fn check(&self, chain: &Chain, texts: &Texts, found: &[Range<usize>; 2]) -> usize {
        let (mut asked, mut scratch) = (0, TextFindings::default());
        for (group, found) in found.iter().enumerate() {
            let words = &chain.answers()[found.clone()];
            let mut left: BTreeSet<u32> = texts.owners(group).iter().copied().collect();
            let expected = |owner: u32| {
                let (of, text) = &self.texts[owner as usize];
                assert_eq!(*of, group);
                naive::set(&self.patterns[group], text)
            };
            texts.read(group, words, &mut scratch, |owner, ids| {
                assert!(left.remove(&owner), "once, and of this group");
                match ids {
                    None => asked += 1,
                    Some(ids) => assert_eq!(ids, expected(owner)),
                }
            });
            left.into_iter().for_each(|owner| assert!(expected(owner).is_empty()));
        }
        asked
    }
}

/// Whatever a device does, each text has what occurs in it, or the host is asked to look.
#[test]
fn no_fault_costs_a_text() {
    let (none, delay_max) = (FaultPlan::default(), Duration::from_micros(300));
    let slow = FaultPlan { delay_chance: 0.5, delay_max, ..none };
    let plans = [
        (slow, None),
        (FaultPlan { error_chance: 0.1, ..slow }, None),
        (FaultPlan { hang_chance: 0.1, ..slow }, Some(Duration::from_millis(10))),
    ];
    let room = ChainRoom { words: 1024, texts: 40_000, answers: 20_000, pages: 7 };
    for (seed, (plan, slack)) in plans.into_iter().enumerate() {
        let case = TextCase::new(seed as u64);
        let device = pool(FaultPlan { seed: 3, ..plan }, slack);
        let images = [0, 1].map(|group: usize| {
            device.load(Arc::new(ScanImage::new(&case.patterns[group]))).unwrap()
        });
        let mut chains: Vec<Chain> = (0..3).map(|_| device.chain(room).unwrap()).collect();
        let (mut texts_all, mut asked) = (0, 0);
        for number in 0..30 {
            let chain = &mut chains[number % 3];
            let first = number * 7 % 95;
            let texts = case.begin(first..first + 40, chain, room);
            let found = [0, 1].map(|group| chain.scan(&images[group], texts.pages_of(group)));
            chain.end();
            chain.wait();
            texts_all += texts.len();
            asked += case.check(chain, &texts, &found);
        }
        // Short texts all fit, empty ones and those that no page takes never.
        assert!(texts_all > 600 && asked < texts_all / 2, "{asked} of {texts_all} asked for");
        assert_eq!(device.retired().is_some(), seed > 0, "{plan:?}");
    }
}

/// Of texts that only a card can read, the host is asked for.
#[test]
fn texts_out_of_reach_are_asked_for() {
    let case = TextCase::new(1);
    let device = pool(FaultPlan::default(), None);
    let image = device.load(Arc::new(ScanImage::new(&case.patterns[0]))).unwrap();
    let room = ChainRoom { words: 64, texts: 0, answers: 5000, pages: 2 };
    let mut chain = device.chain(room).unwrap();
    let mut texts = Texts::new(4, 2, 1);
    assert!(!texts.push(0, 9, Place::at(0x1000), 0), "nothing is in it");
    assert!(texts.push(0, 7, Place::at(0x1000), 40));
    let sent = texts.end(chain.words_mut());
    chain.begin(sent);
    chain.gather(&texts, 0, 0);
    let found = chain.scan(&image, texts.pages_of(0));
    chain.end();
    chain.wait();
    let mut seen = Vec::new();
    let words = &chain.answers()[found];
    texts.read(0, words, &mut TextFindings::default(), |owner, ids| {
        seen.push((owner, ids.map(<[PatternId]>::to_vec)));
    });
    assert_eq!(seen, [(7, None)]);
}
