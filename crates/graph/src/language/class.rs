//! What the language must know of element classes: ports, processing and flow.
//!
//! Three short texts say it, in Click's notation.
//!
//! | text | form | means |
//! | --- | --- | --- |
//! | port count | `in/out`, each `n`, `a-b`, `a-`, `-b`, `-`; or `=` and `+`s for out | how many; `=`: as many as in, each `+` one more |
//! | processing | a letter a port, the last repeats, `/` between in and out | `h` push, `l` pull, `a` agnostic |
//! | flow | a letter or `[set]` a port, the last repeats, `/` between | packets go from an input to the outputs that share a letter; `#` is the port's number, `[^…]` all but the set |

use std::ops::RangeInclusive;

/// The most ports of an element that no number bounds.
pub(super) const PORTS_MAX: usize = 65_536;

/// What a configuration must know of a primitive element class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassSpec {
    /// Its name.
    pub name: &'static str,
    /// Port count, such as `1/1-2`.
    pub port_count: &'static str,
    /// Processing, such as `a/ah`.
    pub processing: &'static str,
    /// Flow, `x/x` where every input leads to every output.
    pub flow_code: &'static str,
}

/// The element classes that there are.
pub trait ClassTable {
    /// The class called `class`.
    fn get(&self, class: &str) -> Option<&ClassSpec>;

    /// Whether elements of `class` have their work done by a device; pictures shade them.
    fn is_on_device(&self, class: &str) -> bool {
        let _ = class;
        false
    }

    /// All names, so that an error can suggest one; may be empty.
    fn names(&self) -> Vec<&str> {
        Vec::new()
    }

    /// The configurations of the elements that replace a source of `class` with configuration
    /// `config`, such as one for each receive queue of an interface; empty if it stays one element.
    fn replicas(&self, class: &str, config: &str) -> Vec<String> {
        let _ = (class, config);
        Vec::new()
    }

    /// The packages that configurations may require.
    fn packages(&self) -> &[&str] {
        &[]
    }

    /// Whether every other name is taken for a class as well, and any package may be required: for
    /// tools that only rewrite configurations, of whoever's classes. A name that is no element then
    /// is a class.
    fn takes_any(&self) -> bool {
        false
    }
}

/// How packets pass a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Processing {
    /// Whoever has a packet hands it on.
    Push,
    /// Whoever wants a packet asks for it.
    Pull,
    /// Either, as the neighbours are.
    Agnostic,
}

/// How many ports a class has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortCount {
    inputs: RangeInclusive<usize>,
    outputs: Outputs,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Outputs {
    Range(RangeInclusive<usize>),
    /// As many as inputs, and so many more.
    Inputs(usize),
}

impl PortCount {
    /// Reads a port count; none if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let (inputs, outputs) = text.split_once('/').unwrap_or((text, text));
        let outputs = match outputs.strip_prefix('=') {
            Some(plus) if plus.bytes().all(|b| b == b'+') => Outputs::Inputs(plus.len()),
            Some(_) => return None,
            None => Outputs::Range(port_range(outputs)?),
        };
        Some(Self { inputs: port_range(inputs)?, outputs })
    }

    /// How many inputs and outputs an element has whose connections use `inputs` and `outputs`
    /// of them: what is used, brought into the range that the class allows.
    pub fn ports(&self, inputs: usize, outputs: usize) -> (usize, usize) {
        let clamp = |n: usize, range: &RangeInclusive<usize>| n.clamp(*range.start(), *range.end());
        match &self.outputs {
            Outputs::Range(range) => (clamp(inputs, &self.inputs), clamp(outputs, range)),
            Outputs::Inputs(more) => {
                let inputs = clamp(inputs.max(outputs.saturating_sub(*more)), &self.inputs);
                (inputs, inputs + more)
            }
        }
    }
}

fn port_range(text: &str) -> Option<RangeInclusive<usize>> {
    let number = |text: &str, missing: usize| match text {
        "" => Some(missing),
        digits => digits.parse().ok().filter(|&n: &usize| n <= PORTS_MAX),
    };
    let range = match text.split_once('-') {
        None if text.is_empty() => return None,
        None => number(text, 0).map(|n| n..=n)?,
        Some((first, last)) => number(first, 0)?..=number(last, PORTS_MAX)?,
    };
    (range.start() <= range.end()).then_some(range)
}

/// Reads a processing code for an element with so many ports; none if it is not one.
pub fn processing(
    code: &str,
    inputs: usize,
    outputs: usize,
) -> Option<(Vec<Processing>, Vec<Processing>)> {
    let (input_code, output_code) = code.split_once('/').unwrap_or((code, code));
    Some((side(input_code, inputs)?, side(output_code, outputs)?))
}

fn side(code: &str, ports: usize) -> Option<Vec<Processing>> {
    let letters: Option<Vec<Processing>> = code
        .chars()
        .map(|c| match c {
            'h' => Some(Processing::Push),
            'l' => Some(Processing::Pull),
            'a' => Some(Processing::Agnostic),
            _ => None,
        })
        .collect();
    let letters = letters?;
    let last = letters.last().copied();
    let repeated = letters.iter().copied().chain(std::iter::repeat_with(|| last).map_while(|x| x));
    let out: Vec<Processing> = repeated.take(ports).collect();
    (out.len() == ports).then_some(out)
}

