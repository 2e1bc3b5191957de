//! Pattern search on a device for `IDSMatcher`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpswitch_elements_support::cached::Clock;
use warpswitch_gpu::auto::policy::{Path, Policy};
use warpswitch_gpu::scan::{DeviceScanner, ScanQueue};
use warpswitch_graph::{Context, ElementClass};
use warpswitch_ids::{Engine, GROUPS, Search};
use warpswitch_inspect::{IdsMatcher, SearchCounts};
use warpswitch_scan::{PatternSets, ScanOptions, Scratch};

use super::place::Offload;

/// `IDSMatcher` with pattern search on the device, if available.
pub(crate) static IDS_MATCHER: ElementClass =
    warpswitch_inspect::class(|| Box::new(IdsMatcher::searching_by(search)));

/// See [`IdsMatcher::searching_by`].
fn search(
    cx: &mut Context<'_>,
    engine: &Engine,
    counts: &Arc<SearchCounts>,
) -> Result<Option<Box<dyn Search>>, String> {
    let offload = Offload::of(cx).filter(|offload| offload.is_ready());
    let Some(offload) = offload else { return Ok(None) };
    Ok(Some(Box::new(DeviceSearch::new(&offload, engine, counts)?)))
}

/// Limits of a search: pages per batch (2 MB of texts), and batches in flight.
const PAGES_MAX: usize = 64;
const SLOTS: usize = 3;

/// Pattern search on a device, with a queue for each rule group that has patterns.
#[derive(Debug)]
pub(crate) struct DeviceSearch {
    offload: Arc<Offload>,
    groups: [Option<(Arc<DeviceScanner>, ScanQueue)>; GROUPS],
    /// Chooses the path by the bytes of texts.
    policy: Option<(Policy, Clock)>,
    scratch: Scratch,
    counts: Arc<SearchCounts>,
}

impl DeviceSearch {
    /// Loads the patterns of `engine` to the device. Each group has buffers for a few pages.
    ///
    /// # Errors
    /// If the device has too little memory.
    pub(crate) fn new(
        offload: &Arc<Offload>,
        engine: &Engine,
        counts: &Arc<SearchCounts>,
    ) -> Result<Self, String> {
        let options = ScanOptions { matches_max: usize::MAX, ..ScanOptions::default() };
        let mut groups = [const { None }; GROUPS];
        for (group, patterns) in groups.iter_mut().zip(engine.patterns()) {
            if !patterns.is_empty() {
                let scanner = DeviceScanner::build(offload.device(), patterns, &options);
                let queue = scanner.queue(PAGES_MAX, SLOTS);
                *group = Some((scanner, queue.map_err(|error| error.to_string())?));
            }
        }
        let clock = offload.costs().clock();
        Ok(Self {
            offload: offload.clone(),
            groups,
            policy: clock.map(|clock| (Policy::new(Vec::new(), Vec::new()), clock)),
            scratch: Scratch::default(),
            counts: counts.clone(),
        })
    }
}

impl Search for DeviceSearch {
    fn scan_sets(&mut self, group: usize, texts: &[&[u8]], sets: &mut PatternSets) {
        let Some((scanner, queue)) = &mut self.groups[group] else {
            sets.clear();
            texts.iter().for_each(|_| sets.add(&[], false));
            return;
        };
        let is_ready = self.offload.is_ready();
        let bytes = texts.iter().map(|text| text.len()).sum();
        let chooser = self.policy.as_ref().filter(|_| bytes > 0);
        let choice = chooser.map(|(policy, clock)| (policy.choose(bytes, is_ready), clock()));
        let is_on_device = match choice {
            Some((choice, _)) => choice.path == Path::Device,
            None => is_ready,
        };
        let count = if is_on_device {
            queue.scan_sets(texts, sets);
            &self.counts.on_device
        } else {
            scanner.scanner().scan_sets(texts, &mut self.scratch, sets);
            &self.counts.on_cores
        };
        count.fetch_add(texts.len() as u64, Ordering::Relaxed);
        if let (Some((policy, clock)), Some((choice, start))) = (chooser, choice) {
            policy.note(choice, clock().saturating_sub(start));
        }
    }
}
