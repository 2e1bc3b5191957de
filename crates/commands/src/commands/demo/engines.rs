//! The demo of classification: every engine on generated rules and packets.

use std::time::{Duration, Instant};

use warpswitch_classify::{BuildOptions, Classifier, Engine, build};
use warpswitch_rules::format::format_match;
use warpswitch_rules::generate::{Family, Point, RulesetSpec, Style, TraceSpec};
use warpswitch_rules::{KeyBuf, RuleId, Ruleset, linear};

use crate::args::default_engine;
use crate::digest::Digest;
use crate::exit::Outcome;
use crate::human;
use crate::measure::{MeasureOptions, answer_all, classify_all, measure};
use crate::output::print;
use crate::table::{Align, Table, title};
use crate::tally::Tally;
use crate::term::{BAD, GOOD, Progress};
use crate::threads::default_threads;

/// Rules of the demo.
const RULES: usize = 10_000;

/// Packets of the demo.
const PACKETS: usize = 500_000;

/// Packets whose answers are compared with those of the reference.
const CHECKED_PACKETS: usize = 10_000;

/// How long each engine runs, in all.
const ENGINE_TIME: Duration = Duration::from_millis(800);

/// Actions that are listed.
const ACTIONS: usize = 5;

/// Hottest rules that are listed.
const HOTTEST: usize = 5;

/// Keys in a batch.
const BATCH_KEYS: usize = 256;

/// What one engine did.
struct EngineRun {
    engine: Engine,
    rate: f64,
    build_time: Duration,
    bytes: usize,
    is_right: bool,
}

/// Runs the demo.
///
/// # Errors
/// If an engine cannot be built or the standard output fails.
pub fn run() -> anyhow::Result<Outcome> {
    let progress = Progress::spinner("generating rules and packets");
    let spec = RulesetSpec { style: Style::Fw, family: Family::Ipv4, rules: RULES, seed: 1 };
    let ruleset = spec.generate();
    let keys = generate_keys(&ruleset);
    drop(progress);
    let aside = "firewall style, IPv4, uniform traffic";
    let head = format!(
        "{}, {}",
        human::counted(ruleset.len(), "rule"),
        human::counted(keys.len(), "packet")
    );
    print(&format!("{}\n", title(&head, aside)))?;

    let right = reference_answers(&ruleset, &keys);
    let table = engine_table();
    print(&table.heading_line())?;
    let mut all_right = true;
    let mut linear_rate = None;
    for engine in Engine::ALL {
        let run = run_engine(engine, &ruleset, &keys, &right)?;
        let linear_rate = *linear_rate.get_or_insert(run.rate);
        print(&engine_line(&table, &run, linear_rate))?;
        all_right &= run.is_right;
    }

    let answers = classify_with_progress(&ruleset, &keys)?;
    let mut tally = Tally::new(ruleset.len());
    tally.count_winners(&answers);
    print(&render_tally(&ruleset, &tally))?;
    let mut digest = Digest::new();
    digest.update(&answers);
    let verdict = if all_right {
        format!("All engines returned correct results; digest {digest}")
    } else {
        "An engine returned wrong results: this is a bug".to_owned()
    };
    print(&format!(
        "\n{verdict}.\nNext: 'warpswitch --help'; 'warpswitch generate --help' explains how to \
         generate such files.\n"
    ))?;
    Ok(if all_right { Outcome::Done } else { Outcome::Failed })
}

/// The answers of the reference to the first packets.
fn reference_answers(ruleset: &Ruleset, keys: &KeyBuf) -> Vec<RuleId> {
    let _progress = Progress::spinner("classifying with the reference");
    let mut right = vec![RuleId::NONE; CHECKED_PACKETS];
    let some = keys.as_batch().slice(0, CHECKED_PACKETS);
    answer_all(some, default_threads(), &mut right, &|_| {}, &|keys, out| {
        linear::classify(ruleset, keys, out);
    });
    right
}

/// Classifies all packets with the default engine on all cores.
fn classify_with_progress(ruleset: &Ruleset, keys: &KeyBuf) -> anyhow::Result<Vec<RuleId>> {
    let engine = default_engine();
    let classifier = build(engine, ruleset, &BuildOptions::default())?;
    let progress = Progress::steps(&format!("{engine}: all packets"), keys.len() as u64);
    let tell = |done| progress.at(done);
    Ok(classify_all(classifier.as_ref(), keys.as_batch(), default_threads(), &tell))
}

