//! Defines named patterns, for several rewriters.
//!
//! # Synopsis
//! `IPRewriterPatterns(NAME PATTERN, …)`
//!
//! # Ports
//! None.
//!
//! # Configuration
//! Each argument is a name and its pattern: `SADDR SPORT DADDR DPORT`, `SADDR DADDR SPORT` or
//! `SADDR DADDR`, as for `IPRewriter`. Rewriters in the same compound, or in one nested in it, use
//! it as `pattern NAME FOUTPUT ROUTPUT`. All users of a name share the position in its range.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! IPRewriterPatterns(out 192.0.2.1 1024-65535 - -);
//! rw :: IPRewriter(pattern out 0 1, drop);
//! ```

use warpswitch_graph::language::args::split::{split_args, split_words};
use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Phase};

use super::pattern::{Pattern, Scope};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new(NAME, "0/0", "a/a", || Box::<IpRewriterPatterns>::default())
        .phase(Phase::Information);

const NAME: &str = "IPRewriterPatterns";

/// See the module.
#[derive(Debug, Default)]
pub struct IpRewriterPatterns {
    patterns: Vec<Pattern>,
}

/// The names that an argument list defines, with the words behind each.
fn definitions(args: &[String]) -> impl Iterator<Item = (String, Vec<String>)> + '_ {
    args.iter().filter_map(|arg| {
        let mut words = split_words(arg).into_iter();
        Some((words.next()?, words.collect()))
    })
}

/// The compound that an element is in.
fn compound(name: &str) -> &str {
    name.rfind('/').map_or("", |at| &name[..=at])
}

/// The pattern called `name`, as seen from `scope`: the innermost of that name.
pub(super) fn find(name: &str, scope: Scope<'_>) -> Result<Pattern, String> {
    let missing = || format!("no such pattern '{name}'");
    let from = compound(&scope.graph.elements[scope.element].name);
    let elements = scope.graph.elements.iter().enumerate();
    let visible = elements
        .filter(|(_, element)| element.class == NAME && from.starts_with(compound(&element.name)));
    let found = visible.filter_map(|(idx, element)| {
        let args = split_args(&element.config);
        let place = definitions(&args).position(|(defined, _)| defined == name)?;
        let (_, words) = definitions(&args).nth(place)?;
        Some((compound(&element.name).len(), idx, place, words))
    });
    let (_, idx, place, words) = found.max_by_key(|found| found.0).ok_or_else(missing)?;
    // A name for a name would have to be looked for without an end.
    if words.len() <= 1 {
        return Err(missing());
    }
    Ok(Pattern::parse(&words, scope)?.named(idx, place))
}

/// Makes a pattern that was found by its name choose together with others of that name.
pub(super) fn adopt(cx: &mut Context<'_>, pattern: &mut Pattern) {
    let Some((element, number)) = pattern.name() else { return };
    let original = cx.with_element::<IpRewriterPatterns, _>(element, |element, _| {
        element.patterns.get(number).cloned()
    });
    if let Some(original) = original.flatten() {
        pattern.share(&original);
    }
}

impl Element for IpRewriterPatterns {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let scope = Scope { graph: context.graph, names: context.names, element: context.element };
        let rest = args.rest();
        let mut names = Vec::new();
        for (name, words) in definitions(&rest) {
            if names.contains(&name) {
                args.error_at("", &format!("pattern '{name}' already defined"));
                continue;
            }
            match Pattern::parse(&words, scope) {
                Ok(pattern) => self.patterns.push(pattern),
                Err(message) => args.error_at("", &message),
            }
            names.push(name);
        }
        args.complete()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{error, lines, run};

    #[test]
    fn rewriters_walk_the_range_of_a_name_together() {
        let said = run("IPRewriterPatterns(a 9.9.9.9 1000-1005# - -, b 8.8.8.8 7 - -);
            f :: TestFeed(0 0 U 1.0.0.1 1 2.0.0.2 2, 1 1 U 1.0.0.1 1 2.0.0.2 3,
                2 0 U 1.0.0.1 1 2.0.0.2 4, 3 2 U 1.0.0.1 1 2.0.0.2 5);
            f[0] -> UDPRewriter(pattern a 0 0) -> [0] log :: TestLog;
            f[1] -> UDPRewriter(pattern a 0 0) -> [1] log;
            f[2] -> { IPRewriterPatterns(b 7.7.7.7 8 - -);
                input -> UDPRewriter(pattern b 0 0) -> output } -> [2] log;");
        let expect = "0 U 9.9.9.9 1000 2.0.0.2 2
            1 U 9.9.9.9 1001 2.0.0.2 3
            0 U 9.9.9.9 1002 2.0.0.2 4
            2 U 7.7.7.7 8 2.0.0.2 5";
        assert_eq!(said.lines().collect::<Vec<_>>(), lines(expect));
    }

    #[test]
    fn what_is_wrong_is_told() {
        let wrong = "IPRewriterPatterns(a 1 2, a 3, b - - 1, b - - -);";
        assert_eq!(
            error(wrong),
            ["bad source address", "pattern 'a' already defined", "pattern 'b' already defined"]
        );
    }
}
