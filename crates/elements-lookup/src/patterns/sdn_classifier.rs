//! Classifies Ethernet frames by rules from a file; the action of a rule selects the output.
//!
//! # Synopsis
//! `SDNClassifier(RULES FILE, [RULES_FORMAT FORMAT, ENGINE ENGINE, CACHE CACHE, MISS OUTPUT,
//! TCP_FLAGS BOOL])`
//!
//! # Ports
//! One input, any number of outputs; push. Requires whole frames, starting at the Ethernet header.
//!
//! # Configuration
//! - `RULES`: rule file, optionally gzip-compressed, at most 1 GiB uncompressed
//! - `RULES_FORMAT`: `classbench`, `ovs` or `canonical`; default: detected from the contents
//! - `ENGINE`: classification engine; default: `turbo`
//! - `CACHE`: `storm` answers most frames of skewed traffic from at most 20 evolving rules, derived
//!   from sampled frames; `auto` does so while it saves time, by measurement; default: `none`. The
//!   results are the same
//! - `MISS`: output for frames that match no rule, or have no key; default: drop them
//! - `TCP_FLAGS`: whether rules include the flags column of ClassBench; default: false
//!
//! | action of the winning rule | effect on the frame |
//! | --- | --- |
//! | `output:N` | emitted on output `N` |
//! | `pass`, `NORMAL` | emitted on output 0 |
//! | `mark:N` | emitted on output 0 with the lowest byte of `N` as its paint annotation |
//! | `drop` | dropped |
//!
//! Other actions are errors. Rules that match on the input port compare it with the paint.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `rules` | read | number of rules |
//! | `hits` | read | `RULE FRAMES` for each rule that won, by its position in the file from 0 on |
//! | `engine` | read | name of the engine |
//! | `bytes` | read | memory of the engine, in bytes |
//! | `cache_hit_ratio` | read | share of lookups that the cache answered, 0 to 1 |
//! | `cached_rules` | read | number of rules in the cache |
//! | `cache_swaps` | read | number of versions of the cache |
//! | `cache_on` | read | whether the cache is in use: false without one, and while `auto` bypasses it |
//! | `ahead` | read | frames whose cached result was used, for example from a `GPUSDNClassifier` |
//! | `ahead_missed` | read | frames looked up here although cached results are in use, by reason: `NUMBER<tab>REASON` |
//! | `add` | write | adds a rule, written as in a file; returns its number |
//! | `remove` | write | removes the rule of this number |
//! | `reset_counts` | write | |
//!
//! # Drops
//! - `rule`: the action of the winning rule is `drop`
//! - `no_rule`: no rule matches, and `MISS` is not set
//! - `no_key`: the frame has no key, and `MISS` is not set
//!
//! # Threads
//! One instance per worker; they share the engine and the cache.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> sdn :: SDNClassifier(RULES web.flows, MISS 2);
//! sdn [0] -> Discard; sdn [1] -> Discard; sdn [2] -> Print(miss) -> Discard;
//! ```

use std::fmt::Write;
use std::sync::Arc;

use warpswitch_classify::{BuildOptions, Classifier, Engine, build};
use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing, drop_for,
};
use warpswitch_io::{Unpacked, name_folder};
use warpswitch_packet::{BATCH_LEN_MAX, Batch, LentFrames, Packet, annotation};
use warpswitch_rules::extract::Extractor;
use warpswitch_rules::format::{
    RULES_BYTES_MAX, ReadOptions, RulesFormat, read_bounded, read_rules, read_rules_bytes,
};
use warpswitch_rules::{Action, KeyBatch, Rule, RuleId, RuleRef, Ruleset, RulesetBuilder, Schema};
use warpswitch_wire::link::LinkType;

use super::cache_argument::{CacheUse, EngineCache};
use super::verdicts::{Verdict, Verdicts};
use crate::lack::{Lack, Lacking};
use warpswitch_elements_support::cached::{CachedLookup, CachedResults};
use warpswitch_elements_support::files::reason;
use warpswitch_elements_support::link::has_ethernet;
use warpswitch_elements_support::outputs;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("SDNClassifier", "1/-", "h/h", || Box::new(SdnClassifier::default()))
        .drops(&["rule", "no_rule", "no_key"])
        .dear();

/// Reasons for drops, by number.
const RULE: u32 = 0;
const NO_RULE: u32 = 1;
const NO_KEY: u32 = 2;

