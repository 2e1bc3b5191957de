//! Classifies packets by bytes at fixed offsets.
//!
//! # Synopsis
//! `Classifier(PATTERN, …)`
//!
//! # Ports
//! One input, one output per pattern; push.
//!
//! # Configuration
//! - `PATTERN`: clauses `OFFSET/VALUE` or `OFFSET/VALUE%MASK`, all of which must match, or `-` for
//!   all packets. `OFFSET` is in bytes from the start of the packet data. `VALUE` and `MASK` are an
//!   even number of hex digits; `?` in `VALUE` matches any digit. `!` before a clause negates it.
//!
//! A packet is emitted on the output of the first pattern that matches. A clause about bytes beyond
//! the end of the packet does not match, so its negation does.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `program` | read | the compiled decision program |
//! | `config` | read, write | the arguments |
//!
//! # Drops
//! - `no_match`: no pattern matches
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
//! c [0] -> Discard; c [1] -> Discard; c [2] -> Discard; c [3] -> Print(other) -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, split::unquote};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::Batch;

use super::expr::Expr;
use super::program::{Place, Program, Region, Step, Way};
use super::run::Tests;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Classifier", "1/-", "h/h", || Box::new(Classifier::new()))
        .live()
        .drops(&["no_match"]);

/// No clause is about bytes from here on.
const OFFSET_END: usize = 1 << 16;

/// See the module.
#[derive(Clone)]
pub struct Classifier {
    program: Program,
    tests: Tests,
    outputs: Vec<u32>,
}

impl Classifier {
    fn new() -> Self {
        let program = Program::all(Way::Drop);
        let tests = Tests::new(&program).0;
        Self { program, tests, outputs: Vec::new() }
    }
}

/// Reads a pattern.
fn pattern(text: &str) -> Result<Expr, String> {
    if text == "-" {
        return Ok(Expr::Always);
    }
    let mut clauses = Vec::new();
    let mut rest = text.trim_ascii_start();
    while !rest.is_empty() {
        let negated = rest.starts_with('!');
        rest = rest.strip_prefix('!').unwrap_or(rest).trim_ascii_start();
        let clause;
        (clause, rest) = read_clause(rest)?;
        clauses.push(if negated { clause.not() } else { clause });
        rest = rest.trim_ascii_start();
    }
    Ok(Expr::And(clauses))
}

/// Splits what `text` begins with, as far as characters are `wanted`, from the rest.
fn take(text: &str, wanted: fn(&char) -> bool) -> (&str, &str) {
    text.split_at(text.chars().take_while(wanted).map(char::len_utf8).sum())
}

/// Reads a clause at the start of `text`; gives the rest, too.
fn read_clause(text: &str) -> Result<(Expr, &str), String> {
    let (offset, rest) = take(text, char::is_ascii_digit);
    if offset.is_empty() {
        return Err("expected a digit".to_owned());
    }
    let rest = rest.strip_prefix('/').ok_or("expected '/'")?;
    let is_digit = |c: &char| c.is_ascii_hexdigit() || *c == '?';
    let (value, rest) = take(rest, is_digit);
    let (mask, rest) = match rest.strip_prefix('%') {
        Some(rest) => {
            let (mask, rest) = take(rest, is_digit);
            (Some(mask), rest)
        }
        None => (None, rest),
    };
    if value.len() < 2 {
        return Err("value has less than 2 hex digits".to_owned());
    }
    if value.len() % 2 != 0 {
        return Err("value has odd number of hex digits".to_owned());
    }
    if let Some(mask) = mask.filter(|mask| mask.len() != value.len()) {
        let what = if mask.len() > value.len() { "many" } else { "few" };
        return Err(format!("mask has too {what} hex digits"));
    }
    let offset = offset.parse().ok().filter(|at| at + value.len() / 2 <= OFFSET_END);
    let offset: usize = offset.ok_or("offset out of range, bound 65535")?;
    Ok((clause(offset, value.as_bytes(), mask.map(str::as_bytes)), rest))
}

/// The clause, word by word.
fn clause(offset: usize, value: &[u8], mask: Option<&[u8]>) -> Expr {
    let digit = |c: u8| (c as char).to_digit(16);
    let mut words: Vec<(usize, u32, u32)> = Vec::new();
    for (idx, &c) in value.iter().enumerate() {
        let at = offset + idx / 2;
        let shift = 28 - 8 * (at % 4) as u32 + 4 - 4 * (1 + idx as u32 % 2);
        let asked = mask.map_or(15, |mask| digit(mask[idx]).unwrap_or(0));
        let asked = if c == b'?' { 0 } else { asked };
        if words.last().is_none_or(|&(word, ..)| word != at / 4) {
            words.push((at / 4, 0, 0));
        }
        let (_, word_value, word_mask) = words.last_mut().expect("one was pushed");
        *word_value |= (digit(c).unwrap_or(0) & asked) << shift;
        *word_mask |= asked << shift;
    }
    let compare = |(word, value, mask): (usize, u32, u32)| {
        Expr::equal(Place { region: Region::Data, offset: (word * 4) as u16 }, 0, mask, value)
    };
    Expr::all(words.into_iter().map(compare).collect())
}

/// One program of all patterns.
fn program(patterns: &[Expr]) -> Program {
    let mut program = Program::all(Way::Failure);
    for (output, expr) in patterns.iter().enumerate() {
        program.or_else(expr.program(Way::Output(output as u32)));
    }
    program.fail_to(Way::Drop);
    program.optimize(|step: &Step| u32::from(step.place.offset));
    program
}

