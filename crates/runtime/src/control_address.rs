//! Places of control connections, as command lines name them: `[HOST:]PORT` or a path.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use warpswitch_graph::control::{Address, Endpoint};

use super::console::World;
use super::sockets::Sockets;
use crate::exit::bad_input;

/// The most bytes of a path of a socket that systems take.
const PATH_BYTES_MAX: usize = 107;

/// A place of control connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A TCP port of a host, by default of this machine for itself.
    Tcp(Option<String>, u16),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Place {
    /// Reads a place: what ends with a number alone, or behind a colon, is a port.
    ///
    /// # Errors
    /// What is wrong with it, for a command line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let port = |digits: &str| -> Result<u16, String> {
            digits.parse().map_err(|_| format!("{digits} is no TCP port"))
        };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match text.rsplit_once(':') {
            _ if is_number(text) => return Ok(Self::Tcp(None, port(text)?)),
            Some((host, digits)) if is_number(digits) && !text.contains('/') => {
                let plain = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
                return Ok(Self::Tcp(Some(plain.unwrap_or(host).to_owned()), port(digits)?));
            }
            _ => {}
        }
        match text.len() {
            0 => Err("expected [HOST:]PORT or a path".to_owned()),
            1..=PATH_BYTES_MAX => Ok(Self::Unix(text.into())),
            _ => Err(format!("a path of a socket has at most {PATH_BYTES_MAX} bytes")),
        }
    }

    /// Addresses of a TCP place, the likeliest first.
    ///
    /// # Errors
    /// Bad input if there is no such host.
    pub fn resolve(host: Option<&str>, port: u16) -> anyhow::Result<Vec<SocketAddr>> {
        let Some(host) = host else {
            return Ok(vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)]);
        };
        let found = (host, port).to_socket_addrs();
        let found: Vec<_> =
            found.map_err(|error| bad_input(format!("no host '{host}': {error}")))?.collect();
        match found.is_empty() {
            true => Err(bad_input(format!("no host '{host}'"))),
            false => Ok(found),
        }
    }

    /// Awaits control connections here. The place, with the port that was found for port 0.
    ///
    /// # Errors
    /// Why that cannot be, and what to do about it.
    pub fn listen(&self, world: &World) -> anyhow::Result<Place> {
        self.open(&mut world.sockets.borrow_mut())
    }

    fn open(&self, sockets: &mut Sockets) -> anyhow::Result<Place> {
        let address = match self {
            Place::Tcp(host, port) => {
                let host = Self::resolve(host.as_deref(), *port)?[0].ip();
                Address::Tcp { port: *port, or_above: false, host }
            }
            Place::Unix(path) => Address::Unix(path.clone()),
        };
        let owner = "--control".to_owned();
        let endpoint = Endpoint { address, is_read_only: false, is_verbose: false, owner };
        let place = sockets.listen(&endpoint).map_err(|why| anyhow!("{why}"));
        let place = place.with_context(|| format!("cannot await control connections at {self}"))?;
        Ok(match self {
            Place::Tcp(host, _) => Place::Tcp(host.clone(), place.parse().unwrap_or_default()),
            Place::Unix(path) => Place::Unix(path.clone()),
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp(None, port) => write!(f, "{port}"),
            Place::Tcp(Some(host), port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Place::Tcp(Some(host), port) => write!(f, "{host}:{port}"),
            Place::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_written() {
        let tcp = |host: &str, port| Place::Tcp(Some(host.to_owned()), port);
        let cases = [
            ("7777", Place::Tcp(None, 7777)),
            ("localhost:80", tcp("localhost", 80)),
            ("0.0.0.0:80", tcp("0.0.0.0", 80)),
            ("[::1]:80", tcp("::1", 80)),
            ("router.sock", Place::Unix("router.sock".into())),
            ("./7777", Place::Unix("./7777".into())),
            ("/a:1", Place::Unix("/a:1".into())),
        ];
        for (text, place) in cases {
            assert_eq!(Place::parse(text), Ok(place.clone()), "{text}");
            assert_eq!(place.to_string(), text);
        }
        assert_eq!(Place::parse("70000"), Err("70000 is no TCP port".into()));
        assert_eq!(Place::parse("a:70000"), Err("70000 is no TCP port".into()));
        assert!(Place::parse("").is_err() && Place::parse(&"a".repeat(200)).is_err());
    }

    #[test]
    fn what_a_killed_run_left_is_taken_over_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let place = Place::Unix(path.clone());
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let told = |place: &Place| {
            let error = place.open(&mut Sockets::default()).unwrap_err();
            format!("{error:#}")
        };
        assert!(told(&place).contains("in use"), "{}", told(&place));
        drop(listener);
        place.open(&mut Sockets::default()).unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "kept").unwrap();
        assert!(told(&Place::Unix(file.clone())).contains("in use"));
        assert_eq!(std::fs::read_to_string(file).unwrap(), "kept");
    }
}