/// Most errors of rules that are reported.
const ERRORS_MAX: usize = 20;
/// Most memory that an engine may take, in bytes.
const ENGINE_BYTES_MAX: usize = 4 << 30;

/// See the module.
#[derive(Default)]
pub struct SdnClassifier {
    outputs: usize,
    miss: Option<u32>,
    lookup: Option<Lookup>,
    results: CachedResults<RuleChange>,
    /// Of Ethernet headers.
    lack: Lack,
}

const NO_ETHERNET: Lacking = Lacking {
    so: "keys are extracted from the wrong bytes",
    what: "an Ethernet header before its IP header",
    remedy: "place it before Strip, or EtherEncap before it",
};

/// Rules, and room for a batch.
struct Lookup {
    classifier: Arc<dyn Classifier>,
    cache: EngineCache,
    extractor: Extractor,
    format: Option<RulesFormat>,
    /// The rules that there are, by number.
    rules: Vec<Option<Rule>>,
    verdicts: Verdicts,
    /// The paint of each rule, and whether any has one.
    paints: Vec<Option<u8>>,
    has_paints: bool,
    keys: Vec<u32>,
    /// Frames of the batch that have no key.
    keyless: Vec<usize>,
    /// Frames of the batch without a cached result, and their rules.
    others: Vec<usize>,
    winners: Vec<RuleId>,
    found: Vec<RuleId>,
    to: Vec<u32>,
}

/// One change of rules.
#[derive(Clone, Debug)]
pub enum RuleChange {
    /// Inserts a rule under an unused number.
    Insert(RuleId, Rule),
    /// Removes a rule.
    Remove(RuleId, Rule),
}

/// The answer for frames that have no key.
pub const KEYLESS: u32 = RuleId::NONE.0 - 1;

/// The verdict on frames under `action`, given the number of outputs, and their paint.
fn verdict(action: &Action, outputs: usize) -> Result<(Verdict, Option<u8>), String> {
    let (output, paint) = match action {
        Action::Drop => return Ok((drop_for(RULE), None)),
        Action::Pass => (0, None),
        Action::Mark(mark) => (0, Some(*mark as u8)),
        Action::Output(output) => (*output, None),
        Action::List(text) => {
            return Err(format!(
                "unsupported action '{text}', expected output, pass, mark or drop"
            ));
        }
    };
    if output as usize >= outputs {
        return Err(format!("'{action}': no such output, {}", outputs::expected(outputs)));
    }
    Ok((output, paint))
}

