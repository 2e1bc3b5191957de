//! Serves handlers over TCP or a Unix-domain socket.
//!
//! # Synopsis
//! `ControlSocket(TYPE, PORT | FILENAME, READONLY, VERBOSE, LOCALHOST, RETRIES, RETRY_WARNINGS)`
//!
//! # Ports
//! None.
//!
//! # Configuration
//! - `TYPE`: `TCP` or `UNIX`
//! - `PORT`: with `TCP`, the port number; `N+` uses one of the next ports if `N` is in use
//! - `FILENAME`: with `UNIX`, the path of the socket
//! - `READONLY`: whether to reject writes; default: false
//! - `VERBOSE`: whether to report connections and disconnections; default: false
//! - `LOCALHOST`: with `TCP`, whether to listen on the loopback address only; default: false
//! - `RETRIES`: number of retries, one per second, if listening fails; default: 0
//! - `RETRY_WARNINGS`: whether to warn before each retry; default: true
//!
//! # Handlers
//! | name | | |
//! | --- | --- | --- |
//! | `port` | read | with `TCP`, the port |
//! | `filename` | read | with `UNIX`, the path |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker, which serves clients between its tasks.
//!
//! # Example
//! ```text
//! ControlSocket(TCP, 7777, LOCALHOST true);
//! InfiniteSource -> c :: Counter -> Discard;
//! ```

use std::net::Ipv4Addr;
use std::time::Duration;

use warpswitch_graph::control::{Address, Endpoint};
use warpswitch_graph::language::args::{Args, ArgsError, FromArg, NoNames, Word};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("ControlSocket", "0/0", "a/a", || Box::new(ControlSocket::new()));

/// The most bytes of a path of a socket that systems take.
const PATH_BYTES_MAX: usize = 107;
const TIMER: usize = 0;

/// See the module.
#[derive(Debug)]
pub struct ControlSocket {
    address: Address,
    is_read_only: bool,
    is_verbose: bool,
    retries: i32,
    warns: bool,
    /// Where it listens, once it does.
    place: Option<String>,
}

impl ControlSocket {
    fn new() -> Self {
        Self {
            address: Address::Unix(std::path::PathBuf::new()),
            is_read_only: false,
            is_verbose: false,
            retries: 0,
            warns: true,
            place: None,
        }
    }

    fn read_port(&mut self, args: &mut Args<'_>, is_local: bool) {
        let mut text = Word::default();
        args.read_mp("PORT", &mut text);
        let (number, or_above) = match text.0.strip_suffix('+') {
            Some(number) => (number, true),
            None => (text.0.as_str(), false),
        };
        match u16::from_arg(number, &NoNames) {
            Ok(port) if port > 0 || !or_above => {
                let host = if is_local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
                self.address = Address::Tcp { port, or_above, host: host.into() };
            }
            _ if text.0.is_empty() => {}
            _ => args.error_at("", "PORT requires TCP port"),
        }
    }

    fn listen(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let endpoint = Endpoint {
            address: self.address.clone(),
            is_read_only: self.is_read_only,
            is_verbose: self.is_verbose,
            owner: cx.declaration(),
        };
        match cx.console().listen(&endpoint) {
            Ok(place) => {
                self.place = Some(place);
                Ok(())
            }
            Err(error) if self.retries <= 0 => Err(error),
            Err(error) => {
                if self.warns {
                    let tries = if self.retries == 1 { "try" } else { "tries" };
                    let text = format!("warning: {error} ({} {tries} left)", self.retries);
                    cx.say(&format!("{}: {text}", cx.declaration()));
                }
                self.retries -= 1;
                cx.set_timer(TIMER, cx.now() + Duration::from_secs(1));
                Ok(())
            }
        }
    }
}

impl Element for ControlSocket {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut kind, mut is_local) = (String::new(), false);
        args.read_mp("TYPE", &mut kind)
            .read("READONLY", &mut self.is_read_only)
            .read("VERBOSE", &mut self.is_verbose)
            .read("RETRIES", &mut self.retries)
            .read("RETRY_WARNINGS", &mut self.warns)
            .read("LOCALHOST", &mut is_local);
        match kind.to_ascii_uppercase().as_str() {
            "TCP" => self.read_port(args, is_local),
            "UNIX" => {
                let mut path = String::new();
                args.read_mp("FILENAME", &mut path);
                if path.len() > PATH_BYTES_MAX {
                    args.error_at("", "filename too long");
                }
                self.address = Address::Unix(path.into());
            }
            "" => {}
            _ => args.error_at("", &format!("unknown socket type '{kind}'")),
        }
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.listen(cx)
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        if let Err(error) = self.listen(cx) {
            cx.say(&format!("{}: {error}", cx.declaration()));
            cx.stop_driver();
        }
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        match self.address {
            Address::Tcp { .. } => const { &[HandlerSpec::read("port")] },
            Address::Unix(_) => const { &[HandlerSpec::read("filename")] },
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.place.clone().unwrap_or_else(|| self.address.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::router;

    #[test]
    fn what_is_wrong_with_it_is_told() {
        let cases = [
            ("TCP, x", "While configuring", "PORT requires TCP port"),
            ("TCP", "While configuring", "PORT: required argument missing"),
            ("UDP, 1", "While configuring", "unknown socket type 'UDP'\n  too many arguments"),
            ("UNIX, a, b", "While configuring", "too many arguments"),
            ("tcp, 99+", "While initializing", "no control connections are served here"),
        ];
        for (args, doing, told) in cases {
            let errors = router(&format!("c :: ControlSocket({args})"), &crate::registry());
            let errors = errors.err().expect("it fails").to_click();
            assert_eq!(errors, format!("config:1: {doing} 'c :: ControlSocket':\n  {told}\n"));
        }
    }

    #[test]
    fn it_tries_again_as_often_as_it_may() {
        let config = "ControlSocket(TCP, 9, RETRIES 2)";
        let (_, transcript) = warpswitch_graph::simulate::run(config, &crate::registry());
        let socket = "ControlSocket@1 :: ControlSocket";
        let why = "no control connections are served here";
        assert_eq!(
            transcript.said(),
            format!(
                "{socket}: warning: {why} (2 tries left)\n\
                 {socket}: warning: {why} (1 try left)\n{socket}: {why}\n"
            )
        );
    }
}
