//! Names of services and protocols that the machine's files define.
//!
//! `/etc/services` has lines `NAME PORT/PROTOCOL ALIAS... # comment`, `/etc/protocols` has lines
//! `NAME NUMBER ALIAS... # comment`. Unreadable files and lines count as empty: an unknown name is
//! reported where it is used.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

use crate::names::{TCP, UDP};

/// The most bytes that are read of a file. IANA's whole registry has 1 MiB.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The names of one machine.
#[derive(Debug, Default)]
pub(crate) struct SystemNames {
    tcp_ports: BTreeMap<String, u16>,
    udp_ports: BTreeMap<String, u16>,
    protocols: BTreeMap<String, u8>,
}

impl SystemNames {
    /// The names of this machine, read on the first call.
    pub(crate) fn get() -> &'static Self {
        static NAMES: OnceLock<SystemNames> = OnceLock::new();
        NAMES.get_or_init(|| Self::parse(&read("/etc/services"), &read("/etc/protocols")))
    }

    fn parse(services: &str, protocols: &str) -> Self {
        let mut names = Self::default();
        for (number, words) in services.lines().filter_map(entry) {
            let Some((port, protocol)) = number.split_once('/') else { continue };
            let Ok(port) = port.parse() else { continue };
            match protocol {
                "tcp" => define(&mut names.tcp_ports, words, port),
                "udp" => define(&mut names.udp_ports, words, port),
                _ => {}
            }
        }
        for (number, words) in protocols.lines().filter_map(entry) {
            let Ok(number) = number.parse() else { continue };
            define(&mut names.protocols, words, number);
        }
        names
    }

    /// The port called `name` of `protocol`, which is TCP or UDP.
    pub(crate) fn port(&self, protocol: u8, name: &str) -> Option<u16> {
        match protocol {
            TCP => self.tcp_ports.get(name).copied(),
            UDP => self.udp_ports.get(name).copied(),
            _ => None,
        }
    }

    /// The protocol over IP called `name`.
    pub(crate) fn protocol(&self, name: &str) -> Option<u8> {
        self.protocols.get(name).copied()
    }
}

fn read(path: &str) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path)
        && file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).is_ok()
    {
        return String::from_utf8_lossy(&bytes).into_owned();
    }
    String::new()
}

/// The number of a line, and its names.
fn entry(line: &str) -> Option<(&str, impl Iterator<Item = &str>)> {
    let text = line.split('#').next()?;
    let mut words = text.split_ascii_whitespace();
    let (name, number) = (words.next()?, words.next()?);
    Some((number, std::iter::once(name).chain(words)))
}

/// Gives `number` to names that have none yet: the first line counts, as for the C library.
fn define<'n, N: Copy>(
    table: &mut BTreeMap<String, N>,
    names: impl Iterator<Item = &'n str>,
    number: N,
) {
    for name in names {
        table.entry(name.to_owned()).or_insert(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_aliases_and_comments() {
        let services = "# Services\nhttp\t80/tcp\twww web # Web\nntp 123/udp\nx 1/sctp\n\
            http 8080/tcp\nbroken\nlarge 70000/tcp\nboth 7/tcp\nboth 8/udp";
        let protocols = "ospf 89 OSPFIGP # Routing\n# 99 none\nlarge 256\nst\t5";
        let names = SystemNames::parse(services, protocols);
        assert_eq!(names.port(TCP, "http"), Some(80));
        assert_eq!(names.port(TCP, "web"), Some(80));
        assert_eq!(names.port(UDP, "http"), None);
        assert_eq!(names.port(UDP, "ntp"), Some(123));
        assert_eq!((names.port(TCP, "both"), names.port(UDP, "both")), (Some(7), Some(8)));
        for unknown in ["x", "broken", "large", "#", "Web", ""] {
            assert_eq!(names.port(TCP, unknown), None, "{unknown}");
        }
        assert_eq!(names.protocol("ospf"), Some(89));
        assert_eq!(names.protocol("OSPFIGP"), Some(89));
        assert_eq!(names.protocol("st"), Some(5));
        assert_eq!((names.protocol("large"), names.protocol("none")), (None, None));
    }

    #[test]
    fn missing_files_define_nothing() {
        assert_eq!(read("/no/such/file"), "");
        assert!(SystemNames::parse("", "").protocols.is_empty());
    }
}