impl Lookup {
    fn new(
        ruleset: &Ruleset,
        format: Option<RulesFormat>,
        (engine, cache_use): (Engine, CacheUse),
        outputs: usize,
        miss: Option<u32>,
    ) -> Result<Self, Vec<String>> {
        let (mut errors, mut paints) = (Vec::new(), Vec::with_capacity(ruleset.len()));
        let mut verdicts = Verdicts::new(outputs, miss.unwrap_or(drop_for(NO_RULE)));
        for id in ruleset.ids() {
            match verdict(ruleset.action(id), outputs) {
                Ok((verdict, paint)) => {
                    verdicts.push(verdict);
                    paints.push(paint);
                }
                Err(why) if errors.len() < ERRORS_MAX => {
                    errors.push(format!("line {}: {why}", ruleset.line(id)));
                }
                Err(_) => {}
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let options = BuildOptions { bytes_max: ENGINE_BYTES_MAX, ..BuildOptions::default() };
        let built = build(engine, ruleset, &options).map_err(|error| vec![error.to_string()])?;
        let (classifier, cache) = EngineCache::front(cache_use, built, ruleset);
        let words = BATCH_LEN_MAX * ruleset.schema().words;
        Ok(Self {
            classifier,
            cache,
            extractor: Extractor::new(ruleset.schema(), LinkType::Ethernet),
            format,
            rules: ruleset.ids().map(|id| Some(ruleset.to_rule(id))).collect(),
            verdicts,
            has_paints: paints.iter().any(Option::is_some),
            paints,
            keys: Vec::with_capacity(words),
            keyless: Vec::with_capacity(BATCH_LEN_MAX),
            others: Vec::new(),
            winners: Vec::new(),
            found: Vec::with_capacity(BATCH_LEN_MAX),
            to: Vec::with_capacity(BATCH_LEN_MAX),
        })
    }

    /// A copy with the same engine and counts of zero; only the original has the list of rules.
    fn copy(&self) -> Self {
        let mut verdicts = self.verdicts.clone();
        verdicts.reset_counts();
        Self {
            classifier: self.classifier.clone(),
            cache: self.cache.clone(),
            extractor: self.extractor,
            rules: Vec::new(),
            verdicts,
            paints: self.paints.clone(),
            keys: Vec::new(),
            keyless: Vec::new(),
            others: Vec::new(),
            winners: Vec::new(),
            found: Vec::new(),
            to: Vec::new(),
            ..*self
        }
    }

    fn schema(&self) -> &'static Schema {
        self.extractor.schema()
    }

    /// Finds out where the frames of `batch` go.
    fn run(
        &mut self,
        batch: &mut Batch,
        miss: Option<u32>,
        results: &mut CachedResults<RuleChange>,
    ) {
        if results.takes_parts() && batch.lent_frames().is_none() {
            self.find_others(batch, results);
        } else if !self.find_cached(batch, results) {
            let began = results.begin_timing();
            self.find(batch, None);
            results.end_timing(began, batch.len());
        }
        self.verdicts.judge(&self.found[..batch.len()], &mut self.to, |_| true);
        self.end_judging(batch, miss, |_| true);
    }

    /// Finds the rules for the frames of `batch`. Input ports are `paints`, if given, else the
    /// paint annotations of the packets.
    fn find(&mut self, batch: &Batch, paints: Option<&[u8]>) {
        let words = batch.len() * self.schema().words;
        // A frame without a key leaves an old one in `keys`, whose result is not used.
        if self.keys.len() < words || self.found.len() < batch.len() {
            self.keys.resize(words, 0);
            self.found.resize(batch.len(), RuleId::NONE);
        }
        self.keyless.clear();
        match (paints, batch.lent_frames()) {
            (Some(paints), _) => {
                let packets = batch.iter().zip(paints);
                self.look_up(packets.map(|(packet, &paint)| (packet.data(), paint.into())));
            }
            // None of them has a paint.
            (None, Some(LentFrames::Span(frames))) => self.look_up(frames.map(|frame| (frame, 0))),
            (None, Some(LentFrames::Numbered(frames))) => {
                self.look_up(frames.map(|frame| (frame, 0)));
            }
            (None, None) => {
                let paint = |packet: &Packet| packet.anno_u8(annotation::PAINT).into();
                self.look_up(batch.iter().map(|packet| (packet.data(), paint(packet))));
            }
        }
        for &idx in &self.keyless {
            self.found[idx] = RuleId::NONE;
        }
    }

    /// The same from cached results, if all frames have valid ones.
    fn find_cached(&mut self, batch: &Batch, results: &mut CachedResults<RuleChange>) -> bool {
        if !results.is_accepting() {
            return false;
        }
        if self.found.len() < batch.len() {
            self.found.resize(batch.len(), RuleId::NONE);
        }
        let is_key = |packet: &_, key| frame_key(packet) == Some(key);
        let is_found = results.take(batch, is_key, &mut self.found[..batch.len()], RuleId);
        if is_found {
            self.note_keyless(batch.len());
        }
        is_found
    }

    /// Finds the rules of frames without a valid cached result, and takes the results of others.
    fn find_others(&mut self, batch: &Batch, results: &mut CachedResults<RuleChange>) {
        let schema = self.schema();
        self.keys.resize(self.keys.len().max(batch.len() * schema.words), 0);
        self.found.resize(self.found.len().max(batch.len()), RuleId::NONE);
        self.others.clear();
        for (idx, packet) in batch.iter().enumerate() {
            match results.result_of(packet) {
                Some((packet, result)) if frame_key(packet) == Some(result.key) => {
                    self.found[idx] = RuleId(result.answer);
                }
                other => {
                    results.give_back(0, usize::from(other.is_some()));
                    self.others.push(idx);
                }
            }
        }
        let began = results.begin_timing();
        let (packets, others) = (batch.as_slice(), &self.others);
        let frame = |&idx: &usize| {
            let packet: &Packet = &packets[idx];
            (packet.data(), u32::from(packet.anno_u8(annotation::PAINT)))
        };
        let keys = &mut self.keys[..others.len() * schema.words];
        self.winners.clear();
        self.winners.resize(others.len(), RuleId::NONE);
        self.keyless.clear();
        let keyless = &mut self.keyless;
        self.extractor.extract_each(others.iter().map(frame), keys, |at| keyless.push(at));
        self.classifier.classify(KeyBatch::new(schema, keys), &mut self.winners);
        for &at in &self.keyless {
            self.winners[at] = RuleId(KEYLESS);
        }
        for (&idx, winner) in self.others.iter().zip(&self.winners) {
            self.found[idx] = *winner;
        }
        results.end_timing(began, self.others.len());
        self.note_keyless(batch.len());
    }

    /// Writes down which of the first `count` frames have no key.
    fn note_keyless(&mut self, count: usize) {
        self.keyless.clear();
        for (idx, id) in self.found[..count].iter_mut().enumerate() {
            if id.0 == KEYLESS {
                *id = RuleId::NONE;
                self.keyless.push(idx);
            }
        }
    }

    /// Sets the verdict on frames without a key, and paints frames whose index `is_for` accepts.
    #[inline]
    fn end_judging(
        &mut self,
        batch: &mut Batch,
        miss: Option<u32>,
        is_for: impl Fn(usize) -> bool,
    ) {
        for &idx in &self.keyless {
            self.to[idx] = miss.unwrap_or(drop_for(NO_KEY));
        }
        if self.has_paints {
            for (at, (packet, id)) in batch.iter_mut().zip(&self.found).enumerate() {
                if let Some(&Some(paint)) = self.paints.get(id.as_usize())
                    && is_for(at)
                {
                    packet.set_anno_u8(annotation::PAINT, paint);
                }
            }
        }
    }

    /// Finds the rules of `frames`, which there is room for.
    #[inline(always)]
    fn look_up<'f>(&mut self, frames: impl ExactSizeIterator<Item = (&'f [u8], u32)> + Clone) {
        let (schema, len) = (self.schema(), frames.len());
        let keys = &mut self.keys[..len * schema.words];
        self.extractor.extract_each(frames, keys, |idx| self.keyless.push(idx));
        self.classifier.classify(KeyBatch::new(schema, keys), &mut self.found[..len]);
    }

    /// Adds the one rule of `text`.
    fn add(&mut self, text: &str, outputs: usize) -> Result<(RuleId, RuleChange), String> {
        let schema = self.schema();
        let is_canonical = text.contains(" -> ") && !text.trim_start().starts_with("schema ");
        let head = if is_canonical { format!("schema {}\n", schema.name) } else { String::new() };
        let format = self.format;
        let options = ReadOptions { format, schema: Some(schema), ..ReadOptions::default() };
        let read = read_rules("rule", &format!("{head}{text}"), &options);
        let ruleset = read.map_err(|errors| errors.to_string())?;
        if ruleset.len() != 1 {
            return Err(format!("expected one rule, found {}", ruleset.len()));
        }
        let rule = ruleset.to_rule(RuleId(0));
        let (verdict, paint) = verdict(&rule.action, outputs)?;
        let id = RuleId(self.rules.len() as u32);
        let matching = rule.matching.as_ref();
        let added = self.classifier.insert(RuleRef { id, priority: rule.priority, matching });
        added.map_err(|error| error.to_string())?;
        let change = RuleChange::Insert(id, rule.clone());
        self.rules.push(Some(rule));
        self.verdicts.push(verdict);
        self.paints.push(paint);
        self.has_paints |= paint.is_some();
        Ok((id, change))
    }

    /// Removes a rule. What was removed, and why the engine did not follow, if it did not.
    fn remove(&mut self, text: &str) -> Result<(RuleChange, Result<(), String>), String> {
        let number = text.trim().parse::<u32>().ok();
        let place = number.and_then(|number| self.rules.get_mut(number as usize));
        let (Some(number), Some(place)) = (number, place) else {
            return Err(format!("no rule '{}'", text.trim()));
        };
        let Some(rule) = place.take() else {
            return Err(format!("rule {number} is already removed"));
        };
        let matching = rule.matching.as_ref();
        let rule_ref = RuleRef { id: RuleId(number), priority: rule.priority, matching };
        let removed = self.classifier.remove(rule_ref).map_err(|error| error.to_string());
        Ok((RuleChange::Remove(RuleId(number), rule), removed))
    }
}

