//! Handlers of rewriters, and the formats of their values.

use std::fmt::Write;
use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{Args, FromArg, NoNames};
use warpswitch_graph::{Context, HandlerError, HandlerSpec};

use super::apply::TCP;
use super::flow::{FORWARD, Flow, FlowId, REPLY, TableId, Track};
use super::input::InputSpec;
use super::pattern::Scope;
use super::rewriter::{Rewriter, to_ms};
use super::set::{FlowSet, Kind};

/// Input specs that have handlers of their own.
const PATTERNS: [&str; 16] = [
    "pattern0",
    "pattern1",
    "pattern2",
    "pattern3",
    "pattern4",
    "pattern5",
    "pattern6",
    "pattern7",
    "pattern8",
    "pattern9",
    "pattern10",
    "pattern11",
    "pattern12",
    "pattern13",
    "pattern14",
    "pattern15",
];
/// Handlers that all rewriters have, beside those of [`PATTERNS`].
const COMMON: [HandlerSpec; 6] = [
    HandlerSpec::read("nmappings"),
    HandlerSpec::read("mapping_failures"),
    HandlerSpec::read("patterns"),
    HandlerSpec::read("size"),
    HandlerSpec::both("capacity"),
    HandlerSpec::button("clear"),
];

/// A rewriter's own handlers, then those of all.
const fn with_common<const OWN: usize, const ALL: usize>(
    own: [HandlerSpec; OWN],
) -> [HandlerSpec; ALL] {
    let mut all = [HandlerSpec::read(""); ALL];
    let mut at = 0;
    while at < ALL {
        all[at] = if at < OWN {
            own[at]
        } else if at < OWN + COMMON.len() {
            COMMON[at - OWN]
        } else {
            HandlerSpec::both(PATTERNS[at - OWN - COMMON.len()])
        };
        at += 1;
    }
    all
}

const SHARED: usize = COMMON.len() + PATTERNS.len();
static IP: [HandlerSpec; 5 + SHARED] = with_common([
    HandlerSpec::read("tcp_table"),
    HandlerSpec::read("udp_table"),
    HandlerSpec::read("tcp_mappings"),
    HandlerSpec::read("udp_mappings"),
    HandlerSpec::read("tcp_lookup").with_param(),
]);
static TCP_ONLY: [HandlerSpec; 3 + SHARED] = with_common([
    HandlerSpec::read("table").expensive(),
    HandlerSpec::read("mappings").expensive(),
    HandlerSpec::read("lookup").with_param(),
]);
static OTHERS: [HandlerSpec; 2 + SHARED] = with_common([
    HandlerSpec::read("table").expensive(),
    HandlerSpec::read("mappings").expensive(),
]);

/// The handlers of a rewriter with so many inputs.
pub(super) fn of(kind: Kind, inputs: usize) -> &'static [HandlerSpec] {
    let all: &[HandlerSpec] = match kind {
        Kind::Ip => &IP,
        Kind::Tcp => &TCP_ONLY,
        _ => &OTHERS,
    };
    &all[..all.len() - PATTERNS.len() + inputs.min(PATTERNS.len())]
}

/// The number in `patternN`.
fn pattern_number(name: &str) -> Option<usize> {
    PATTERNS.iter().position(|&pattern| pattern == name)
}

pub(super) fn read(
    rewriter: &mut Rewriter,
    set: &mut FlowSet,
    cx: &mut Context<'_>,
    name: &str,
    param: &str,
) -> Result<String, HandlerError> {
    let tallies = &set.members()[rewriter.member].tallies;
    let spec_line = |(number, spec): (usize, &InputSpec)| match tallies[number].flows {
        0 => format!("{spec}\n"),
        flows => format!("{spec} [{flows}]\n"),
    };
    Ok(match name {
        "nmappings" => tallies.iter().map(|tally| u64::from(tally.flows)).sum::<u64>().to_string(),
        "mapping_failures" => {
            tallies.iter().map(|tally| u64::from(tally.failures)).sum::<u64>().to_string()
        }
        "patterns" => rewriter.specs.iter().enumerate().map(spec_line).collect(),
        "size" => set.len().to_string(),
        "capacity" => set.capacity().to_string(),
        "tcp_lookup" | "lookup" => lookup(rewriter, set, cx, param)?,
        "udp_table" | "udp_mappings" => table(rewriter, set, cx, true),
        name => match pattern_number(name) {
            Some(number) => spec_line((number, &rewriter.specs[number])),
            None => table(rewriter, set, cx, false),
        },
    })
}

