//! Automatic offload: inserts chains downstream of the sources of a configuration.
//!
//! ```text
//! source ─► sdn ─► … ─► rt        source ─► Batcher … GPUSDNClassifier(FOR sdn)
//!                                    … GPUIPLookup(FOR rt) … Debatcher ─► sdn ─► … ─► rt
//! ```
//! A chain does the lookups of downstream elements ahead, for frames as the source emits them, and
//! searches payloads ahead for matchers. The elements stay in place and do everything else,
//! including lookups of packets whose result is invalid, so the output of the configuration is
//! unchanged. All packets of a source pass its chain, in order.
//!
//! A source is any element that pushes packets that were not pushed to it: `Unqueue` is one, too.
//! Only lookups move to the device; all other elements between a source and its last lookup stay on
//! the worker.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use warpswitch_graph::Registry;
use warpswitch_graph::language::args::Args;
use warpswitch_graph::language::{
    Connection, ElementPorts, FlatElement, FlatGraph, Flow, PortRef, Processing, Span,
};
use warpswitch_kit::{Planned, Sources};
use warpswitch_packet::CACHED_RESULTS;

use super::device_element::DeviceClass;

/// The device element that computes results for elements of `class`, and the cost of a lookup
/// without them, see [`Target`](super::device_element::Target).
fn server(registry: &Registry, class: &str) -> Option<(&'static str, u32)> {
    registry.classes().find_map(|server| {
        let targets = DeviceClass::of(server)?.targets;
        let target = targets.iter().find(|target| target.class == class)?;
        Some((server.spec.name, target.cost))
    })
}

/// The argument `FOR` of a chain member; `None` for other elements.
pub fn looks_up_for(element: &FlatElement, registry: &Registry) -> Option<String> {
    let class = registry.class(&element.class).and_then(DeviceClass::of);
    let is_member = class.is_some_and(|class| !class.targets.is_empty());
    let mut target = None;
    Args::new(&element.config).read("FOR", &mut target);
    target.filter(|_| is_member)
}

/// The elements that chain members compute results for.
fn served(graph: &FlatGraph, registry: &Registry) -> BTreeSet<usize> {
    let target = |(idx, member)| graph.find_from(idx, &looks_up_for(member, registry)?);
    graph.elements.iter().enumerate().filter_map(target).collect()
}

/// Inserts chains downstream of the `wanted` sources of `graph` that push packets to lookups that a
/// device can do. `arguments` are those of the `Batcher`s. The caller must resolve the ports of the
/// graph again afterwards.
///
/// A graph that has a `Batcher` is not changed, because its author has chosen the chains. The
/// result lists the lookups that this leaves out.
pub fn plan(
    graph: &mut FlatGraph,
    ports: &[ElementPorts],
    registry: &Registry,
    arguments: &str,
    wanted: Sources,
) -> Planned {
    let flow = Flow::new(graph, registry);
    let is_source = |idx: &usize| ports[*idx].is_push_source();
    let is_pushed = |idx: usize| ports[idx].inputs.contains(&Processing::Push);
    let reached = |source: usize| -> BTreeSet<usize> {
        // Results could wait in a queue for long, so the search stops there.
        let found = flow.downstream(source, None, |visit| !is_pushed(visit.at.element));
        let is_lookup = |idx: &usize| server(registry, &graph.elements[*idx].class).is_some();
        found.into_iter().filter(|idx| is_lookup(idx) && is_pushed(*idx)).collect()
    };
    let sources: Vec<(usize, BTreeSet<usize>)> = (0..graph.elements.len())
        .filter(is_source)
        .map(|source| (source, reached(source)))
        .filter(|(_, lookups)| !lookups.is_empty())
        .filter(|(source, _)| !has_ways_that_meet(&ports[*source], &flow, *source))
        .filter(|(source, _)| wanted == Sources::All || is_ordered(ports, &flow, *source))
        .collect();
    let name = |graph: &FlatGraph, idx: usize| graph.elements[idx].name.clone();
    if graph.elements.iter().any(|element| element.class == "Batcher") {
        let (served, all) =
            (served(graph, registry), sources.iter().flat_map(|(_, lookups)| lookups));
        let left_alone: BTreeSet<usize> =
            all.filter(|idx| !served.contains(idx)).copied().collect();
        return Planned {
            lookups: served.iter().map(|&idx| name(graph, idx)).collect(),
            left_alone: left_alone.iter().map(|&idx| name(graph, idx)).collect(),
            ..Planned::default()
        };
    }
    let (lookups, left_out) = numbered(graph, registry, &sources);
    let planned = Planned {
        sources: sources.iter().map(|&(source, _)| name(graph, source)).collect(),
        lookups: lookups.iter().map(|&(idx, _)| name(graph, idx)).collect(),
        left_out: left_out.iter().map(|&idx| name(graph, idx)).collect(),
        left_alone: Vec::new(),
    };
    for (number, (source, reached)) in sources.iter().enumerate() {
        let own: Vec<_> =
            lookups.iter().filter(|(idx, _)| reached.contains(idx)).copied().collect();
        if own.is_empty() {
            continue;
        }
        for (port, processing) in ports[*source].outputs.iter().enumerate() {
            if *processing == Processing::Push {
                let scope = match port {
                    0 => format!("offload@{}", number + 1),
                    port => format!("offload@{}_{port}", number + 1),
                };
                let from = PortRef { element: *source, port };
                insert(graph, registry, from, &scope, &own, arguments);
            }
        }
    }
    sort(graph);
    planned
}