/// The key of cached results: what a frame's own key was made from, as long as nobody writes to the
/// frame.
pub fn frame_key(packet: &Packet) -> Option<u32> {
    packet.extent().map(|extent| extent << 8 | u32::from(packet.anno_u8(annotation::PAINT)))
}

/// For elements that look up for it, or in its place.
impl SdnClassifier {
    /// What its rules are about.
    pub fn schema(&self) -> Option<&'static Schema> {
        self.lookup.as_ref().map(Lookup::schema)
    }

    /// Looks whether any of the first packets with IP has its Ethernet header.
    pub fn look_at_headers(&mut self, cx: &mut Context<'_>, batch: &Batch) {
        if self.lack.is_open() {
            let (framed, bare): (Vec<_>, Vec<_>) =
                batch.iter().filter_map(has_ethernet).partition(|has| *has);
            self.lack.note(cx, !framed.is_empty(), bare.len(), &NO_ETHERNET);
        }
    }

    /// What leads frames to outputs, each with its output.
    pub fn named_outputs(&self) -> impl Iterator<Item = (String, u32)> + Clone {
        let rules = self.lookup.iter().flat_map(|lookup| lookup.rules.iter().enumerate());
        let output = |(number, rule): (usize, &Option<Rule>)| {
            let Action::Output(output) = rule.as_ref()?.action else { return None };
            Some((format!("rule {number}, '{}',", Action::Output(output)), output))
        };
        let miss = self.miss.map(|output| ("MISS".to_owned(), output));
        rules.filter_map(output).chain(miss)
    }

    /// Its rules as they are now, under their numbers, if it has any.
    pub fn ruleset(&self) -> Option<Ruleset> {
        let lookup = self.lookup.as_ref()?;
        let mut rules = RulesetBuilder::new(lookup.schema());
        for rule in lookup.rules.iter().flatten() {
            rules.push(rule.clone());
        }
        Some(rules.build())
    }

    /// The outputs of the packets that `meant` selects, or of all; numbers beyond the last output
    /// drop. `answers` are known rule ids by packet, and undefined afterwards; `keyless` the places
    /// of packets without a key, `paints` in-ports that differ from the paint annotations.
    pub fn outputs(
        &mut self,
        batch: &mut Batch,
        answers: Option<&mut Vec<RuleId>>,
        paints: Option<&[u8]>,
        keyless: impl Iterator<Item = usize>,
        meant: Option<&[bool]>,
    ) -> &mut [u32] {
        let Some(lookup) = &mut self.lookup else { return &mut [] };
        match answers {
            Some(answers) => {
                std::mem::swap(&mut lookup.found, answers);
                lookup.keyless.clear();
                lookup.keyless.extend(keyless);
                for &idx in &lookup.keyless {
                    lookup.found[idx] = RuleId::NONE;
                }
            }
            None => lookup.find(batch, paints),
        }
        let found = &lookup.found[..batch.len()];
        match meant {
            None => {
                lookup.verdicts.judge(found, &mut lookup.to, |_| true);
                lookup.end_judging(batch, self.miss, |_| true);
            }
            Some(meant) => {
                lookup.verdicts.judge(found, &mut lookup.to, |at| meant[at]);
                lookup.end_judging(batch, self.miss, |at| meant[at]);
            }
        }
        &mut lookup.to
    }
}

