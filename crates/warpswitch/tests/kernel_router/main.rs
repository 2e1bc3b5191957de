//! Our routers compared with that of Linux, frame by frame: the same frames in, the same frames
//! out, where the standards leave no choice; where they leave one, both behaviours are asserted,
//! with the reason.
//!
//! Linux is the router in a network namespace of its own, between two raw ends. Ours runs twice:
//! the live configuration in such a namespace, and the configuration for captures on captures that
//! hold the same frames. `docs/kernel-router.md` lists where kernel and ours differ.
//!
//! This needs root, network namespaces and `ip` of iproute2. Without them the tests report that
//! they are skipped, and why; with `WARPSWITCH_NAMESPACES=1` that is a failure.
#![forbid(unsafe_code)]

mod compare;
mod ends;
mod frames;
mod ipv4;
mod ipv6;
mod kernel;
mod live;
#[path = "../../../commands/src/netns.rs"]
mod netns;
mod ours;
#[path = "../packet_end/mod.rs"]
mod packet_end;
#[path = "../interfaces/run.rs"]
#[expect(dead_code, reason = "runs of tests of interfaces")]
mod run;
#[path = "../running/mod.rs"]
#[expect(dead_code, reason = "runs of another command")]
mod running;

use std::io::{self, Write};

use compare::{Scenario, check};
use frames::Family;
use kernel::KernelRouter;
use live::LiveRouter;

#[test]
fn ipv4_frames_leave_as_the_kernel_sends_them() {
    play(Family::V4, &ipv4::scenarios());
}

#[test]
fn ipv6_frames_leave_as_the_kernel_sends_them() {
    play(Family::V6, &ipv6::scenarios());
}

/// Plays scenarios to all routers.
fn play(family: Family, scenarios: &[Scenario]) {
    let routers =
        KernelRouter::new(family).and_then(|kernel| Ok((kernel, LiveRouter::new(family)?)));
    let (mut kernel, mut live) = match routers {
        Ok(routers) => routers,
        Err(why) => {
            let is_needed = std::env::var_os("WARPSWITCH_NAMESPACES").is_some_and(|v| v == "1");
            assert!(!is_needed, "no router in namespaces: {why}");
            // Written past the harness, which keeps the output of passing tests.
            _ = writeln!(io::stderr(), "SKIPPED: no router in namespaces: {why}");
            return;
        }
    };
    let mut wrong = Vec::new();
    for scenario in scenarios {
        let by_kernel = kernel.run(&scenario.steps);
        let by_captures = ours::run(family, &scenario.steps);
        let by_live = live.run(&scenario.steps);
        for (how, ours) in [("on captures", by_captures), ("live", by_live)] {
            wrong.extend(check(scenario, by_kernel.clone(), ours).err().map(|why| (how, why)));
        }
    }
    let lines: Vec<String> = wrong.iter().map(|(how, why)| format!("{how}: {why}")).collect();
    let (bad, all) = (wrong.len(), scenarios.len());
    assert!(wrong.is_empty(), "{bad} differences in {all} scenarios:\n\n{}", lines.join("\n"));
}
