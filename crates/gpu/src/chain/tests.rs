//! Against the plain references of what a chain looks up, whatever a device does.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use warpswitch_classify::BuildOptions;
use warpswitch_routes::{NextHop, Prefix};
use warpswitch_rules::generate::{Family, Prng, RulesetSpec, Style};
use warpswitch_rules::{KeyBuf, RuleId, Ruleset, linear};
use warpswitch_testkit::dense;

use super::*;
use crate::deadline::Deadline;
use crate::host::{FaultPlan, HostPool};
use crate::image::Algorithm;
use crate::routes::LiveRoutes;
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
                (0..3).map(|_| device.chain(1024, 1024).unwrap()).collect();
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
    let mut chain = device.chain(64, 0).unwrap();
    chain.begin(64);
    chain.end();
    chain.wait();
    assert!(!chain.was_rescued());
    device.retire(GpuError::new(ErrorKind::CardLost, "pulled out"));
    chain.begin(1);
    chain.end();
    assert!(chain.poll() && chain.was_rescued());
}
