//! The latency path on a pool of threads: the same memory, tags and state machine as on a card.

mod support {
    pub mod soak;
}

use std::sync::Arc;
use std::time::Duration;

use support::soak::Soak;
use warpswitch_gpu::host::HostPool;
use warpswitch_gpu::resident::{Frames, FramesConfig, Hysteresis, Stay};
use warpswitch_gpu::{Algorithm, Device, ErrorKind, engine};
use warpswitch_rules::schema::SCHEMAS;
use warpswitch_rules::{RuleId, linear};
use warpswitch_testkit::dense;

fn pool(threads: usize) -> Arc<Device> {
    Device::from_pool(HostPool::new(threads, &mut |worker| _ = std::thread::spawn(worker)))
}

/// No thread is ever late by its clock: how long one waits for a core says nothing.
fn patient() -> FramesConfig {
    let (doubt, deadline) = (Duration::from_secs(20), Duration::from_secs(3600));
    FramesConfig { doubt, deadline, ..FramesConfig::default() }
}

/// A clock that goes on by a microsecond at each look, and by a second when it has to jump.
fn clock() -> impl FnMut(bool) -> Duration {
    let mut now = Duration::ZERO;
    move |jumps| {
        now += if jumps { Duration::from_secs(1) } else { Duration::from_micros(1) };
        now
    }
}

#[test]
fn no_frame_is_torn_whatever_its_size_and_however_rules_change() {
    let schema = SCHEMAS[0];
    let mut soak = Soak::new(schema, &[Algorithm::Turbo], 60, patient());
    soak.frames = 100_000;
    let soaked = soak.run(&pool(2), &mut clock());
    let count = soaked.count;
    assert_eq!((count.rescued, count.resident + count.launched), (0, soak.frames));
    assert!(count.resident > 30_000 && count.launched > 10_000 && count.starts > 50, "{count:?}");
    assert!(soaked.keys > 5_000_000 && soaked.changes > 2000, "{soaked:?}");
    assert!(soaked.interrupts >= soaked.interrupts_at_work, "{soaked:?}");
    // By this clock a load takes a microsecond.
    assert_eq!(soaked.slow_loads, 0);
    assert!(soaked.interrupts_at_work > 20, "{soaked:?}");
    // As many frames through the kernel as were asked for.
    soak.config.hysteresis = Hysteresis::always();
    (soak.resident_only, soak.frames) = (true, 20_000);
    let soaked = soak.run(&pool(2), &mut clock());
    assert!(soaked.count.resident >= 20_000 && soaked.interrupts_at_work > 5, "{soaked:?}");
    // What a kernel had answered when it left is not asked of the next one.
    assert_eq!((soaked.count.doubts, count.doubts), (0, 0), "{soaked:?}");
}

/// Nothing came for so long that the kernel may have left, while an answered frame was not taken:
/// the next frame is not sent to it.
#[test]
fn a_frame_after_silence_does_not_wait_for_a_kernel_that_left() {
    let device = pool(1);
    let ruleset = dense::ruleset(SCHEMAS[0], 40, 4, 3);
    let loaded = engine::load(&device, Algorithm::Turbo, &ruleset, &Default::default()).unwrap();
    let keys = dense::keys_near(&ruleset, 100, 5);
    let silence = Duration::from_secs(3600);
    let hysteresis = Hysteresis { silence, ..Hysteresis::always() };
    let stay = Stay { lease: silence, ..Stay::default() };
    let config = FramesConfig { hysteresis, stay, ..patient() };
    let mut frames = Frames::new(&device, ruleset.schema(), config).unwrap();
    let mut now = Duration::ZERO;
    for after in [Duration::ZERO, stay.idle] {
        now += after;
        frames.send(keys.as_batch(), &loaded, now);
    }
    let count = frames.count();
    assert_eq!((count.resident, count.launched), (1, 1), "{count:?}");
    assert_eq!(frames.under_way(), 2);
    let mut out = vec![RuleId(7); keys.len()];
    for _ in 0..2 {
        frames.wait(&mut out, || {
            now += Duration::from_micros(1);
            now
        });
    }
    assert_eq!((frames.count().doubts, frames.count().rescued), (0, 0));
}