impl CachedLookup for SdnClassifier {
    type Change = RuleChange;

    fn results(&mut self) -> &mut CachedResults<RuleChange> {
        &mut self.results
    }
}

/// Reads the rules of a file, which may have so many bytes.
fn read_file(path: &str, options: &ReadOptions, bytes_max: u64) -> Result<Ruleset, String> {
    let bytes = Unpacked::open(path)
        .map_err(|error| name_folder(path.as_ref(), error))
        .and_then(|file| read_bounded(file, bytes_max))
        .map_err(|error| format!("{path}: {}", reason(&error)))?;
    read_rules_bytes(path, &bytes, options).map_err(|errors| errors.to_string())
}

impl Element for SdnClassifier {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut path, mut format) = (String::new(), None::<String>);
        let (mut engine, mut tcp_flags) = (Engine::Turbo.name().to_owned(), false);
        let mut cache = String::from("none");
        args.read_mp("RULES", &mut path)
            .read("RULES_FORMAT", &mut format)
            .read("ENGINE", &mut engine)
            .read("CACHE", &mut cache)
            .read("MISS", &mut self.miss)
            .read("TCP_FLAGS", &mut tcp_flags);
        args.note_input("RULES", &path);
        let format = match format.map(|name| name.parse::<RulesFormat>()).transpose() {
            Ok(format) => format,
            Err(message) => {
                args.error_at("RULES_FORMAT", &message);
                None
            }
        };
        let engine = engine.parse::<Engine>();
        if let Err(error) = &engine {
            args.error_at("ENGINE", &error.to_string());
        }
        let cache_use = cache.parse::<CacheUse>();
        if let Err(error) = &cache_use {
            args.error_at("CACHE", error);
        }
        if self.miss.is_some_and(|output| output as usize >= context.outputs) {
            args.error_at("MISS", &format!("out of range, {}", outputs::expected(context.outputs)));
        }
        args.complete()?;
        self.outputs = context.outputs;
        let options = ReadOptions { format, tcp_flags, ..ReadOptions::default() };
        let read = read_file(&path, &options, RULES_BYTES_MAX).map_err(|message| vec![message]);
        let lookup = (engine.unwrap_or(Engine::Turbo), cache_use.unwrap_or_default());
        let made =
            read.and_then(|rules| Lookup::new(&rules, format, lookup, context.outputs, self.miss));
        match made {
            Ok(lookup) => (self.lookup, self.lack) = (Some(lookup), Lack::of(true)),
            Err(errors) => errors.iter().for_each(|error| args.error_at("RULES", error)),
        }
        args.consume()
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        self.look_at_headers(cx, &batch);
        let Some(lookup) = &mut self.lookup else {
            return cx.drop_batch(batch, NO_RULE as usize);
        };
        lookup.cache.set_clock(cx);
        lookup.run(&mut batch, self.miss, &mut self.results);
        cx.emit_each(batch, &lookup.to);
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            let [hit_ratio, cached_rules, swaps, is_on] = EngineCache::HANDLERS;
            &[
                HandlerSpec::read("rules"),
                HandlerSpec::read("hits"),
                HandlerSpec::read("engine"),
                HandlerSpec::read("bytes"),
                hit_ratio,
                cached_rules,
                swaps,
                is_on,
                HandlerSpec::read("ahead"),
                HandlerSpec::read("ahead_missed"),
                HandlerSpec::write("add"),
                HandlerSpec::write("remove"),
                HandlerSpec::button("reset_counts"),
            ]
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        let lookup = self.lookup.as_ref().ok_or(HandlerError::Missing)?;
        if let Some(value) = lookup.cache.read(name) {
            return Ok(value);
        }
        Ok(match name {
            "rules" => lookup.classifier.len().to_string(),
            "engine" => lookup.classifier.engine().to_string(),
            "bytes" => lookup.classifier.bytes().to_string(),
            "ahead" => self.results.used().to_string(),
            "ahead_missed" => self.results.unused().text(),
            _ => {
                let mut text = String::new();
                for (id, count) in lookup.verdicts.counts().enumerate().filter(|both| both.1 > 0) {
                    let _ = writeln!(text, "{id} {count}");
                }
                text
            }
        })
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let lookup = self.lookup.as_mut().ok_or(HandlerError::Missing)?;
        match name {
            "add" => {
                let added = lookup.add(value, self.outputs).map_err(HandlerError::failed)?;
                let (id, change) = added;
                self.results.publish(&[change]);
                return Ok(id.to_string());
            }
            "remove" => {
                let (change, removed) = lookup.remove(value).map_err(HandlerError::failed)?;
                self.results.publish(&[change]);
                removed.map_err(HandlerError::failed)?;
            }
            _ => lookup.verdicts.reset_counts(),
        }
        Ok(String::new())
    }

    fn sharing(&self) -> Sharing {
        let lookup = self.lookup.as_ref().map(Lookup::copy);
        let (results, lack) = (self.results.of_copy(), self.lack.clone());
        Sharing::copies(Self { lookup, results, lack, ..*self })
    }

    fn absorb(&mut self, copy: &mut dyn Element) {
        let Some(copy) = copy.downcast_mut::<Self>() else { return };
        self.results.absorb(&copy.results);
        if let (Some(own), Some(copy)) = (&mut self.lookup, &copy.lookup) {
            own.verdicts.add_counts(copy.verdicts.counts());
        }
    }

    fn finish(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.lack.end(cx, &NO_ETHERNET);
        Ok(())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Self>() else { return };
        if let (Some(new), Some(old)) = (&mut self.lookup, &mut old.lookup)
            && new.rules == old.rules
        {
            new.verdicts.reset_counts();
            new.verdicts.add_counts(old.verdicts.counts());
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
