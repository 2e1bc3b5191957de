//! Addresses of control connections in command lines: `[HOST:]PORT` or a path.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use warpswitch_graph::control::{Address, Endpoint};

use crate::control_server::RunSockets;
use crate::environment::Environment;
use crate::error::{Error, ErrorKind};

/// The longest socket path that every system accepts.
const PATH_BYTES_MAX: usize = 107;

/// The address of a control connection.
///
/// ```
/// use warpswitch_runtime::ControlAddress;
///
/// assert_eq!(ControlAddress::parse("7777"), Ok(ControlAddress::Tcp(None, 7777)));
/// assert!(matches!(ControlAddress::parse("./router.sock"), Ok(ControlAddress::Unix(_))));
/// assert!(ControlAddress::parse("localhost:70000").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlAddress {
    /// A TCP port of a host, by default of the loopback address.
    Tcp(Option<String>, u16),
    /// A Unix socket in the file system.
    Unix(PathBuf),
}

impl ControlAddress {
    /// Parses an address: a number, alone or after a colon, is a port, everything else a path.
    ///
    /// # Errors
    /// A message for the command line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let port = |digits: &str| -> Result<u16, String> {
            digits.parse().map_err(|_| format!("{digits} is not a TCP port"))
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
            _ => Err(format!("a socket path has at most {PATH_BYTES_MAX} bytes")),
        }
    }

    /// Resolves a TCP address. The system orders the results by preference.
    ///
    /// # Errors
    /// [`ErrorKind::Address`] if the host is unknown.
    pub fn resolve(host: Option<&str>, port: u16) -> Result<Vec<SocketAddr>, Error> {
        let Some(host) = host else {
            return Ok(vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)]);
        };
        let unknown =
            |why: String| Error::new(ErrorKind::Address, format!("unknown host '{host}'{why}"));
        let found = (host, port).to_socket_addrs();
        let found: Vec<_> = found.map_err(|error| unknown(format!(": {error}")))?.collect();
        if found.is_empty() { Err(unknown(String::new())) } else { Ok(found) }
    }

    /// Listens for control connections. Returns the address with the port that the system chose for
    /// port 0.
    ///
    /// # Errors
    /// [`ErrorKind::Address`] if the host is unknown; [`ErrorKind::System`] if the address is in
    /// use or not permitted.
    pub fn listen(&self, environment: &Environment) -> Result<ControlAddress, Error> {
        self.open(&mut environment.sockets.borrow_mut())
    }

    fn open(&self, sockets: &mut RunSockets) -> Result<ControlAddress, Error> {
        let address = match self {
            ControlAddress::Tcp(host, port) => {
                let host = Self::resolve(host.as_deref(), *port)?[0].ip();
                Address::Tcp { port: *port, or_above: false, host }
            }
            ControlAddress::Unix(path) => Address::Unix(path.clone()),
        };
        let owner = "--control".to_owned();
        let endpoint = Endpoint { address, is_read_only: false, is_verbose: false, owner };
        let opened = sockets.listen_throughout(&endpoint).map_err(|why| {
            let message = format!("cannot listen for control connections at {self}");
            Error::caused(ErrorKind::System, message, why)
        })?;
        Ok(match self {
            ControlAddress::Tcp(host, _) => {
                ControlAddress::Tcp(host.clone(), opened.parse().unwrap_or_default())
            }
            ControlAddress::Unix(path) => ControlAddress::Unix(path.clone()),
        })
    }
}

impl fmt::Display for ControlAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlAddress::Tcp(None, port) => write!(f, "{port}"),
            ControlAddress::Tcp(Some(host), port) if host.contains(':') => {
                write!(f, "[{host}]:{port}")
            }
            ControlAddress::Tcp(Some(host), port) => write!(f, "{host}:{port}"),
            ControlAddress::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_prints_addresses() {
        let tcp = |host: &str, port| ControlAddress::Tcp(Some(host.to_owned()), port);
        let cases = [
            ("7777", ControlAddress::Tcp(None, 7777)),
            ("localhost:80", tcp("localhost", 80)),
            ("0.0.0.0:80", tcp("0.0.0.0", 80)),
            ("[::1]:80", tcp("::1", 80)),
            ("router.sock", ControlAddress::Unix("router.sock".into())),
            ("./7777", ControlAddress::Unix("./7777".into())),
            ("/a:1", ControlAddress::Unix("/a:1".into())),
        ];
        for (text, address) in cases {
            assert_eq!(ControlAddress::parse(text), Ok(address.clone()), "{text}");
            assert_eq!(address.to_string(), text);
        }
        assert_eq!(ControlAddress::parse("70000"), Err("70000 is not a TCP port".into()));
        assert_eq!(ControlAddress::parse("a:70000"), Err("70000 is not a TCP port".into()));
        assert!(
            ControlAddress::parse("").is_err() && ControlAddress::parse(&"a".repeat(200)).is_err()
        );
    }

    #[test]
    fn replaces_stale_sockets_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let address = ControlAddress::Unix(path.clone());
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let failure = |address: &ControlAddress| {
            let error = address.open(&mut RunSockets::default()).unwrap_err();
            format!("{error:#}")
        };
        assert!(failure(&address).contains("in use"), "{}", failure(&address));
        drop(listener);
        address.open(&mut RunSockets::default()).unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "kept").unwrap();
        assert!(failure(&ControlAddress::Unix(file.clone())).contains("in use"));
        assert_eq!(std::fs::read_to_string(file).unwrap(), "kept");
    }
}