/// A thread that was not run for a second between a frame and its first look at it has seen
/// nothing late: the deadline counts from that look on.
#[test]
fn a_pause_of_the_caller_is_no_failure_of_the_device() {
    let mut asleep = Vec::new();
    let device = stalled(&mut asleep);
    let ruleset = dense::ruleset(SCHEMAS[0], 40, 4, 3);
    let loaded = engine::load(&device, Algorithm::Turbo, &ruleset, &Default::default()).unwrap();
    let keys = dense::keys_near(&ruleset, 100, 5);
    let config = FramesConfig { hysteresis: Hysteresis::always(), ..FramesConfig::default() };
    let config = FramesConfig { first: Duration::from_millis(3), ..config };
    let mut frames = Frames::new(&device, ruleset.schema(), config).unwrap();
    frames.send(keys.as_batch(), &loaded, Duration::ZERO);
    let after = |ms: u64| Duration::from_millis(1000 + ms);
    for (ms, doubts) in [(0, 0), (3, 0), (4, 1), (12, 1)] {
        assert_eq!((frames.poll(after(ms)), frames.count().doubts), (Some(false), doubts), "{ms}");
        assert_eq!(device.retired(), None);
    }
    assert_eq!(frames.poll(after(13)), Some(true));
    assert_eq!(device.retired().map(|cause| cause.kind()), Some(ErrorKind::Hung));
    let count = frames.count();
    assert_eq!((count.rescued, count.doubts, count.doubts_at_start), (1, 1, 1), "{count:?}");
    // At 0, at 3, and from 4 to 12 and from 12 to 13 nobody looked for longer than half a
    // millisecond, either.
    assert_eq!(count.pauses, 5, "{count:?}");
}

#[test]
fn every_schema_and_engine_goes_through_frames() {
    for schema in SCHEMAS {
        for algorithm in Algorithm::ALL {
            let config = FramesConfig { keys_max: 100, frames: 3, ..patient() };
            let mut soak = Soak::new(schema, &[algorithm], 25, config);
            soak.config.hysteresis = Hysteresis { busy_len: 20, ..Hysteresis::default() };
            soak.frames = 800;
            let count = soak.run(&pool(2), &mut clock()).count;
            assert!(count.resident > 50 && count.starts > 0, "{algorithm}: {count:?}");
        }
    }
    // An image of another engine takes another kernel.
    let mut soak = Soak::new(SCHEMAS[0], &Algorithm::ALL, 25, patient());
    soak.config.hysteresis = Hysteresis::always();
    soak.frames = 4000;
    let count = soak.run(&pool(2), &mut clock()).count;
    assert!(count.starts > 20, "{count:?}");
}

/// Frames without the kernel, and the kernel without frames between.
#[test]
fn either_way_alone_answers_all() {
    for (hysteresis, is_resident) in [(Hysteresis::never(), false), (Hysteresis::always(), true)] {
        for frames in [1, 7] {
            let config = FramesConfig { hysteresis, frames, keys_max: 1024, ..patient() };
            let mut soak = Soak::new(SCHEMAS[0], &[Algorithm::MaskHash], 30, config);
            soak.frames = 2000;
            let count = soak.run(&pool(2), &mut clock()).count;
            assert_eq!(count.starts > 0, is_resident, "{count:?}");
            assert!(is_resident || count.resident == 0, "{count:?}");
        }
    }
}

