//! Static checks of annotations: writers of those that chain elements and dispatchers read, and
//! dispatchers that read those that chain elements write.

use std::fmt::Display;
use std::iter;
use std::ops::Range;

use warpswitch_graph::Context;
use warpswitch_graph::language::args::Args;
use warpswitch_graph::language::{FlatElement, Flow, PortRef};
use warpswitch_packet::annotation;

use warpswitch_elements_support::Anno;
use warpswitch_elements_support::outputs::expected as expected_output;

use super::anno::{NUMBER_ANNO, NUMBER_BYTES, Predicate};
use super::branches;
use super::device_element::DeviceClass;
use super::members::Member;

/// Other classes whose arguments choose the annotation.
const ANYWHERE: [&str; 12] = [
    "GetIPAddress",
    "ICMPPingRewriter",
    "ICMPRewriter",
    "IPAddrPairRewriter",
    "IPAddrRewriter",
    "IPReassembler",
    "IPRewriter",
    "RuleCache",
    "SetAnnoByte",
    "SetIPAddress",
    "TCPRewriter",
    "UDPRewriter",
];

/// The bytes that other classes write. Excludes destination annotations, which many classes write.
const WRITERS: [(&str, Range<usize>); 27] = [
    ("ARPQuerier", 20..22),
    ("ARPResponder", 20..22),
    ("AdjustTimestamp", 32..40),
    ("AggregateIPFlows", 16..24),
    ("CheckIP6MTU", 22..24),
    ("FixIP6Src", 19..20),
    ("FixIPSrc", 19..20),
    ("FromDevice", 28..32),
    ("FromDump", 28..32),
    ("FromIPSummaryDump", 16..40),
    ("GPUSDNClassifier", 16..17),
    ("ICMP6Error", 19..20),
    ("ICMP6PingResponder", 16..17),
    ("ICMPError", 19..20),
    ("ICMPPingResponder", 16..17),
    ("IPGWOptions", 17..18),
    ("IPInputCombo", 16..17),
    ("IPOutputCombo", 17..18),
    ("Pad", 28..32),
    ("SDNClassifier", 16..17),
    ("SetTimestamp", 32..40),
    ("SetTimestampDelta", 32..40),
    ("SetVLANAnno", 20..22),
    ("StripToNetworkHeader", 28..32),
    ("ToIPSummaryDump", 24..32),
    ("Truncate", 28..32),
    ("VLANDecap", 20..22),
];

/// The offset at which a chain element writes its results; `None` if it writes none.
fn answers_at(cx: &Context<'_>, element: usize) -> Option<usize> {
    let mut place = DeviceClass::of(cx.class_of(element))?.written_at;
    let (mut args, mut target) = (Args::new(&cx.graph().elements[element].config), None::<String>);
    args.read("FOR", &mut target).read("ANNO", &mut place);
    target.is_none().then_some(place)
}

/// The offset that a `Dispatcher` reads.
pub(super) fn read_at(element: &FlatElement) -> usize {
    let mut place = NUMBER_ANNO;
    Args::new(&element.config).read("ANNO", &mut place);
    place
}

/// Whether an element may write any of `bytes`.
fn may_write(cx: &Context<'_>, idx: usize, bytes: &Range<usize>) -> bool {
    let element = &cx.graph().elements[idx];
    let class = element.class.as_str();
    let meets = |own: &Range<usize>| own.start < bytes.end && bytes.start < own.end;
    let painted = || {
        let (mut color, mut place) = (String::new(), Anno::<1>(annotation::PAINT));
        Args::new(&element.config).read_mp("COLOR", &mut color).read_p("ANNO", &mut place);
        meets(&(place.0..place.0 + 1))
    };
    let is_test = cfg!(test) && class == "SetAnno";
    let answers = answers_at(cx, idx).map(|place| place..place.saturating_add(NUMBER_BYTES));
    is_test
        || ANYWHERE.contains(&class)
        || WRITERS.iter().any(|(writer, own)| *writer == class && meets(own))
        || answers.is_some_and(|own| meets(&own))
        || (class == "Paint" && painted())
}

