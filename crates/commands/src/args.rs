//! Options that several commands share.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use warpswitch_classify::{BuildOptions, Engine};
use warpswitch_rules::format::{ReadOptions, RulesFormat, TraceFormat};
use warpswitch_rules::schema::{SCHEMAS, Schema};

/// Where rules come from and how they are read.
#[derive(Args, Clone, Debug)]
pub struct RulesArgs {
    /// Rule file, gzip'd or not; '-' is the standard input
    #[arg(long, value_name = "FILE")]
    pub rules: PathBuf,

    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// The rule file of the commands that look at nothing else.
#[derive(Args, Clone, Debug)]
pub struct RuleFileArgs {
    /// Rule file, gzip'd or not; '-' is the standard input [default: -]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Same as FILE, as in the other commands
    #[arg(long, value_name = "FILE", conflicts_with = "file", hide = true)]
    rules: Option<PathBuf>,

    #[command(flatten)]
    reading: ReadingArgs,
}

impl RuleFileArgs {
    /// The same in the form of the other commands.
    pub fn to_rules_args(&self) -> RulesArgs {
        let rules = self.file.clone().or_else(|| self.rules.clone());
        RulesArgs { rules: rules.unwrap_or_else(|| "-".into()), reading: self.reading.clone() }
    }
}

/// How rules are read.
#[derive(Args, Clone, Debug, Default)]
pub struct ReadingArgs {
    /// Format of the rules [default: recognised by content]
    #[arg(long, value_name = "FORMAT", value_parser = rules_format_parser())]
    pub rules_format: Option<RulesFormat>,

    /// Header fields of the key [default: the smallest that holds the rules]
    #[arg(long, value_name = "SCHEMA", value_parser = schema_parser())]
    pub schema: Option<&'static Schema>,

    /// Also match ClassBench's flags column, which is otherwise kept but not matched
    #[arg(long)]
    pub tcp_flags: bool,
}

impl ReadingArgs {
    /// The same for the reader.
    pub fn to_options(&self) -> ReadOptions {
        ReadOptions { format: self.rules_format, schema: self.schema, tcp_flags: self.tcp_flags }
    }
}

/// Bounds and seed of an engine's structure.
#[derive(Args, Clone, Debug)]
pub struct BuildArgs {
    /// Refuse to build a structure larger than this (suffix K, M or G)
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "4G")]
    pub memory_max: usize,

    /// Seed of the keyed hashes, to repeat a run exactly [default: random]
    #[arg(long, value_name = "SEED", value_parser = parse_seed)]
    pub hash_seed: Option<u64>,
}

impl BuildArgs {
    /// The same for the engines.
    pub fn to_options(&self) -> BuildOptions {
        let default = BuildOptions::default();
        BuildOptions {
            bytes_max: self.memory_max,
            hash_seed: self.hash_seed.unwrap_or(default.hash_seed),
        }
    }
}

/// The engine that commands use by default: the last of the list is the fastest.
pub fn default_engine() -> Engine {
    Engine::ALL[Engine::ALL.len() - 1]
}

/// Accepts the names of engines.
pub fn engine_parser() -> impl TypedValueParser<Value = Engine> {
    let names = Engine::ALL.map(Engine::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Engine>())
}

/// Accepts the names of rule formats.
pub fn rules_format_parser() -> impl TypedValueParser<Value = RulesFormat> {
    let names = RulesFormat::ALL.map(RulesFormat::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<RulesFormat>())
}

/// Accepts the names of trace formats.
pub fn trace_format_parser() -> impl TypedValueParser<Value = TraceFormat> {
    let names = TraceFormat::ALL.map(TraceFormat::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<TraceFormat>())
}

/// Accepts the names of schemas.
pub fn schema_parser() -> impl TypedValueParser<Value = &'static Schema> {
    PossibleValuesParser::new(SCHEMAS.map(|schema| schema.name))
        .try_map(|name| Schema::by_name(&name).ok_or("no such schema"))
}

/// A number of bytes with an optional suffix.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number: usize = digits.parse().map_err(|_| "expected a number, as 64M".to_owned())?;
    number.checked_shl(shift).filter(|n| n >> shift == number).ok_or("too large".to_owned())
}

/// A count with an optional suffix: K, M and G are thousands here.
pub fn parse_count(text: &str) -> Result<usize, String> {
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'K' | 'k')) => (&text[..at], 1000),
        Some((at, 'M' | 'm')) => (&text[..at], 1_000_000),
        Some((at, 'G' | 'g')) => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    let number: usize = digits.parse().map_err(|_| "expected a number, as 10K".to_owned())?;
    number.checked_mul(factor).ok_or("too large".to_owned())
}

/// A count that is at least one.
pub fn parse_positive(text: &str) -> Result<usize, String> {
    parse_at_least(1)(text)
}

/// Accepts counts from `min` up.
pub fn parse_at_least(
    min: usize,
) -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync + 'static {
    move |text| match parse_count(text)? {
        number if number < min => Err(format!("expected at least {min}")),
        number => Ok(number),
    }
}

/// Accepts whole numbers from `min` to `max`.
pub fn parse_range<T: TryFrom<u64>>(
    min: u64,
    max: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse::<u64>().ok().filter(|number| (min..=max).contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("expected a number from {min} to {max}"))
    }
}

/// A decimal or hexadecimal seed.
pub fn parse_seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "expected a number below 2^64, decimal or 0x".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_suffixes_and_refuse_what_does_not_fit() {
        assert_eq!(parse_bytes("64M"), Ok(64 << 20));
        assert_eq!(parse_count("10k"), Ok(10_000));
        assert_eq!(parse_count("7"), Ok(7));
        assert_eq!(parse_seed("0xff"), Ok(255));
        for text in ["", "K", "-1", "1.5M", "99999999999999999999", "é"] {
            assert!(parse_bytes(text).is_err() && parse_count(text).is_err(), "{text}");
        }
        assert!(parse_count("99999999999999G").is_err());
        assert!(parse_bytes("99999999999999G").is_err());
        assert!(parse_positive("0").is_err());
        assert_eq!(parse_at_least(2)("1"), Err("expected at least 2".to_owned()));
        assert_eq!(parse_at_least(2)("2"), Ok(2));
        let parse = parse_range::<u8>(1, 254);
        assert_eq!((parse("1"), parse("254")), (Ok(1), Ok(254)));
        for text in ["0", "255", "300", "-1", ""] {
            assert_eq!(parse(text), Err("expected a number from 1 to 254".to_owned()), "{text}");
        }
    }
}