/// The kernel leaves by itself, unnoticed, as soon as nothing comes for a moment: what it did not
/// answer is answered by the next one.
#[test]
fn a_kernel_that_left_is_started_again() {
    let stay = Stay { idle: Duration::from_micros(200), ..Stay::default() };
    let config = FramesConfig {
        hysteresis: Hysteresis::always(),
        stay: Stay { lease: Duration::from_secs(7200), ..stay },
        doubt: Duration::from_micros(300),
        first: Duration::ZERO,
        ..patient()
    };
    let device = pool(1);
    let ruleset = dense::ruleset(SCHEMAS[0], 40, 4, 3);
    let loaded = engine::load(&device, Algorithm::Turbo, &ruleset, &Default::default()).unwrap();
    let keys = dense::keys_near(&ruleset, 200, 5);
    let mut want = vec![RuleId::NONE; keys.len()];
    linear::classify(&ruleset, keys.as_batch(), &mut want);
    let mut frames = Frames::new(&device, ruleset.schema(), config).unwrap();
    let mut now = Duration::ZERO;
    for round in 1.. {
        // By this clock no time passes, so nobody expects that it left.
        frames.send(keys.as_batch(), &loaded, now);
        let mut out = vec![RuleId(7); keys.len()];
        frames.wait(&mut out, || {
            std::thread::yield_now();
            now += Duration::from_micros(1);
            now
        });
        assert_eq!(out, want, "round {round}");
        if frames.count().doubts >= 3 {
            break;
        }
        assert!(round < 500, "it never left");
        std::thread::sleep(Duration::from_millis(round.min(50)));
    }
    let count = frames.count();
    assert!(count.starts > 3 && count.rescued == 0, "{count:?}");
}

/// Nobody runs the pool's work: frames are answered by the deadline, on the host, in order.
#[test]
fn a_device_that_hangs_is_retired_and_loses_nothing() {
    let mut asleep = Vec::new();
    let pool = HostPool::new(1, &mut |worker| asleep.push(worker));
    let device = Device::from_pool(pool);
    let config = FramesConfig {
        hysteresis: Hysteresis::always(),
        frames: 3,
        first: Duration::from_millis(3),
        ..FramesConfig::default()
    };
    for schema in SCHEMAS {
        let device = if schema == SCHEMAS[0] { &device } else { &stalled(&mut asleep) };
        let ruleset = dense::ruleset(schema, 40, 4, 3);
        let loaded = engine::load(device, Algorithm::Turbo, &ruleset, &Default::default()).unwrap();
        let keys = dense::keys_near(&ruleset, 600, 5);
        let mut want = vec![RuleId::NONE; keys.len()];
        linear::classify(&ruleset, keys.as_batch(), &mut want);
        let mut frames = Frames::new(device, schema, config).unwrap();
        let mut now = Duration::ZERO;
        let mut got = Vec::new();
        for (sent, batch) in keys.as_batch().words().chunks(100 * schema.words).enumerate() {
            if !frames.has_room() {
                take(&mut frames, &mut now, &mut got);
            }
            frames.send(warpswitch_rules::KeyBatch::new(schema, batch), &loaded, now);
            assert_eq!(device.retired().is_some(), sent >= 3, "{sent}");
        }
        while frames.under_way() > 0 {
            take(&mut frames, &mut now, &mut got);
        }
        assert_eq!(got, want);
        assert_eq!(device.retired().map(|cause| cause.kind()), Some(ErrorKind::Hung));
        let count = frames.count();
        assert_eq!((count.resident, count.launched, count.rescued), (3, 0, 6), "{count:?}");
        // Not before the deadline, and not long after.
        assert!((13..14).contains(&now.as_millis()), "{now:?}");
    }
}

/// A device of one thread that does nothing.
fn stalled(asleep: &mut Vec<warpswitch_gpu::host::Worker>) -> Arc<Device> {
    Device::from_pool(HostPool::new(1, &mut |worker| asleep.push(worker)))
}

fn take(frames: &mut Frames, now: &mut Duration, got: &mut Vec<RuleId>) {
    let mut out = vec![RuleId(7); frames.oldest_len().unwrap()];
    frames.wait(&mut out, || {
        *now += Duration::from_micros(1);
        *now
    });
    got.extend(out);
}