/// What is a pattern.
const PATTERN_HELP: &str = "a pattern is OFFSET/BYTES[%MASK] with BYTES in hexadecimal, as 12/0800 \
    for IPv4 in Ethernet frames, 12/0800 23/06 for TCP in it, or - for all other packets";

impl Element for Classifier {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        if args.len() != context.outputs {
            let message = format!("need {} arguments, one per output port", context.outputs);
            args.error_at("", &message);
            args.help(super::one_for_each(context.outputs));
        }
        let mut patterns = Vec::new();
        for (idx, text) in args.rest().iter().enumerate() {
            match pattern(&String::from_utf8_lossy(&unquote(text))) {
                Ok(expr) => patterns.push(expr),
                Err(message) => {
                    args.error_of(idx, &format!("pattern {idx}: {message}"));
                    args.help(PATTERN_HELP);
                }
            }
        }
        args.complete()?;
        self.program = program(&patterns);
        self.tests = Tests::new(&self.program).0;
        for warning in self.program.unused_outputs(context.outputs) {
            args.warn_at("", &warning);
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        self.outputs.clear();
        let output = |data| self.tests.run(&[data, &[], &[], &[]]);
        self.outputs.extend(batch.iter().map(|packet| output(packet.data())));
        cx.emit_each(batch, &self.outputs);
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::read("program").expensive().as_is()] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.program.text())
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    use super::super::run::DROP;
    use super::*;

    fn output(patterns: &[&str], data: &[u8]) -> Option<u32> {
        let patterns: Vec<Expr> = patterns.iter().map(|text| pattern(text).unwrap()).collect();
        let tests = Tests::new(&program(&patterns)).0;
        Some(tests.run(&[data, &[], &[], &[]])).filter(|&output| output != DROP)
    }

    #[test]
    fn the_first_pattern_that_matches_decides() {
        let arp = ["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"];
        let mut frame = [0; 60];
        let mut check = |kind: u16, operation: u16, expected| {
            frame[12..14].copy_from_slice(&kind.to_be_bytes());
            frame[20..22].copy_from_slice(&operation.to_be_bytes());
            assert_eq!(output(&arp, &frame), Some(expected), "{kind:x} {operation}");
        };
        check(0x806, 1, 0);
        check(0x806, 2, 1);
        check(0x806, 3, 3);
        check(0x800, 1, 2);
        check(0x86dd, 0, 3);
        assert_eq!(output(&arp, &frame[..13]), Some(3));
    }

    #[test]
    fn digits_masks_and_negation_select() {
        let check = |text: &str, data: &[u8], expected: bool| {
            assert_eq!(output(&[text], data).is_some(), expected, "{text} {data:x?}");
        };
        check("0/1?", &[0x15], true);
        check("0/?1", &[0x15], false);
        check("1/12345678", &[0, 0x12, 0x34, 0x56, 0x78], true);
        check("1/12345678", &[0, 0x12, 0x34, 0x56], false);
        check("3/abCD%0f?0", &[0, 0, 0, 0x3b, 0x44], true);
        check("3/abCD%0fF0", &[0, 0, 0, 0x3b, 0x44], false);
        check("!0/12 1/34", &[0x13, 0x34], true);
        check("!0/12 1/34", &[0x12, 0x34], false);
        check("! 4/00", &[1, 2, 3], true);
        check("4/00", &[1, 2, 3], false);
        check("65534/0000", &[0; 65535], false);
        check("65534/0000", &[0; 65536], true);
    }

    #[test]
    fn the_program_is_told() {
        let config = "i :: Idle -> c :: Classifier(1/01, -) -> i; c [1] -> i;";
        let (mut router, _) = run(config, &crate::registry());
        let expected = " 0   0/00010000%00ff0000  yes->[0]  no->[1]\n\
                        safe length 2\nalignment offset 0\n";
        assert_eq!(router.read("c.program"), Ok(expected.into()));
    }

    #[test]
    fn errors_and_warnings_are_told() {
        let check = |patterns: &str, outputs: usize, expected: &str| {
            let outputs: Vec<String> = (0..outputs).map(|n| format!("c [{n}] -> Idle;")).collect();
            let config = format!("Idle -> c :: Classifier({patterns}); {}", outputs.concat());
            let said = match router(&config, &crate::registry()) {
                Err(errors) => errors.to_click(),
                Ok((_, transcript)) => transcript.said(),
            };
            assert!(said.contains(expected), "{patterns}: {said}");
        };
        check("12/0800, -", 1, "need 1 arguments, one per output port");
        check("x", 1, "pattern 0: expected a digit");
        check("12-08", 1, "pattern 0: expected '/'");
        check("-, 12/080", 2, "pattern 1: value has odd number of hex digits");
        check("12/", 1, "pattern 0: value has less than 2 hex digits");
        check("12/0800%ff", 1, "pattern 0: mask has too few hex digits");
        check("12/08%ffff", 1, "pattern 0: mask has too many hex digits");
        check("99999999999999999999/00", 1, "pattern 0: offset out of range");
        check("-, 12/0800", 2, "warning: output 1 matches no packets");
    }

    #[test]
    fn packets_that_match_nothing_are_dropped_and_counted() {
        let config = "InfiniteSource(DATA abcd, LIMIT 5, BURST 2)
            -> c :: Classifier(0/61 1/63) -> Discard;
            InfiniteSource(DATA abcd, LIMIT 5, BURST 2)
            -> d :: Classifier(0/61 1/63, 0/61 1/62) -> Discard; d [1] -> e :: Discard;";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("c.drops_by_reason"), Ok("5\tno_match\n".into()));
        assert_eq!(router.read("e.count"), Ok("5".into()));
    }
}