fn generate_keys(ruleset: &Ruleset) -> KeyBuf {
    let spec = TraceSpec {
        keys: PACKETS,
        point: Point::Inside,
        locality: None,
        realisable: true,
        seed: 1,
    };
    let mut keys = KeyBuf::with_capacity(ruleset.schema(), PACKETS);
    spec.generate(ruleset).fill(&mut keys, PACKETS);
    keys
}

/// Builds an engine, compares its answers and measures it.
fn run_engine(
    engine: Engine,
    ruleset: &Ruleset,
    keys: &KeyBuf,
    right: &[RuleId],
) -> anyhow::Result<EngineRun> {
    let progress = Progress::spinner(&format!("{engine}: building"));
    let start = Instant::now();
    let classifier: Box<dyn Classifier> = build(engine, ruleset, &BuildOptions::default())?;
    let build_time = start.elapsed();
    progress.say(format!("{engine}: checking"));
    let some = keys.as_batch().slice(0, right.len());
    let is_right = classify_all(classifier.as_ref(), some, default_threads(), &|_| {}) == right;
    let runs = 8;
    // One run more warms up, and one takes times.
    let run_time = ENGINE_TIME / (runs as u32 + 2);
    let options = MeasureOptions { threads: 1, batch_len: BATCH_KEYS, runs, run_time };
    let tell = |rate| progress.say(format!("{engine}: {}", human::rate(rate)));
    let measured = measure(classifier.as_ref(), keys.as_batch(), &options, &tell);
    let bytes = classifier.bytes();
    Ok(EngineRun { engine, rate: measured.rate(), build_time, bytes, is_right })
}

fn engine_table() -> Table {
    Table::new(&[
        ("engine", Align::Left),
        ("one core", Align::Right),
        ("against linear", Align::Right),
        ("build", Align::Right),
        ("memory", Align::Right),
    ])
    .with_widths(&[12, 10, 14, 8, 8])
}

fn engine_line(table: &Table, run: &EngineRun, linear_rate: f64) -> String {
    let cells = [
        run.engine.name().to_owned(),
        if run.is_right { human::rate(run.rate) } else { "wrong".into() },
        format!("{} x", human::significant(run.rate / linear_rate)),
        human::time(run.build_time),
        human::bytes(run.bytes),
    ];
    let style = match run {
        run if !run.is_right => BAD,
        run if run.engine == default_engine() => GOOD,
        _ => anstyle::Style::new(),
    };
    table.row_line(style, &cells)
}

/// Hits per action and the hottest rules.
fn render_tally(ruleset: &Ruleset, tally: &Tally) -> String {
    let mut actions =
        Table::new(&[("action", Align::Left), ("packets", Align::Right), ("", Align::Right)]);
    let share = |packets| human::percent(packets, tally.packets);
    let counts = tally.actions(ruleset);
    for action in counts.iter().take(ACTIONS) {
        let packets = action.packets;
        actions.row([action.action.clone(), human::count(packets), share(packets)]);
    }
    if counts.len() > ACTIONS {
        let packets = counts.iter().skip(ACTIONS).map(|action| action.packets).sum();
        let name = format!("{} others", counts.len() - ACTIONS);
        actions.row([name, human::count(packets), share(packets)]);
    }
    if tally.misses > 0 {
        actions.row(["no rule".into(), human::count(tally.misses), share(tally.misses)]);
    }
    let mut hottest = Table::new(&[
        ("rule", Align::Right),
        ("packets", Align::Right),
        ("action", Align::Left),
        ("rules with the most hits", Align::Left),
    ]);
    for (id, packets) in tally.hottest(HOTTEST) {
        let matching = format_match(ruleset.schema(), ruleset.matching(id));
        hottest.row([
            id.to_string(),
            human::count(packets),
            ruleset.action(id).to_string(),
            if matching.is_empty() { "any packet".into() } else { matching },
        ]);
    }
    format!("\n{}\n{}", actions.render(), hottest.render())
}