/// Whether the `Batcher` can decide a predicate: no member of its chain in front of `member` may
/// write its annotation.
pub(super) fn is_known(
    cx: &Context<'_>,
    only: Predicate,
    members: &[Member],
    member: Member,
) -> bool {
    let bytes = only.place..only.place + NUMBER_BYTES;
    let front = members.iter().take_while(|one| one.element() != member.element());
    let mut front = front.map(|one| one.element()).peekable();
    // Gateways are destinations, and members may cut packets.
    let is_shared = bytes.start < annotation::PAINT
        || bytes.start.abs_diff(annotation::EXTRA_LEN) < NUMBER_BYTES;
    front.peek().is_none() || (!is_shared && !front.any(|idx| may_write(cx, idx, &bytes)))
}

/// Warns if no element in front writes the number at `place`, which the argument `asks` reads: all
/// packets have a 0 there, with the effect `so`.
pub(super) fn unwritten(
    cx: &Context<'_>,
    asks: impl Display,
    place: usize,
    so: &str,
) -> Option<String> {
    let (own, elements) = (cx.element(), &cx.graph().elements);
    let asked = place..place + NUMBER_BYTES;
    let writes = |idx: &usize| may_write(cx, *idx, &asked);
    // Many elements set destinations, so a warning would often be wrong.
    let is_destination = place < annotation::PAINT;
    let before = cx.flow().upstream(own, Some(0), |_| false);
    if is_destination || before.iter().any(writes) {
        return None;
    }
    let name = |idx: usize| format!("'{}'", elements[idx].declaration());
    let mut behind = iter::once(own).chain(cx.flow().downstream(own, None, |_| false));
    let known = before
        .iter()
        .rev()
        .filter_map(|&idx| answers_at(cx, idx).map(|place| format!("{place} by {}", name(idx))));
    let known: Vec<String> = known.collect();
    let mend = match behind.find(writes) {
        Some(later) if later == own => "this element writes it, but only afterwards".to_owned(),
        Some(later) => format!("{} downstream writes it: move that element upstream", name(later)),
        None => format!("set ANNO {place} on an upstream element"),
    };
    let known = match known.is_empty() {
        true => String::new(),
        false => format!("; annotations written upstream: {}", known.join(", ")),
    };
    Some(format!(
        "{asks}: no upstream element writes the annotation at {place}, {so}: {mend}{known}"
    ))
}

/// The dispatchers that read the number that this element writes at `place`, with their number of
/// outputs. Excludes those in chains, which drop no packet.
fn dispatchers(cx: &Context<'_>, place: usize) -> Vec<(usize, usize)> {
    let elements = &cx.graph().elements;
    let reads = |idx: usize| {
        let element = &elements[idx];
        let is_dispatcher = element.class == branches::CLASS && read_at(element) == place;
        is_dispatcher && !branches::is_in_chain(cx, idx)
    };
    let written = place..place + NUMBER_BYTES;
    // Downstream of a dispatcher, all packets have the same number.
    let found = cx.flow().downstream(cx.element(), None, |visit| {
        let idx = visit.at.element;
        reads(idx) || may_write(cx, idx, &written)
    });
    let readers = found.into_iter().filter(|&idx| reads(idx));
    readers.map(|idx| (idx, outputs_of(cx.flow(), idx))).collect()
}

/// The number of connected outputs of an element.
pub(super) fn outputs_of(flow: &Flow, element: usize) -> usize {
    (0..).take_while(|&port| !flow.targets(PortRef { element, port }).is_empty()).count()
}