/// Which outputs packets of an input may leave by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowCode {
    inputs: Vec<PortSet>,
    outputs: Vec<PortSet>,
}

/// Letters of a port; two ports with one in common are linked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PortSet {
    /// ASCII letters, a bit each.
    letters: u128,
    /// Whether the port's number is one of them.
    has_number: bool,
    /// Whether all but these are meant.
    is_negated: bool,
}

impl FlowCode {
    /// Reads a flow code; none if it is not one. Nothing is `x/x`.
    pub fn parse(code: &str) -> Option<Self> {
        let code = if code.is_empty() { "x/x" } else { code };
        let (inputs, outputs) = code.split_once('/').unwrap_or((code, code));
        Some(Self { inputs: port_sets(inputs)?, outputs: port_sets(outputs)? })
    }

    /// Whether packets that enter by `input` may leave by `output`.
    pub fn leads(&self, input: usize, output: usize) -> bool {
        let set = |sets: &[PortSet], port: usize| {
            sets.get(port).or(sets.last()).copied().unwrap_or_default()
        };
        let (a, b) = (set(&self.inputs, input), set(&self.outputs, output));
        let same_number = input == output;
        match (a.is_negated, b.is_negated) {
            (false, false) => {
                a.letters & b.letters != 0 || a.has_number && b.has_number && same_number
            }
            (false, true) => {
                a.letters & !b.letters != 0 || a.has_number && !(b.has_number && same_number)
            }
            (true, false) => {
                b.letters & !a.letters != 0 || b.has_number && !(a.has_number && same_number)
            }
            // There are more letters than either leaves out.
            (true, true) => true,
        }
    }
}

fn port_sets(code: &str) -> Option<Vec<PortSet>> {
    let mut sets = Vec::new();
    let mut chars = code.chars();
    while let Some(c) = chars.next() {
        let mut set = PortSet::default();
        if c == '[' {
            let mut body = chars.by_ref().take_while(|&c| c != ']').peekable();
            set.is_negated = body.next_if_eq(&'^').is_some();
            for c in body {
                set.insert(c)?;
            }
        } else {
            set.insert(c)?;
        }
        sets.push(set);
    }
    Some(sets)
}

impl PortSet {
    fn insert(&mut self, c: char) -> Option<()> {
        match c {
            '#' => self.has_number = true,
            c if c.is_ascii_alphabetic() => self.letters |= 1 << (c as u32),
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Processing::{Agnostic as A, Pull as L, Push as H};

    #[test]
    fn port_counts_bring_use_into_range() {
        let check = |text: &str, used: (usize, usize), expected: (usize, usize)| {
            let count = PortCount::parse(text).unwrap();
            assert_eq!(count.ports(used.0, used.1), expected, "{text} {used:?}");
        };
        check("1/1", (0, 3), (1, 1));
        check("1/1-2", (1, 2), (1, 2));
        check("1/1-2", (1, 0), (1, 1));
        check("-/0", (5, 1), (5, 0));
        check("1-/=", (3, 1), (3, 3));
        check("1-/=", (1, 4), (4, 4));
        check("1/=+", (1, 9), (1, 2));
        check("-2/3-", (9, 1), (2, 3));
        check("0/0", (1, 1), (0, 0));
        check("2", (0, 0), (2, 2));
        for bad in ["", "x/1", "1/=x", "2-1/1", "/", "99999999999999999999/1"] {
            assert_eq!(PortCount::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_last_processing_letter_repeats() {
        let check = |code: &str, expected: (&[Processing], &[Processing])| {
            let (inputs, outputs) = processing(code, expected.0.len(), expected.1.len()).unwrap();
            assert_eq!((&inputs[..], &outputs[..]), expected, "{code}");
        };
        check("a/ah", (&[A, A], &[A, H, H]));
        check("h/l", (&[H], &[L, L]));
        check("h", (&[H, H], &[H]));
        check("/h", (&[], &[H]));
        assert_eq!(processing("x/h", 1, 1), None);
        assert_eq!(processing("/h", 1, 1), None);
    }

    #[test]
    fn flow_codes_link_inputs_to_outputs() {
        let check = |code: &str, expected: &[(usize, usize)]| {
            let flow = FlowCode::parse(code).unwrap();
            let pairs = (0..3).flat_map(|i| (0..3).map(move |j| (i, j)));
            let found: Vec<_> = pairs.filter(|&(i, j)| flow.leads(i, j)).collect();
            assert_eq!(found, expected, "{code}");
        };
        check("xy/x", &[(0, 0), (0, 1), (0, 2)]);
        check("x/y", &[]);
        check("#/#", &[(0, 0), (1, 1), (2, 2)]);
        check("#/[^#]", &[(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]);
        check("xyz/[xy]z", &[(0, 0), (1, 0), (2, 1), (2, 2)]);
        check("[^x]/xy", &[(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)]);
        assert_eq!(FlowCode::parse(""), FlowCode::parse("x/x"));
        assert_eq!(FlowCode::parse("1/x"), None);
    }
}