fn lookup(
    rewriter: &Rewriter,
    set: &FlowSet,
    cx: &Context<'_>,
    param: &str,
) -> Result<String, HandlerError> {
    let mut flow = (Ipv4Addr::UNSPECIFIED, 0u16, Ipv4Addr::UNSPECIFIED, 0u16);
    let names = cx.names();
    let mut args = Args::of_words(param, &names);
    args.read_mp("SADDR", &mut flow.0)
        .read_mp("SPORT", &mut flow.1)
        .read_mp("DADDR", &mut flow.2)
        .read_mp("DPORT", &mut flow.3)
        .complete()
        .map_err(|errors| HandlerError::failed(errors.to_string()))?;
    let (src, src_port, dst, dst_port) = flow;
    let id = FlowId { src: src.into(), src_port, dst: dst.into(), dst_port };
    Ok(match set.find(rewriter.table(TCP), id) {
        Some((flow, direction)) => {
            let new = set.flow(flow).rewritten(direction);
            format!("{} {} {} {}", new.src(), new.src_port, new.dst(), new.dst_port)
        }
        None => String::new(),
    })
}

/// A line for each direction of each flow, in the order of the flows' places.
fn table(rewriter: &Rewriter, set: &FlowSet, cx: &Context<'_>, is_udp: bool) -> String {
    let table = TableId::new(rewriter.member, is_udp);
    let mut flows: Vec<u32> = set.all().filter(|&flow| set.flow(flow).table == table).collect();
    flows.sort_unstable();
    let mut text = String::new();
    for flow in flows {
        for direction in [FORWARD, REPLY] {
            if set.is_mapped(flow, direction) {
                write_flow(&mut text, set, flow, direction, to_ms(cx.now()));
            }
        }
    }
    text
}

fn write_flow(text: &mut String, set: &FlowSet, at: u32, direction: usize, now_ms: i64) {
    let flow = set.flow(at);
    let Flow { ids, outputs, table, input, .. } = flow;
    let (id, new) = (ids[direction], flow.rewritten(direction));
    let kind = set.members()[table.member()].kind;
    let written = match kind {
        Kind::Ip | Kind::Tcp | Kind::Udp => write!(text, "{id} => {new}"),
        // Of answers the source is not known.
        Kind::Address => write!(text, "{} => {}", id.src(), new.src()),
        Kind::AddressPair => {
            write!(text, "({}, {}) => ({}, {})", id.src(), id.dst(), new.src(), new.dst())
        }
        Kind::Ping => {
            let (src, dst) = (id.src(), id.dst());
            let (new_src, new_dst) = (new.src(), new.dst());
            let (id, new_id) = (id.src_port, new.src_port);
            write!(text, "({src}, {dst}, {id}) => ({new_src}, {new_dst}, {new_id})")
        }
    };
    written.expect("text takes all that is written");
    let shift = flow.shifts.as_ref().map_or(0, |shifts| shifts.newest(direction));
    if kind.track(*table) == Track::Tcp && shift != 0 {
        write!(text, " seq {shift:+}").expect("text takes all that is written");
    }
    let star = |of: usize| if of == direction { "*" } else { "" };
    let seconds = (set.end_ms(at) - now_ms + 500).div_euclid(1000).max(0);
    let [forward, reply] = outputs;
    let (forward_star, reply_star) = (star(FORWARD), star(REPLY));
    writeln!(text, " [{forward_star}{forward} {reply_star}{reply}] i{input} exp{seconds}")
        .expect("text takes all that is written");
}

pub(super) fn write(
    rewriter: &mut Rewriter,
    set: &mut FlowSet,
    cx: &mut Context<'_>,
    name: &str,
    value: &str,
) -> Result<String, HandlerError> {
    match name {
        "capacity" => {
            let capacity = i32::from_arg(value.trim(), &NoNames)
                .map_err(|error| HandlerError::failed(format!("CAPACITY: {error}")))?;
            set.set_capacity(capacity);
            set.reap(to_ms(cx.now()));
        }
        "clear" => set.clear(),
        name => {
            let number = pattern_number(name).ok_or(HandlerError::Missing)?;
            change_spec(rewriter, set, cx, number, value)?;
        }
    }
    Ok(String::new())
}

/// Replaces an input spec; the flows that it made go.
fn change_spec(
    rewriter: &mut Rewriter,
    set: &mut FlowSet,
    cx: &mut Context<'_>,
    number: usize,
    value: &str,
) -> Result<(), HandlerError> {
    let parsed = {
        let names = cx.names();
        let scope = Scope { graph: cx.graph(), names: &names, element: cx.element() };
        InputSpec::parse(value, scope, cx.outputs())
    };
    let wrong = |message| HandlerError::failed(format!("input spec {number}: {message}"));
    let mut spec = parsed.map_err(wrong)?;
    Rewriter::prepare_spec(cx, &mut spec, number).map_err(HandlerError::failed)?;
    let is_gone = |flow: &u32| {
        let flow = set.flow(*flow);
        flow.table.member() == rewriter.member && flow.input as usize == number
    };
    let gone: Vec<u32> = set.all().filter(is_gone).collect();
    for flow in gone {
        set.destroy(flow);
    }
    *set.tally(rewriter.member, number) = Default::default();
    rewriter.specs[number] = spec;
    let ranges = rewriter.ranges(cx);
    set.set_ranges(rewriter.member, ranges);
    Ok(())
}