/// Warnings about outputs that this element writes at `place` and a downstream dispatcher does not
/// have, one per dispatcher. `named` lists the outputs with the routes or rules that name them.
pub(super) fn beyond_outputs<N: Display>(
    cx: &Context<'_>,
    place: usize,
    named: impl Iterator<Item = (N, u32)> + Clone,
) -> Vec<String> {
    let beyond = |(idx, count): (usize, usize)| {
        let lacking = || named.clone().filter(|(_, output)| *output as usize >= count);
        // Routes are unordered.
        let (what, output) = lacking().min_by_key(|(what, output)| (*output, what.to_string()))?;
        let more = match lacking().count() - 1 {
            0 => String::new(),
            more => format!(", and {more} more to others"),
        };
        let by = &cx.graph().elements[idx];
        Some(format!(
            "{what} leads to output {output}, which '{}' does not have, {}{more}: such packets are \
             dropped there; connect {}[{output}] or change the output",
            by.declaration(),
            expected_output(count),
            by.name
        ))
    };
    dispatchers(cx, place).into_iter().filter_map(beyond).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use warpswitch_graph::language::ClassTable;
    use warpswitch_graph::simulate::{Transcript, router_for};

    use super::*;

    /// The messages of a configuration with a chain of `members` between other elements.
    fn told(before: &str, members: &str, behind: &str) -> String {
        let config = format!(
            "{before} -> Batcher -> HostToDeviceMemcpy -> {members} -> DeviceToHostMemcpy
            -> GPUCompletionQueue -> Debatcher -> {behind};"
        );
        let transcript = Transcript::default();
        let made = router_for(&config, &crate::tests::registry(), &transcript);
        made.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
        transcript.said()
    }

    const FROM: &str = "InfiniteSource -> Truncate(9) -> Strip(14) -> Counter -> CheckIPHeader";
    const ROUTES: &str = "r :: GPUIPLookup(10.0.0.0/8 0, 0/0 1)";
    const TWO: &str = "d :: Dispatcher; d[0] -> Discard; d[1] -> Discard";

    #[test]
    fn warns_of_annotations_without_a_writer() {
        let first = |predicate: &str| format!("a :: GPUIPLookup(0/0 0, ANNO 44, {predicate})");
        for (before, members, behind, expected) in [
            (FROM, ROUTES, TWO, ""),
            (FROM, ROUTES, "Queue -> Unqueue -> d :: Dispatcher(ANNO 43) -> Discard", ""),
            (
                FROM,
                ROUTES,
                "d :: Dispatcher(ANNO 36) -> Discard",
                "ANNO 36: no upstream element writes the annotation at 36, so it is 0 and all \
                 packets leave on output 0: set ANNO 36 on an upstream element; annotations \
                 written upstream: 40 by 'r :: GPUIPLookup'",
            ),
            (
                FROM,
                &format!("{} -> {ROUTES}", first("CHK_ANNO 40=1")),
                "Discard",
                "CHK_ANNO 40=1: no upstream element writes the annotation at 40, so it is 0 and \
                 no packet matches: 'r :: GPUIPLookup' downstream writes it: move that element \
                 upstream",
            ),
            (
                FROM,
                &first("CHK_ANNO 44=0"),
                "Discard",
                "CHK_ANNO 44=0: no upstream element writes the annotation at 44, so it is 0 and \
                 all packets match: this element writes it, but only afterwards",
            ),
            (FROM, &format!("{ROUTES} -> {}", first("CHK_ANNO 40=1")), "Discard", ""),
            // Annotations that other classes write.
            (FROM, &first("CHK_ANNO 0=1"), "Discard", ""),
            (FROM, &first("CHK_ANNO 26=1"), "Discard", ""),
            ("Idle -> Paint(1)", &first("CHK_ANNO 16=1"), "Discard", ""),
            ("Idle -> Paint(1)", &first("CHK_ANNO 20=1"), "Discard", "CHK_ANNO 20=1: "),
            ("Idle -> Paint(1, 20)", &first("CHK_ANNO 20=1"), "Discard", ""),
            ("Idle -> Paint(1, ANNO 21)", &first("CHK_ANNO 20=1"), "Discard", ""),
            ("Idle -> SetAnnoByte(42, 1) -> Null", &first("CHK_ANNO 40=1"), "Discard", ""),
            // Lookups with FOR write no annotation.
            (
                FROM,
                "GPUIPLookup(FOR rt)",
                "rt :: StaticIPLookup(0/0 0) -> Dispatcher -> Discard",
                "ANNO 40: no upstream element writes the annotation at 40",
            ),
        ] {
            let said = told(before, members, behind);
            assert_eq!(said.contains("no upstream element"), !expected.is_empty(), "{said}");
            assert!(said.contains(expected), "{before} {members} {behind}: {said}");
        }
    }

    #[test]
    fn warns_of_outputs_beyond_those_of_the_dispatcher() {
        for (members, behind, expected) in [
            (ROUTES, TWO, ""),
            (
                "r :: GPUIPLookup(10.0.0.0/8 0, 10.1.0.0/16 7, 0/0 2)",
                TWO,
                "0.0.0.0/0 leads to output 2, which 'd :: Dispatcher' does not have, expected 0 to \
                 1, and 1 more to others: such packets are dropped there; connect d[2] or change \
                 the output",
            ),
            ("GPUIPLookup(0/0 7, ANNO 44)", "Discard", ""),
            ("GPUIPLookup(0/0 7, ANNO 44) -> GPUIPLookup(0/0 0)", TWO, ""),
            ("GPUIPLookup(0/0 7, ANNO 28) -> GPUIPLookup(0/0 0, ANNO 28)", TWO, ""),
            ("GPUIP6Lookup(::/0 2)", TWO, "::/0 leads to output 2, which"),
            ("GPUIPForward(0/0 0, EXPIRED 2)", TWO, "EXPIRED leads to output 2, which"),
            ("GPUIPForward(0/0 3)", TWO, "0.0.0.0/0 leads to output 3, which"),
            ("GPUSDNClassifier(RULES, MISS 4)", TWO, "MISS leads to output 4, which"),
            ("GPUSDNClassifier(RULES)", "Dispatcher -> Discard", "rule 1, 'output:1', leads to"),
        ] {
            let rules = tempfile::NamedTempFile::new().expect("a file");
            let text = "tcp actions=drop\nudp actions=output:1\n";
            fs::write(rules.path(), text).expect("it can be written");
            let members = members.replace("RULES", &rules.path().display().to_string());
            let said = told("Idle", &members, behind);
            assert_eq!(said.contains("leads to output"), !expected.is_empty(), "{said}");
            assert!(said.contains(expected), "{members} {behind}: {said}");
        }
    }

    /// Files whose elements the tables above list, and files of helpers.
    const KNOWN: &[&str] = &[
        "analysis/aggregate_ip_flows.rs",
        "capture/device.rs",
        "capture/from_ip_summary_dump.rs",
        "capture/summary/read.rs",
        "capture/summary/view.rs",
        "capture/to_ip_summary_dump.rs",
        "ethernet/arp_querier.rs",
        "ethernet/arp_responder.rs",
        "ethernet/mod.rs",
        "ethernet/set_vlan_anno.rs",
        "ethernet/vlan_decap.rs",
        "ip/fix_ip_src.rs",
        "ip/get_ip_address.rs",
        "ip/icmp_error.rs",
        "ip/icmp_ping_responder.rs",
        "ip/ip_fragmenter.rs",
        "ip/ip_gw_options.rs",
        "ip/ip_input_combo.rs",
        "ip/ip_output_combo.rs",
        "ip/ip_reassembler.rs",
        "ip/set_ip_address.rs",
        "ip/tcp_fragmenter.rs",
        "ip6/check_ip6_mtu.rs",
        "ip6/fix_ip6_src.rs",
        "ip6/icmp6_error.rs",
        "ip6/icmp6_ping_responder.rs",
        "nat/icmp_rewriter.rs",
        "nat/rewriter.rs",
        "nat/testing.rs",
        "paint/set_paint.rs",
        "patterns/sdn_classifier.rs",
        "standard/adjust_timestamp.rs",
        "standard/cut.rs",
        "standard/pad.rs",
        "standard/set_timestamp.rs",
        "testing.rs",
    ];

    #[test]
    fn tables_list_all_writers_of_annotations() {
        let mut found = Vec::new();
        let crates = ["elements-lookup", "elements-network", "elements-standard"];
        let root_of =
            |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        let mut folders: Vec<_> = crates.map(|name| (root_of(name), root_of(name))).into();
        while let Some((root, folder)) = folders.pop() {
            for entry in fs::read_dir(folder).expect("the sources lie here") {
                let path = entry.expect("it can be read").path();
                let name = path.strip_prefix(&root).expect("it is below").display().to_string();
                if path.is_dir() {
                    folders.push((root.clone(), path));
                } else if name.ends_with(".rs") {
                    let text = fs::read_to_string(&path).expect("a text");
                    let writes =
                        ["set_anno_", "annotations_mut", "set_vlan_tci(", "set_first_timestamp"];
                    if writes.iter().any(|call| text.contains(call)) {
                        found.push(name);
                    }
                }
            }
        }
        found.sort();
        assert_eq!(found, KNOWN, "a file that writes annotations: are its classes in WRITERS?");
        let registry = crate::registry();
        let classes = WRITERS.iter().map(|(class, _)| class).chain(&ANYWHERE);
        classes.for_each(|class| assert!(registry.get(class).is_some(), "{class}"));
    }
}
