//! Our routers and Linux's, told the same: frame by frame they send the same, where the standards
//! leave no choice; where they leave one, both behaviours are asserted, with the reason.
//!
//! Linux is the router in a network namespace of its own, between two raw ends; ours is the binary
//! with the shipped configuration, whose captures hold the same frames. `docs/kernel-router.md`
//! lists where the two differ.
//!
//! This needs root, network namespaces and `ip` of iproute2. Without them the tests say that they
//! are skipped, and why; with `WARPSWITCH_NAMESPACES=1` that is a failure.
#![forbid(unsafe_code)]

mod compare;
mod frames;
mod ipv4;
mod ipv6;
mod kernel;
#[path = "../../src/namespaces.rs"]
mod namespaces;
mod ours;

use std::io::{self, Write};

use compare::{Scenario, check};
use frames::Family;
use kernel::KernelRouter;

#[test]
fn ipv4_frames_leave_as_the_kernel_sends_them() {
    play(Family::V4, &ipv4::scenarios());
}

#[test]
fn ipv6_frames_leave_as_the_kernel_sends_them() {
    play(Family::V6, &ipv6::scenarios());
}

/// Plays scenarios to both routers.
fn play(family: Family, scenarios: &[Scenario]) {
    let mut kernel = match KernelRouter::new(family) {
        Ok(kernel) => kernel,
        Err(why) => {
            let is_needed = std::env::var_os("WARPSWITCH_NAMESPACES").is_some_and(|v| v == "1");
            assert!(!is_needed, "no router in namespaces: {why}");
            // Written past the harness, which keeps what tests that pass print to itself.
            _ = writeln!(io::stderr(), "SKIPPED: no router in namespaces: {why}");
            return;
        }
    };
    let wrong: Vec<String> = scenarios
        .iter()
        .filter_map(|scenario| {
            let by_kernel = kernel.run(&scenario.steps);
            check(scenario, by_kernel, ours::run(family, &scenario.steps)).err()
        })
        .collect();
    let (bad, all) = (wrong.len(), scenarios.len());
    assert!(wrong.is_empty(), "{bad} of {all} scenarios differ:\n\n{}", wrong.join("\n"));
}