/// Whether packets of two outputs of a source meet: a chain on one output would let packets of the
/// other overtake.
fn has_ways_that_meet(ports: &ElementPorts, flow: &Flow, source: usize) -> bool {
    let mut seen = BTreeSet::new();
    (0..ports.outputs.len()).any(|port| {
        let reached: BTreeSet<usize> =
            flow.downstream(source, Some(port), |_| false).into_iter().collect();
        let meets = !seen.is_disjoint(&reached);
        seen.extend(reached);
        meets
    })
}

/// Whether a chain downstream of `source` changes the order of no source's packets: neither of its
/// own, nor of those that reach it through a queue.
fn is_ordered(ports: &[ElementPorts], flow: &Flow, source: usize) -> bool {
    let sources = (0..ports.len()).filter(|&element| ports[element].is_push_source());
    sources.into_iter().all(|other| {
        let own = flow.downstream(other, None, |_| false);
        let is_upstream = other == source || own.into_iter().any(|element| element == source);
        !is_upstream || keeps_order(ports, flow, other)
    })
}

/// Whether the packets of `source` have one path, even beyond queues. Where direct and queued
/// packets meet, or an element pulls from several queues, their order depends on timing.
fn keeps_order(ports: &[ElementPorts], flow: &Flow, source: usize) -> bool {
    let mut own: BTreeSet<usize> = flow.downstream(source, None, |_| false).into_iter().collect();
    own.insert(source);
    let takes_from_several = |element: usize| {
        let pulled = ports[element].inputs.iter().filter(|input| **input == Processing::Pull);
        pulled.count() > 1
    };
    if own.iter().any(|&element| takes_from_several(element)) {
        return false;
    }
    let mut pushed = BTreeSet::new();
    own.iter().filter(|&&element| ports[element].is_push_source()).all(|&pusher| {
        let is_pushed = |idx: usize| ports[idx].inputs.contains(&Processing::Push);
        let reached = flow.downstream(pusher, None, |visit| !is_pushed(visit.at.element));
        reached.into_iter().filter(|&idx| is_pushed(idx)).all(|idx| pushed.insert(idx))
    })
}

