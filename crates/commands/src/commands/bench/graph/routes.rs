//! Tables of routes: read, or made up with the shape of the Internet's.

use std::fmt::Write as _;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use warpswitch_rules::generate::Prng;

use crate::exit::bad_input;
use crate::{load, routes};

/// Gateways.
const HOPS: u64 = 250;

/// Prefixes in order of their addresses, shorter ones first, each with a hop.
#[derive(Debug)]
pub struct Table {
    routes: Vec<(u32, u8, u16)>,
}

impl Table {
    /// A table of such prefixes; hops are drawn.
    fn new(mut prefixes: Vec<(u32, u8)>) -> Self {
        prefixes.sort_unstable();
        prefixes.dedup();
        let mut draw = Prng::new(1);
        let hop = |(network, len)| (network, len, draw.below(HOPS) as u16);
        Self { routes: prefixes.into_iter().map(hop).collect() }
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// An address inside a prefix, both drawn.
    pub fn address(&self, draw: &mut Prng) -> u32 {
        let (network, len, _) = self.routes[draw.index(self.routes.len())];
        network | (draw.next_u64() as u32 & !mask(len))
    }

    /// The hop of the longest prefix that `address` lies in, by search.
    pub fn hop(&self, address: u32) -> Option<usize> {
        (0..=32u8).rev().find_map(|len| {
            let sought = (address & mask(len), len);
            let found = self.routes.binary_search_by_key(&sought, |&(net, len, _)| (net, len));
            found.ok().map(|at| self.routes[at].2.into())
        })
    }

    /// Writes them as arguments of a lookup: hop `n` is a gateway behind output `n` modulo
    /// `outputs`.
    pub fn write(&self, outputs: usize, text: &mut String) {
        for &(network, len, hop) in &self.routes {
            let separator = if text.ends_with('(') || text.ends_with("(\n") { "" } else { ",\n" };
            let (network, gateway) =
                (Ipv4Addr::from(network), Ipv4Addr::from(0x0aff_0000 + hop as u32));
            let output = usize::from(hop) % outputs;
            let _ = write!(text, "{separator}{network}/{len} {gateway} {output}");
        }
    }
}

fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

/// The IPv4 prefixes of a file `*prefixes.txt` or `*prefixes.txt.gz` below `folder`.
///
/// # Errors
/// If there is no such file, or no prefix in it.
pub fn read(folder: &Path) -> anyhow::Result<Table> {
    let is_table = |name: &str| name.ends_with("prefixes.txt") || name.ends_with("prefixes.txt.gz");
    let path = find(folder, is_table).ok_or_else(|| {
        bad_input(format!("no file *prefixes.txt or *prefixes.txt.gz in {}", folder.display()))
    })?;
    let mut text = String::new();
    load::open(&path, "prefixes")?
        .read_to_string(&mut text)
        .with_context(|| path.display().to_string())?;
    let prefix = |line: &str| {
        let (network, len) = line.trim().split_once('/')?;
        let len: u8 = len.parse().ok().filter(|&len| len <= 32)?;
        Some((u32::from(network.parse::<Ipv4Addr>().ok()?), len))
    };
    let table = Table::new(text.lines().filter_map(prefix).collect());
    if table.len() == 0 {
        return Err(bad_input(format!("no IPv4 prefix in {}", path.display())));
    }
    Ok(table)
}

/// A file of `folder`, or of a folder in it, whose name is wanted.
pub fn find(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        paths.sort();
        paths
    };
    let top = list(folder);
    let below = top.iter().filter(|path| path.is_dir()).flat_map(|path| list(path));
    let mut all = top.iter().cloned().chain(below);
    all.find(|path| is_wanted(&path.file_name().unwrap_or_default().to_string_lossy()))
}

/// `count` routes of lengths as in the Internet's table.
pub fn made_up(count: usize) -> Table {
    let table = routes::made_up::<u32>(count, HOPS, 3);
    Table::new(table.iter().map(|(prefix, _)| (prefix.addr(), prefix.len())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_decides() {
        let prefixes = [(0x0a00_0000, 8), (0x0a01_0000, 16), (0, 0), (0x0a01_0203, 32)];
        let table = Table::new(prefixes.to_vec());
        let hop_of = |network, len| {
            let route = table.routes.iter().find(|route| (route.0, route.1) == (network, len));
            route.map(|route| usize::from(route.2))
        };
        assert_eq!(table.hop(0x0a01_0203), hop_of(0x0a01_0203, 32));
        assert_eq!(table.hop(0x0a01_0204), hop_of(0x0a01_0000, 16));
        assert_eq!(table.hop(0x0aff_0000), hop_of(0x0a00_0000, 8));
        assert_eq!(table.hop(0x0b00_0000), hop_of(0, 0));
        let mut text = String::from("(");
        table.write(4, &mut text);
        assert_eq!(text.lines().count(), 4);
        assert!(text.starts_with("(0.0.0.0/0 10.255.0."), "{text}");
    }

    #[test]
    fn made_up_tables_have_a_hop_for_each_address() {
        let table = made_up(1000);
        assert_eq!(table.len(), 1000);
        let long = table.routes.iter().filter(|route| route.1 == 24).count();
        assert!((500..700).contains(&long), "{long}");
        let mut draw = Prng::new(1);
        assert!((0..100).all(|_| table.hop(table.address(&mut draw)).is_some()));
    }
}
