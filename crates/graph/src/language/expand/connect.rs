//! Chains: which port is wired to which.
//!
//! | arrow | left | right | wires |
//! | --- | --- | --- | --- |
//! | `->` | one port | one port | one |
//! | `->` `=>` | many | one, or one and many | each to the one |
//! | `=>` | n | n | one to one |
//! | `=>` | n | one element without brackets | its ports 0 to n-1 |
//! | any | `[i,]` among others | n | as many of its ports, from i on, as are missing |

use super::super::ast::{Arrow, Chain, ClassExpr, ElementExpr, Ports, Stage, Target};
use super::super::source::Span;
use super::super::token::ConfigText;
use super::CONNECTIONS_MAX;
use super::build::{Builder, Class, Ends, Open};

/// An element of a chain with the ports beside it.
struct Link<'a> {
    ends: Ends,
    inputs: PortList<'a>,
    outputs: PortList<'a>,
}

/// Ports as written, or as a group without brackets implies them.
enum PortList<'a> {
    Written(&'a Ports),
    Implied(Ports),
}

impl PortList<'_> {
    fn ports(&self) -> &Ports {
        match self {
            PortList::Written(ports) => ports,
            PortList::Implied(ports) => ports,
        }
    }

    fn is_useless(&self) -> bool {
        matches!(self, PortList::Written(ports) if !ports.is_absent())
    }
}

/// One side of an arrow.
struct Side<'a> {
    /// Element and ports, in order.
    links: Vec<(u32, &'a Ports)>,
    /// Ports that are named or implied; a port that may expand counts without what may follow.
    count: u64,
    /// How many may expand.
    expandable: usize,
}

impl<'a> Side<'a> {
    fn new(links: impl Iterator<Item = (u32, &'a Ports)>) -> Self {
        let links: Vec<_> = links.collect();
        let count = links.iter().map(|(_, ports)| ports.len().max(1)).sum();
        let expandable = links.iter().filter(|(_, ports)| ports.expands).count();
        Self { links, count, expandable }
    }

    /// A lone element without brackets takes as many ports as the other side of `=>` has.
    fn imply_expandable(&mut self, other_count: u64) {
        if self.count == 1 && other_count > 1 && self.links[0].1.is_absent() {
            self.expandable = 1;
        }
    }

    /// Element and port of each place, where the expandable one takes `extra` more.
    fn places(&self, extra: u64) -> impl Iterator<Item = (u32, u32)> + '_ {
        let expands_first = self.expandable > 0 && !self.links.iter().any(|(_, p)| p.expands);
        let mut has_expanded = self.expandable == 0;
        self.links.iter().enumerate().flat_map(move |(idx, &(element, ports))| {
            let expands = !has_expanded && (ports.expands || expands_first && idx == 0);
            has_expanded |= expands;
            let written = ports.is_absent().then_some(0);
            let last = ports.ranges.last().map_or(0, |&(_, last)| last);
            let extra = if expands { u32::try_from(extra).unwrap_or(u32::MAX) } else { 0 };
            let more = (last + 1)..(last + 1).saturating_add(extra);
            written.into_iter().chain(ports.iter()).chain(more).map(move |port| (element, port))
        })
    }
}

