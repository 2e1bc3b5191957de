//! The lines of a trace, and the layout that `ovs-appctl ofproto/trace` gives them.
//!
//! A table that is the last of its list is printed at the level of the list, so a chain of tables
//! stays at the margin; others are indented like actions.

use std::fmt::Write as _;

/// The deepest level that is indented: a long chain of resubmits needs no wider lines.
const LEVEL_MAX: usize = 64;

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// The bridge; underlined.
    Bridge,
    /// A table.
    Table,
    /// An action, or a bucket.
    Action,
    /// More about the action above.
    Detail,
    /// An action that had no effect.
    Warning,
    /// An action that failed.
    Error,
}

#[derive(Debug)]
struct Node {
    kind: LineKind,
    text: String,
    children: Vec<usize>,
}

/// A tree of lines; new ones are added to the node that was opened last.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    open: Vec<usize>,
}

impl Tree {
    /// A tree with its root open, which is not printed.
    pub(super) fn new() -> Self {
        let root = Node { kind: LineKind::Bridge, text: String::new(), children: Vec::new() };
        Self { nodes: vec![root], open: vec![0] }
    }

    /// Adds a line.
    pub(super) fn add(&mut self, kind: LineKind, text: impl Into<String>) -> usize {
        let place = self.nodes.len();
        self.nodes.push(Node { kind, text: text.into(), children: Vec::new() });
        let parent = self.open.last().copied().unwrap_or(0);
        self.nodes[parent].children.push(place);
        place
    }

    /// Adds a line, and puts further ones below it.
    pub(super) fn open(&mut self, kind: LineKind, text: impl Into<String>) {
        let place = self.add(kind, text);
        self.open.push(place);
    }

    /// How many nodes are open.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Closes the nodes that were opened last, until `depth` are left.
    pub(super) fn close_to(&mut self, depth: usize) {
        self.open.truncate(depth.max(1));
    }

    /// The text.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        // Nodes to be printed, the next one last: place, level, whether it ends its list.
        let mut left = Vec::new();
        let put = |left: &mut Vec<(usize, usize, bool)>, node: &Node, level| {
            let last = node.children.len().wrapping_sub(1);
            let children = node.children.iter().enumerate().rev();
            left.extend(children.map(|(at, &place)| (place, level, at == last)));
        };
        put(&mut left, &self.nodes[0], 0);
        while let Some((place, level, is_last)) = left.pop() {
            let node = &self.nodes[place];
            let is_chained = is_last && matches!(node.kind, LineKind::Bridge | LineKind::Table);
            let inner = usize::from(!is_chained);
            let indent = " ".repeat((level + inner).min(LEVEL_MAX) * 4);
            let text = &node.text;
            _ = match node.kind {
                LineKind::Bridge => {
                    writeln!(out, "\n{indent}{text}\n{indent}{}", "-".repeat(text.len()))
                }
                LineKind::Table | LineKind::Action => writeln!(out, "{indent}{text}"),
                LineKind::Detail => writeln!(out, "{indent} -> {text}"),
                LineKind::Warning => writeln!(out, "{indent} >> {text}"),
                LineKind::Error => writeln!(out, "{indent} >>>> {text} <<<<"),
            };
            put(&mut left, node, level + 2 * inner);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_table_of_a_list_is_not_indented() {
        let mut tree = Tree::new();
        tree.open(LineKind::Bridge, "br");
        tree.open(LineKind::Table, " 0. a");
        tree.add(LineKind::Action, "resubmit(,3)");
        let depth = tree.depth();
        tree.open(LineKind::Table, " 3. b");
        tree.add(LineKind::Action, "drop");
        tree.close_to(depth);
        tree.add(LineKind::Action, "goto_table:1");
        tree.open(LineKind::Table, " 1. c");
        tree.add(LineKind::Action, "output:2");
        tree.add(LineKind::Warning, "no port");
        let expected = "\nbr\n--\n 0. a\n    resubmit(,3)\n     3. b\n            drop\n    \
                        goto_table:1\n 1. c\n    output:2\n     >> no port\n";
        assert_eq!(tree.text(), expected);
    }
}
