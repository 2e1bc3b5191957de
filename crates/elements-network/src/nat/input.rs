//! Input specs: the treatment of packets that match no flow.

use warpswitch_graph::language::args::split::split_words;
use warpswitch_graph::language::args::{FromArg, NoNames};

use super::mapper;
use super::pattern::{Pattern, Scope, parse_outputs};
use warpswitch_elements_support::outputs;

/// See the module.
#[derive(Clone, Debug)]
pub(super) enum InputSpec {
    /// They are dropped.
    Drop,
    /// They leave here, as they are, and make no flow.
    Pass(u32),
    /// They make a flow that changes nothing, with these outputs.
    Keep([u32; 2]),
    /// They make a flow by a pattern, with these outputs.
    Pattern(Pattern, [u32; 2]),
    /// They make a flow with the mapping that an element chooses.
    Mapper(usize),
}

impl InputSpec {
    /// Reads a spec for an element of so many outputs.
    ///
    /// # Errors
    /// What is wrong, in Click's words.
    pub(super) fn parse(text: &str, scope: Scope<'_>, outputs: usize) -> Result<Self, String> {
        let check = |output: i32| {
            let there = u32::try_from(output).ok().filter(|&output| (output as usize) < outputs);
            let expected = outputs::expected(outputs);
            there.ok_or_else(|| format!("output port {output} out of range, {expected}"))
        };
        let check_both = |[forward, reply]: [i32; 2]| -> Result<[u32; 2], String> {
            Ok([check(forward)?, check(reply)?])
        };
        let words = split_words(text);
        let (word, rest) = words.split_first().ok_or("empty argument")?;
        match word.as_str() {
            "pass" | "passthrough" | "nochange" => {
                let output = match rest {
                    [] => Some(0),
                    [output] => i32::from_arg(output, &NoNames).ok(),
                    _ => None,
                };
                let output = output.ok_or("syntax error, expected 'nochange [OUTPUT]'")?;
                Ok(Self::Pass(check(output)?))
            }
            "keep" => Ok(Self::Keep(check_both(parse_outputs(rest)?)?)),
            "drop" | "discard" if rest.is_empty() => Ok(Self::Drop),
            "drop" | "discard" => Err(format!("syntax error, expected '{word}'")),
            "pattern" | "xpattern" => {
                let (pattern, to) = Pattern::parse_with_outputs(&rest.join(" "), scope)?;
                Ok(Self::Pattern(pattern, check_both(to)?))
            }
            name => {
                let element = scope.names.element(name).ok_or("unknown specification")?;
                if !rest.is_empty() {
                    return Err("syntax error, expected element name".to_owned());
                }
                if !mapper::is_mapper(&scope.graph.elements[element].class) {
                    return Err("element is not an IPMapper".to_owned());
                }
                Ok(Self::Mapper(element))
            }
        }
    }
}

/// As Click writes it.
impl std::fmt::Display for InputSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            InputSpec::Drop => f.write_str("<drop>"),
            InputSpec::Pass(_) => f.write_str("<nochange>"),
            InputSpec::Keep(_) => f.write_str("<keep>"),
            InputSpec::Pattern(pattern, _) => pattern.fmt(f),
            InputSpec::Mapper(_) => f.write_str("<mapper>"),
        }
    }
}