impl Builder<'_> {
    pub(super) fn chain(&mut self, chain: &Chain, open: &mut Open) {
        let mut before: Vec<Link> = Vec::new();
        let is_lone = chain.stages.len() == 1;
        for stage in &chain.stages {
            let links = self.stage(stage, is_lone, open);
            let span = stage.elements.first().map_or_else(Span::default, |element| element.span);
            match stage.arrow {
                None if links.iter().any(|link| link.inputs.is_useless()) => {
                    self.error(span, "input ports ignored at start of chain");
                }
                None => {}
                Some(arrow) => self.connect(arrow, &before, &links, open),
            }
            before = links;
        }
        let last = chain.stages.last().and_then(|stage| stage.elements.first());
        if let Some(element) = last
            && before.iter().any(|link| link.outputs.is_useless())
        {
            self.error(element.span, "output ports ignored at end of chain");
        }
    }

    /// The elements of a stage: groups first, as they are read first.
    fn stage<'a>(&mut self, stage: &'a Stage, is_lone: bool, open: &mut Open) -> Vec<Link<'a>> {
        let mut groups: Vec<Option<Link>> = Vec::new();
        for element in &stage.elements {
            groups.push(match &element.target {
                Target::Group(_) => Some(self.group(element, open)),
                _ => None,
            });
        }
        let shared = if is_lone { shared_class(&stage.elements) } else { None };
        let shared = shared.map(|(class, config)| (self.class(class, "", open), config));
        let mut links = Vec::with_capacity(groups.len());
        for (element, group) in stage.elements.iter().zip(groups) {
            let ends = match (group, &shared) {
                (Some(link), _) => {
                    links.push(link);
                    continue;
                }
                (None, Some((class, config))) => {
                    let name = element_name(element);
                    self.named(name, Some(class.clone()), Some(config.clone()), element.span, open)
                }
                (None, None) => self.element(element, stage.arrow.is_none(), open),
            };
            if let Some(ends) = ends {
                let inputs = PortList::Written(&element.inputs);
                links.push(Link { ends, inputs, outputs: PortList::Written(&element.outputs) });
            }
        }
        links
    }

    fn group<'a>(&mut self, element: &'a ElementExpr, open: &mut Open) -> Link<'a> {
        const OWNER: &str = "<anonymous group>";
        let Target::Group(statements) = &element.target else { unreachable!("the caller looked") };
        let gates = open.add_gates(OWNER, element.span);
        let outer = open.gates.replace(gates);
        self.statements(statements, open);
        open.gates = outer;
        let (inputs, outputs) = self.check_gates(open, gates, OWNER, element.span);
        let list = |written: &'a Ports, count: u32| match count.checked_sub(1) {
            Some(last) if written.is_absent() => {
                PortList::Implied(Ports { ranges: vec![(0, last)], expands: false })
            }
            _ => PortList::Written(written),
        };
        Link {
            ends: Ends { enter: gates.0, leave: gates.1 },
            inputs: list(&element.inputs, inputs),
            outputs: list(&element.outputs, outputs),
        }
    }

    fn element(&mut self, element: &ElementExpr, is_first: bool, open: &mut Open) -> Option<Ends> {
        let span = element.span;
        match &element.target {
            Target::Implied => open.element(if is_first { "input" } else { "output" }),
            Target::Anonymous { class, config } => {
                let class = self.class(class, "", open)?;
                let config = config.clone().unwrap_or_default();
                Some(open.add_unnamed("", class, config, span))
            }
            Target::Named { name, class, config } => {
                let class = class.as_ref().map(|class| self.class(class, "", open));
                self.named(name, class, config.clone(), span, open)
            }
            Target::Group(_) => None,
        }
    }

    /// `name`, `name(config)` or `name :: class(config)`.
    fn named(
        &mut self,
        name: &str,
        class: Option<Option<Class>>,
        config: Option<ConfigText>,
        span: Span,
        open: &mut Open,
    ) -> Option<Ends> {
        let has_config = config.is_some();
        let config = config.unwrap_or_default();
        let is_declared = class.is_some();
        let is_gate = open.gates.is_some() && matches!(name, "input" | "output");
        if let Some(found) = self.lookup(name).filter(|_| !is_gate) {
            if is_declared {
                self.error(span, format!("class '{name}' used as element name"));
            }
            return Some(open.add_unnamed(name, found, config, span));
        }
        match (open.element(name), class) {
            (Some(ends), None) => {
                if has_config {
                    self.error(span, "configuration string ignored on element reference");
                }
                Some(ends)
            }
            (Some(ends), Some(_)) => {
                self.error_with(|builder| {
                    let message = format!("redeclaration of element '{name}'");
                    let error = builder.sources.error(span, message);
                    if is_gate {
                        return error;
                    }
                    let before = open.compound.elements[ends.enter as usize].span;
                    let message = format!("element '{name}' previously declared here");
                    error.note(Some(builder.sources.landmark(before)), message)
                });
                Some(ends)
            }
            (None, Some(class)) => {
                let class = class.unwrap_or_else(|| Class::Primitive("Error".to_owned()));
                Some(self.declare(open, name, class, config, span))
            }
            (None, None) => {
                if let Some(class) = self.assume(name) {
                    return Some(open.add_unnamed(name, class, config, span));
                }
                self.error_with(|builder| {
                    let message = format!("undeclared element '{name}'");
                    let error = builder.sources.error(span, message);
                    builder.suggest(error.label("neither an element nor an element class"), name)
                });
                let class = Class::Primitive("Error".to_owned());
                Some(self.declare(open, name, class, config, span))
            }
        }
    }

    fn connect(&mut self, arrow: Arrow, before: &[Link], after: &[Link], open: &mut Open) {
        let mut left = Side::new(before.iter().map(|link| (link.ends.leave, link.outputs.ports())));
        let mut right = Side::new(after.iter().map(|link| (link.ends.enter, link.inputs.ports())));
        if left.links.is_empty() || right.links.is_empty() {
            return;
        }
        if left.expandable + right.expandable > 1 {
            self.error(arrow.span, "at most one expandable port allowed per connection");
            left.expandable = left.expandable.min(1);
            right.expandable = right.expandable.min(1);
            if right.count < left.count {
                left.expandable = 0;
            } else {
                right.expandable = 0;
            }
        }
        if arrow.is_wide {
            let (left_count, right_count) = (left.count, right.count);
            left.imply_expandable(right_count);
            right.imply_expandable(left_count);
        }
        self.check_counts(arrow, &left, &right);
        let steps_left = left.count > 1 || left.expandable > 0;
        let steps_right = right.count > 1 || right.expandable > 0;
        let wires = left.count.max(right.count);
        if self.wire_count + wires > CONNECTIONS_MAX as u64 {
            let message = format!("the configuration has more than {CONNECTIONS_MAX} connections");
            // Once is enough.
            if !std::mem::replace(&mut self.is_full, true) {
                self.error(arrow.span, message);
            }
            return;
        }
        let mut from = left.places(right.count.saturating_sub(left.count));
        let mut to = right.places(left.count.saturating_sub(right.count));
        let (mut at_left, mut at_right) = (from.next(), to.next());
        while let (Some(from_port), Some(to_port)) = (at_left, at_right) {
            self.wire_count += 1;
            open.add_wire(from_port, to_port, arrow.span);
            // One port to one port is a step of both.
            if steps_left || !steps_right {
                at_left = from.next();
            }
            if steps_right {
                at_right = to.next();
            }
        }
    }

    fn check_counts(&mut self, arrow: Arrow, left: &Side, right: &Side) {
        let (outputs, inputs) = (left.count, right.count);
        let steps = |side: &Side| side.count > 1 || side.expandable > 0;
        if !steps(left) || !steps(right) {
            return;
        }
        if !arrow.is_wide {
            self.error(arrow.span, "syntax error: many-to-many connections require '=>'");
        }
        let message = match (left.expandable > 0, right.expandable > 0) {
            (false, false) if outputs != inputs => {
                format!("connection mismatch: {outputs} outputs connected to {inputs} inputs")
            }
            (true, false) if inputs < outputs => {
                format!(
                    "connection mismatch: {outputs} or more outputs connected to {inputs} inputs"
                )
            }
            (false, true) if outputs < inputs => {
                format!(
                    "connection mismatch: {outputs} outputs connected to {inputs} or more inputs"
                )
            }
            _ => return,
        };
        self.error(arrow.span, message);
    }
}

fn element_name(element: &ElementExpr) -> &str {
    match &element.target {
        Target::Named { name, .. } => name,
        _ => "",
    }
}

/// In `a, b :: Class(config)`, standing alone, what all of them are.
fn shared_class(elements: &[ElementExpr]) -> Option<(&ClassExpr, ConfigText)> {
    let (last, before) = elements.split_last()?;
    let is_bare = |element: &ElementExpr| {
        matches!(&element.target, Target::Named { class: None, config: None, .. })
            && element.inputs.is_absent()
            && element.outputs.is_absent()
    };
    if before.is_empty() || !before.iter().all(is_bare) {
        return None;
    }
    match &last.target {
        Target::Named { class: Some(class), config, .. }
            if last.inputs.is_absent() && last.outputs.is_absent() =>
        {
            Some((class, config.clone().unwrap_or_default()))
        }
        _ => None,
    }
}
