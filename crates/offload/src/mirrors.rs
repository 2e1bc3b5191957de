//! Device mirrors of tables, which follow the changes of their elements.

use std::sync::Arc;

use warpswitch_classify::{BuildOptions, Classifier};
use warpswitch_elements_lookup::routes::RouteLookup;
use warpswitch_elements_lookup::{RuleChange, SdnClassifier};
use warpswitch_elements_support::cached::{CachedLookup, TableFollower};
use warpswitch_gpu::Algorithm;
use warpswitch_gpu::live::LiveEngine;
use warpswitch_gpu::routes::{LiveHeaders, LiveRoutes};
use warpswitch_routes::{Address, NextHop, Prefix, RouteChange};
use warpswitch_rules::{Rule, RuleId, RuleRef};

use super::place::Offload;

/// Memory limit of a table on a device.
const BYTES_MAX: usize = 4 << 30;

/// Device mirror of a route table, for lookups of addresses.
#[derive(Debug)]
pub(crate) struct RouteMirror<A: Address>(pub(crate) LiveRoutes<A>);

impl<A: Address> TableFollower<RouteChange<A>> for RouteMirror<A> {
    fn follow(&self, changes: &[RouteChange<A>]) -> bool {
        self.0.change(changes).is_ok()
    }
}

/// Device mirror of a route table, for forwarding headers.
#[derive(Debug)]
pub(crate) struct HeaderMirror(pub(crate) LiveHeaders);

impl HeaderMirror {
    /// Builds the mirror.
    ///
    /// # Errors
    /// If the device has too little memory.
    pub(crate) fn build(
        offload: &Offload,
        routes: impl Iterator<Item = (Prefix<u32>, NextHop)> + Clone,
    ) -> Result<Self, String> {
        let headers = LiveHeaders::build_for_headers(offload.device(), routes, BYTES_MAX);
        headers.map(Self).map_err(|error| error.to_string())
    }
}

impl TableFollower<RouteChange<u32>> for HeaderMirror {
    fn follow(&self, changes: &[RouteChange<u32>]) -> bool {
        self.0.change(changes).is_ok()
    }
}

/// Device mirror of a rule set.
#[derive(Debug)]
pub(crate) struct RuleMirror(pub(crate) LiveEngine);

impl TableFollower<RuleChange> for RuleMirror {
    fn follow(&self, changes: &[RuleChange]) -> bool {
        fn rule_ref(id: RuleId, rule: &Rule) -> RuleRef<'_> {
            RuleRef { id, priority: rule.priority, matching: rule.matching.as_ref() }
        }
        changes.iter().all(|change| match change {
            RuleChange::Insert(id, rule) => self.0.insert(rule_ref(*id, rule)).is_ok(),
            RuleChange::Remove(id, rule) => self.0.remove(rule_ref(*id, rule)).is_ok(),
        })
    }
}

/// The device mirror of the routes of `element`, shared by all chains.
///
/// # Errors
/// If the device has too little memory.
pub(crate) fn routes_of<L: RouteLookup>(
    element: &mut L,
    offload: &Offload,
) -> Result<Arc<RouteMirror<L::Address>>, String> {
    if let Some(mirror) = element.results().follower() {
        return Ok(mirror);
    }
    let routes = LiveRoutes::build(offload.device(), element.numbered(), BYTES_MAX);
    let mirror = Arc::new(RouteMirror(routes.map_err(|error| error.to_string())?));
    element.results().follow(mirror.clone());
    Ok(mirror)
}

/// The device mirror of the rules of `element`, shared by all chains. Rule ids are the same.
///
/// # Errors
/// Without rules, or if `algorithm` cannot build them on the device.
pub(crate) fn rules_of(
    element: &mut SdnClassifier,
    offload: &Offload,
    algorithm: Algorithm,
) -> Result<Arc<RuleMirror>, String> {
    if let Some(mirror) = element.results().follower() {
        return Ok(mirror);
    }
    let rules = element.ruleset().ok_or("it has no rules")?;
    let options = BuildOptions { bytes_max: BYTES_MAX, ..BuildOptions::default() };
    let built = LiveEngine::build(offload.device(), algorithm, &rules, &options);
    let mirror = Arc::new(RuleMirror(built.map_err(|error| error.to_string())?));
    element.results().follow(mirror.clone());
    Ok(mirror)
}
