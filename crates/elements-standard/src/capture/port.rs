//! Code shared by `FromDevice` and `ToDevice` for interfaces: methods, queues, open errors, link
//! state.

use std::time::Duration;

use warpswitch_graph::language::args::split::split_args;
use warpswitch_graph::language::args::{Args, Word};
use warpswitch_graph::{Context, Time};
use warpswitch_packet::{LinkState, PortMethod, PortQueue};

/// Interval between two checks of a link.
const CHECK: Duration = Duration::from_secs(1);
/// The timer of these checks.
pub(super) const LINK_TIMER: usize = 1;

/// What devices are, for errors about their names.
pub(super) const DEVICES: &str = "a device is an interface, 'tap:NAME', 'mem:NAME', 'gen:', or a \
                                  capture file (with a '/' in its name, or ending in .pcap, \
                                  .pcapng or .gz)";

/// Reads the argument `METHOD`. The names of Click's methods choose automatically.
pub(super) fn read_method(args: &mut Args<'_>) -> PortMethod {
    let mut method = None::<Word>;
    args.read("METHOD", &mut method);
    match method.map(|word| word.0.to_ascii_uppercase()).as_deref() {
        None | Some("AUTO" | "PCAP" | "LINUX" | "NETMAP" | "UDP") => PortMethod::Auto,
        Some("AFPACKET") => PortMethod::AfPacket,
        Some("AFPACKET_BLOCKS") => PortMethod::AfPacketBlocks,
        Some("AFXDP") => PortMethod::AfXdp,
        Some(_) => {
            args.error_at("METHOD", "expected AUTO, AFPACKET, AFPACKET_BLOCKS or AFXDP");
            PortMethod::Auto
        }
    }
}

/// The most receive queues of an interface.
const QUEUES_MAX: u32 = 64;

/// Reads the arguments `QUEUES` and `QUEUE`.
pub(super) fn read_queue(args: &mut Args<'_>) -> PortQueue {
    let (mut count, mut number) = (1, None::<u32>);
    args.read("QUEUES", &mut count).read("QUEUE", &mut number);
    if !(1..=QUEUES_MAX).contains(&count) {
        args.error_at("QUEUES", &format!("expected 1 to {QUEUES_MAX}"));
        return PortQueue::default();
    }
    match number {
        // The elements of the queues have numbers, see `queues_of`.
        None if count > 1 => args.error_at("QUEUES", "expected decimal digits"),
        Some(number) if number >= count => {
            args.error_at("QUEUE", "expected a number less than QUEUES");
        }
        _ => {}
    }
    PortQueue { number: number.unwrap_or(0), count }
}

/// The configurations of the elements that replace a `FromDevice` with several `QUEUES`: one for
/// each `QUEUE`.
pub(super) fn queues_of(config: &str) -> Vec<String> {
    let args = split_args(config);
    let value = |keyword: &str| -> Option<u32> {
        args.iter().find_map(|arg| {
            let (word, value) = arg.trim().split_once(char::is_whitespace)?;
            if word == keyword { value.trim().parse().ok() } else { None }
        })
    };
    let count = value("QUEUES").filter(|count| (2..=QUEUES_MAX).contains(count));
    match (count, value("QUEUE")) {
        (Some(count), None) => (0..count).map(|n| format!("{config}, QUEUE {n}")).collect(),
        _ => Vec::new(),
    }
}

/// The error of an interface that cannot be opened: `error`, and what else the name may be.
pub(super) fn open_error(error: &str) -> String {
    match error.contains("no such interface") {
        true => format!("{error}; {DEVICES}"),
        false => error.to_owned(),
    }
}

/// Reports changes of a link.
#[derive(Debug, Default)]
pub(super) struct LinkMonitor {
    state: Option<LinkState>,
    reopen_error: Option<String>,
}

impl LinkMonitor {
    /// Notes the state of `device` and why it cannot be opened again, reports what changed, and
    /// sets the timer of the next check.
    pub(super) fn note(
        &mut self,
        cx: &mut Context<'_>,
        device: &str,
        state: LinkState,
        reopen_error: Option<String>,
    ) {
        let before = self.state.replace(state);
        // A link that is up at the start is no news.
        if before.unwrap_or(LinkState::Up) != state {
            let line = match state {
                LinkState::Up => "link up",
                LinkState::Down => "link down",
                LinkState::Removed => "interface removed; waiting for it to return",
            };
            cx.say(&format!("{}: {device}: {line}", cx.declaration()));
        }
        if self.reopen_error != reopen_error {
            if let Some(error) = &reopen_error {
                cx.say(&format!("{}: {error}", cx.declaration()));
            }
            self.reopen_error = reopen_error;
        }
        let next: Time = cx.now() + CHECK;
        cx.set_timer(LINK_TIMER, next);
    }

    /// The state, for handlers.
    pub(super) fn name(&self) -> &'static str {
        match self.state {
            None => "",
            Some(LinkState::Up) => "up",
            Some(LinkState::Down) => "down",
            Some(LinkState::Removed) => "removed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_queues_are_several_elements() {
        let both = ["eth0, QUEUES\t2, QUEUE 0", "eth0, QUEUES\t2, QUEUE 1"];
        assert_eq!(queues_of("eth0, QUEUES\t2"), both);
        assert_eq!(queues_of("eth0, QUEUES 64").len(), 64);
        for one in ["eth0", "eth0, QUEUES 1", "eth0, QUEUES 65", "eth0, QUEUES x", both[1]] {
            assert!(queues_of(one).is_empty(), "{one}");
        }
    }
}
