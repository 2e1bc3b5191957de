//! `warpswitch generate routes`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use warpswitch_routes::RouteTable;
use warpswitch_rules::generate::Family;

use crate::args::{parse_count, parse_seed};
use crate::exit::{Outcome, bad_input};
use crate::output::{Hold, Output};
use crate::routes::{self, made_up};
use crate::term::Progress;

/// More than any table of the Internet will hold for long.
const ROUTES_MAX: usize = 10_000_000;

const LONG_ABOUT: &str = "\
Generate a route table, with the prefix lengths of the Internet's table and dense neighbourhoods, \
as a list: one prefix and next-hop number per line.

The Internet's table had 901,899 IPv4 and 160,147 IPv6 prefixes in October 2025.";

const EXAMPLES: &str = "\
Examples:
  warpswitch generate routes --count 10K --out ipv4.routes
  warpswitch generate routes --family ipv6 --count 10K --hops 60K";

/// Generate a table of routes
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct GenerateRoutesArgs {
    /// Address family of the routes
    #[arg(long, value_name = "FAMILY", default_value = "ipv4", value_parser = family_parser())]
    family: Family,

    /// Number of routes (suffix K or M)
    #[arg(long, value_name = "N", default_value = "100K", value_parser = parse_count)]
    count: usize,

    /// Number of next hops (suffix K)
    #[arg(long, value_name = "N", default_value = "250", value_parser = parse_hops)]
    hops: u64,

    /// Seed of the random generator
    #[arg(long, value_name = "SEED", default_value = "1", value_parser = parse_seed)]
    seed: u64,

    /// Output file; '-' is the standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

/// A number of next hops.
pub fn parse_hops(text: &str) -> Result<u64, String> {
    match parse_count(text)? as u64 {
        0 => Err("expected at least 1".to_owned()),
        hops if hops < u64::from(u16::MAX) => Ok(hops),
        _ => Err("at most 65534".to_owned()),
    }
}

/// Runs the command.
///
/// # Errors
/// More routes than a table is made for, output that cannot be written.
pub fn run(args: &GenerateRoutesArgs) -> anyhow::Result<Outcome> {
    if !(1..=ROUTES_MAX).contains(&args.count) {
        let most = ROUTES_MAX / 1_000_000;
        return Err(bad_input(format!(
            "invalid --count {}; expected 1 to {most}M routes",
            args.count
        )));
    }
    let mut output = Output::open(&args.out, Hold::Yes)?;
    let progress = Progress::spinner("generating routes");
    let written = match args.family {
        Family::Ipv4 => write(&made_up::<u32>(args.count, args.hops, args.seed), &mut output),
        Family::Ipv6 => write(&made_up::<u128>(args.count, args.hops, args.seed), &mut output),
    };
    written.context("cannot write the output")?;
    drop(progress);
    output.commit()?;
    Ok(Outcome::Done)
}

fn write<A: routes::Family>(table: &RouteTable<A>, out: &mut impl Write) -> std::io::Result<()> {
    table.iter().try_for_each(|(prefix, hop)| writeln!(out, "{prefix} {hop}"))
}

fn family_parser() -> impl TypedValueParser<Value = Family> {
    PossibleValuesParser::new(Family::ALL.map(Family::name)).try_map(|name| name.parse::<Family>())
}
