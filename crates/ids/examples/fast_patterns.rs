//! Writes the fast patterns of rules: what their scanners search for, to measure scanners on.
//!
//! ```text
//! fast_patterns RULES TCP MESSAGES
//! ```
//! `RULES` is a rule file, packed or not. `TCP` gets the patterns for payloads and streams
//! of TCP, `MESSAGES` those for parts of HTTP messages: a line `i HEX` (insensitive) or `- HEX`
//! for each, as the benchmark of scanners reads them.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Read;

use warpswitch_ids::{Engine, RuleText, Variables, read_rules};
use warpswitch_io::Unpacked;
use warpswitch_scan::{Case, Patterns};

fn main() -> Result<(), Box<dyn Error>> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let [rules, tcp, messages] = names.as_slice() else {
        return Err("usage: fast_patterns RULES TCP MESSAGES".into());
    };
    let mut bytes = Vec::new();
    Unpacked::open(rules)?.read_to_end(&mut bytes)?;
    let text = RuleText { name: rules, bytes: &bytes };
    let engine = Engine::build(read_rules(&[text], &Variables::default())?);
    std::fs::write(tcp, lines(engine.patterns()[0]))?;
    std::fs::write(messages, engine.message_patterns().map(lines).unwrap_or_default())?;
    Ok(())
}

fn lines(patterns: &Patterns) -> String {
    let mut lines = String::new();
    for (_, pattern) in patterns.iter() {
        let mark = if pattern.case == Case::Insensitive { 'i' } else { '-' };
        let hex = pattern.bytes.iter().fold(String::new(), |mut hex, byte| {
            _ = write!(hex, "{byte:02x}");
            hex
        });
        _ = writeln!(lines, "{mark} {hex}");
    }
    lines
}