/// The lookups to do ahead, the most expensive first, with their result slots: lookups of the same
/// source have different slots. Also returns the lookups without a free slot.
fn numbered(
    graph: &FlatGraph,
    registry: &Registry,
    sources: &[(usize, BTreeSet<usize>)],
) -> (Vec<(usize, usize)>, Vec<usize>) {
    let all: BTreeSet<usize> = sources.iter().flat_map(|(_, lookups)| lookups).copied().collect();
    let mut all: Vec<usize> = all.into_iter().collect();
    let cost = |idx: usize| server(registry, &graph.elements[idx].class).map(|(_, cost)| cost);
    all.sort_by_key(|&idx| Reverse(cost(idx)));
    let (mut chosen, mut left_out) = (Vec::<(usize, usize)>::new(), Vec::new());
    for lookup in all {
        let meets = |other: usize| {
            sources.iter().any(|(_, reached)| reached.contains(&lookup) && reached.contains(&other))
        };
        let is_free =
            |number: &usize| chosen.iter().all(|&(other, taken)| taken != *number || !meets(other));
        match (0..CACHED_RESULTS).find(is_free) {
            Some(number) => chosen.push((lookup, number)),
            None => left_out.push(lookup),
        }
    }
    (chosen, left_out)
}

/// Restores the order of connections of a flat graph, with their spans.
fn sort(graph: &mut FlatGraph) {
    let spans = std::mem::take(&mut graph.connection_spans);
    let connections = std::mem::take(&mut graph.connections);
    let mut all: Vec<_> = connections.into_iter().zip(spans).collect();
    all.sort_by_key(|(c, _)| (c.to.element, c.to.port, c.from.element, c.from.port));
    (graph.connections, graph.connection_spans) = all.into_iter().unzip();
}

/// Inserts one chain downstream of `from`.
fn insert(
    graph: &mut FlatGraph,
    registry: &Registry,
    from: PortRef,
    scope: &str,
    lookups: &[(usize, usize)],
    arguments: &str,
) {
    let source = graph.elements[from.element].clone();
    let mut last = from.element;
    let (mut moved, mut span) = (Vec::new(), source.config_span);
    for at in (0..graph.connections.len()).rev() {
        if graph.connections[at].from == from {
            moved.push(graph.connections.remove(at).to);
            span = graph.connection_spans.remove(at);
        }
    }
    let mut port = from.port;
    let mut add = |graph: &mut FlatGraph, name: &str, class: &str, config: String| {
        let element = FlatElement {
            name: format!("{scope}/{name}"),
            class: class.to_owned(),
            config,
            ..source.clone()
        };
        graph.elements.push(element);
        let idx = graph.elements.len() - 1;
        let from = PortRef { element: last, port };
        connect(graph, Connection { from, to: PortRef { element: idx, port: 0 } }, span);
        (last, port) = (idx, 0);
    };
    add(graph, "batcher@", "Batcher", arguments.to_owned());
    add(graph, "in@", "HostToDeviceMemcpy", String::new());
    for (idx, &(lookup, number)) in lookups.iter().enumerate() {
        let FlatElement { name, class, .. } = graph.elements[lookup].clone();
        let (class, _) = server(registry, &class).expect("a lookup that can be served");
        // FOR searches the scope of the member first, so names there must not collide.
        let arguments = match number == idx {
            true => format!("FOR {name}"),
            false => format!("FOR {name}, LOOKUP {number}"),
        };
        add(graph, &format!("for@{idx}"), class, arguments);
    }
    add(graph, "out@", "DeviceToHostMemcpy", String::new());
    add(graph, "queue@", "GPUCompletionQueue", String::new());
    add(graph, "debatcher@", "Debatcher", String::new());
    for to in moved {
        connect(graph, Connection { from: PortRef { element: last, port: 0 }, to }, span);
    }
}

