//! `warpswitch demo --live`: a router between two network stacks of this machine.

use std::time::{Duration, Instant};

use anyhow::bail;

use super::network::{Network, host_address};
use super::summary::{self, bit_rate};
use super::traffic::{Progress, Traffic};
use crate::commands::top;
use crate::exit::Outcome;
use crate::output::print;
use crate::table::title;
use crate::{human, interrupt, term};

/// Time between two lines.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long a signal may wait.
const SIGNAL_POLL: Duration = Duration::from_millis(50);

/// Runs the live demo.
///
/// # Errors
/// A missing privilege or program, with the fix; the router or the traffic does not start.
pub fn run(duration: Duration) -> anyhow::Result<Outcome> {
    interrupt::end_in_order();
    let network = Network::start()?;
    let head = format!("Live demo: {} > router > {}", host_address(0), host_address(1));
    let traffic = Traffic::start(&network)?;
    match top::is_on_terminal() {
        true => {
            let refreshes = duration.as_secs() / INTERVAL.as_secs();
            top::show(network.connect()?, head, INTERVAL, Some(refreshes))?;
        }
        false => print_progress(&network, &traffic, &head, duration)?,
    }
    let is_complete = traffic.progress().elapsed >= duration;
    let result = traffic.stop()?;
    let (stats, messages) = network.stop()?;
    if !messages.is_empty() {
        term::note(messages.trim_end());
    }
    print(&format!("{}{NEXT}", summary::render(&result, &stats)))?;
    let Progress { pings_answered, bytes_received, .. } = result.progress;
    if is_complete && (pings_answered == 0 || bytes_received == 0) {
        bail!("no traffic passed the router: this is a bug");
    }
    Ok(Outcome::Done)
}

/// The last lines of the summary.
const NEXT: &str = "
Next: 'sudo warpswitch run conf/live/ip-router.click ETH0=eth0 ETH1=eth1' routes\n\
between interfaces; docs/interfaces.md lists the other live configurations.\n";

/// Prints one line per interval until the end, or a signal.
fn print_progress(
    network: &Network,
    traffic: &Traffic,
    head: &str,
    duration: Duration,
) -> anyhow::Result<()> {
    let aside = format!("{} s of pings and a TCP stream", duration.as_secs());
    print(&title(head, &aside))?;
    print(&format!(
        "Run a program as the first host: {} ping 10.0.1.2\n",
        network.enter_command()
    ))?;
    let start = Instant::now();
    let mut before = (traffic.progress(), network.packets_sent()?);
    while start.elapsed() < duration && !interrupt::is_ended() {
        let next_at = Instant::now() + INTERVAL.min(duration.saturating_sub(start.elapsed()));
        while Instant::now() < next_at && !interrupt::is_ended() {
            std::thread::sleep(SIGNAL_POLL.min(next_at.saturating_duration_since(Instant::now())));
        }
        let now = (traffic.progress(), network.packets_sent()?);
        print(&progress_line(before, now))?;
        before = now;
    }
    print("\n")
}

/// Rates between two points in time, each with the number of forwarded packets.
fn progress_line(before: (Progress, u64), now: (Progress, u64)) -> String {
    let ((earlier, packets_before), (later, packets)) = (before, now);
    let time = later.elapsed.saturating_sub(earlier.elapsed);
    let bytes = later.bytes_received - earlier.bytes_received;
    let rate = (packets - packets_before) as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE);
    format!(
        "  {:3.0} s  {} of {} pings answered  TCP {}  forwarded {}\n",
        later.elapsed.as_secs_f64(),
        later.pings_answered,
        later.pings_sent,
        bit_rate(bytes, time),
        human::rate(rate)
    )
}