fn connect(graph: &mut FlatGraph, connection: Connection, span: Span) {
    graph.connections.push(connection);
    graph.connection_spans.push(span);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use warpswitch_graph::language::{self, flatten};

    use super::*;

    fn planned(config: &str) -> (Planned, String) {
        planned_for(config, Sources::All)
    }

    fn planned_for(config: &str, wanted: Sources) -> (Planned, String) {
        let registry = crate::registry();
        let loaded = language::load("c", config.as_bytes(), &registry, &BTreeMap::new(), None);
        let mut loaded = loaded.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
        let planned = plan(&mut loaded.graph, &loaded.ports, &registry, "IDLE true", wanted);
        let ports = language::resolve(&loaded.graph, &registry);
        ports.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
        (planned, flatten(&loaded.graph))
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn inserts_a_chain_per_source_for_its_lookups() {
        let config =
            "a :: InfiniteSource -> c :: Counter -> rt :: StaticIPLookup(0/0 0) -> Discard;
            b :: InfiniteSource -> sdn :: SDNClassifier(x) -> rt;
            InfiniteSource -> Queue -> Unqueue -> Discard;";
        let (planned, text) = planned(config);
        assert_eq!(planned.sources, names(&["a", "b"]));
        assert_eq!(planned.lookups, names(&["sdn", "rt"]));
        assert!(text.contains("offload@1/for@0 :: GPUIPLookup(FOR rt, LOOKUP 1);"), "{text}");
        assert!(text.contains("offload@2/for@1 :: GPUIPLookup(FOR rt);"), "{text}");
        assert!(!text.contains("offload@1/for@1"), "a leads to no rules: {text}");
        assert!(text.contains("offload@2/batcher@ :: Batcher(IDLE true);"), "{text}");
        assert!(text.contains("-> offload@1/debatcher@\n    -> c"), "{text}");
    }

    #[test]
    fn keeps_the_order_of_each_source() {
        let ordered = |config: &str| planned_for(config, Sources::Ordered).0.sources;
        let rt = "StaticIPLookup(0/0 0)";
        let two = format!(
            "a :: InfiniteSource -> {rt} -> qa :: Queue -> ua :: Unqueue -> Discard;
            b :: InfiniteSource -> {rt} -> qb :: Queue -> ub :: Unqueue -> Discard;"
        );
        assert_eq!(ordered(&two), names(&["a", "b"]));
        // Packets of several sources may meet: in a queue, or as replies from another way.
        assert_eq!(ordered(&format!("{two} InfiniteSource -> qb;")), names(&["a", "b"]));
        let meet = two.replace("qb :: Queue -> ub :: Unqueue", "qa");
        assert_eq!(ordered(&meet), names(&["a", "b"]));
        let router = "in0 :: InfiniteSource, in1 :: InfiniteSource
            -> check :: CheckIPHeader -> rt :: StaticIPLookup(0/0 0, 1/8 1) -> q0 :: Queue
            -> Discard; rt[1] -> q1 :: Queue -> Discard;
            check[1] -> ICMPError(1.1.1.1, parameterproblem) -> rt; in0 -> check;";
        assert_eq!(ordered(router), names(&["in0", "in1"]));
        // Some packets of a source bypass those in a queue.
        let round = format!(
            "InfiniteSource -> t :: Tee -> Queue -> Unqueue -> {rt} -> c :: Counter -> Discard;
            t[1] -> c;"
        );
        assert_eq!(ordered(&round), names(&[]));
        let round = format!(
            "InfiniteSource -> {rt} -> t :: Tee -> Queue -> Unqueue -> c :: Counter -> Discard;
            t[1] -> c;"
        );
        assert_eq!(ordered(&round), names(&[]));
        let several = format!(
            "InfiniteSource -> {rt} -> t :: Tee -> Queue -> s :: RoundRobinSched -> Unqueue
            -> Discard; t[1] -> Queue -> [1] s;"
        );
        assert_eq!(ordered(&several), names(&[]));
        let queues = format!(
            "a :: InfiniteSource -> {rt} -> t :: Tee -> Queue -> Unqueue -> Discard;
            t[1] -> Queue -> Discard;"
        );
        assert_eq!(ordered(&queues), names(&["a"]));
    }

    #[test]
    fn skips_sources_whose_outputs_meet() {
        let config = |end: &str| {
            format!(
                "f :: FromDump(x, FORCE_IP true) -> StaticIPLookup(0/0 0) -> c :: Counter
                -> Discard; f[1] -> {end};"
            )
        };
        for wanted in [Sources::All, Sources::Ordered] {
            let (met, _) = planned_for(&config("c"), wanted);
            assert_eq!(met, Planned::default());
            let (apart, _) = planned_for(&config("Discard"), wanted);
            assert_eq!(apart.sources, names(&["f"]));
        }
    }

    #[test]
    fn payload_searches_get_slots_first() {
        let config = "i :: InfiniteSource -> sdn :: SDNClassifier(x) -> Strip(14)
            -> ids :: IDSMatcher(RULES y) -> rt :: StaticIPLookup(0/0 0) -> Discard;";
        let (planned, text) = planned(config);
        assert_eq!(planned.lookups, names(&["ids", "sdn"]));
        assert_eq!(planned.left_out, names(&["rt"]));
        assert!(text.contains("offload@1/for@0 :: GPUIDSMatcher(FOR ids);"), "{text}");
        assert!(text.contains("offload@1/for@1 :: GPUSDNClassifier(FOR sdn);"), "{text}");
    }

    #[test]
    fn keeps_configurations_without_lookups() {
        let (planned, text) = planned("InfiniteSource -> Counter -> Discard;");
        assert_eq!(planned, Planned::default());
        assert!(!text.contains("Batcher"), "{text}");
    }

    #[test]
    fn keeps_configurations_with_chains() {
        let chain = |member: &str| {
            format!(
                "Batcher -> HostToDeviceMemcpy -> {member} -> DeviceToHostMemcpy
                -> GPUCompletionQueue -> Debatcher"
            )
        };
        let config = format!(
            "InfiniteSource -> {} -> a :: StaticIPLookup(0/0 0) -> Discard;
            elementclass Part {{ input -> {} -> a :: StaticIPLookup(0/0 0) -> output }}
            InfiniteSource -> p :: Part -> Discard;
            InfiniteSource -> b :: StaticIPLookup(0/0 0) -> Discard;",
            chain("GPUIPLookup(FOR a)"),
            chain("GPUIPLookup(FOR a)")
        );
        let (planned, text) = planned(&config);
        assert!(!text.contains("offload@"), "{text}");
        assert_eq!(planned.lookups, names(&["a", "p/a"]));
        assert_eq!(planned.left_alone, names(&["b"]));
        assert!(planned.sources.is_empty() && planned.left_out.is_empty());
    }

    #[test]
    fn treats_an_unqueue_as_a_source() {
        let config = "InfiniteSource -> Queue -> u :: Unqueue -> rt :: StaticIPLookup(0/0 0)
            -> Discard;";
        let (planned, _) = planned(config);
        assert_eq!((planned.sources, planned.lookups), (names(&["u"]), names(&["rt"])));
    }

    #[test]
    fn sources_share_result_slots() {
        let path = |n: u32| format!("InfiniteSource -> r{n} :: StaticIPLookup(0/0 0) -> Discard;");
        let (planned, text) = planned(&(1..=5).map(path).collect::<String>());
        assert_eq!((planned.lookups.len(), planned.left_out.len()), (5, 0));
        assert!(text.contains("offload@5/for@0 :: GPUIPLookup(FOR r5);"), "{text}");
        assert!(!text.contains("for@1"), "one for each: {text}");
    }

    #[test]
    fn leaves_out_cheap_lookups_without_a_slot() {
        let config =
            "InfiniteSource -> t :: Tee(3); t[0] -> one :: StaticIPLookup(0/0 0) -> Discard;
            t[1] -> two :: RadixIPLookup(0/0 0) -> Discard;
            t[2] -> three :: SDNClassifier(x) -> Discard;";
        let (planned, _) = planned(config);
        assert_eq!(planned.lookups, names(&["three", "one"]));
        assert_eq!(planned.left_out, names(&["two"]));
    }
}
