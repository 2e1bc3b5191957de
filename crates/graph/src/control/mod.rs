//! Control connections: others read and write the handlers of a running configuration.
//!
//! ```text
//! socket ─bytes─► Connection ─► Controlled (a Router) ─► Connection ─bytes─► socket
//! ```
//! This crate opens no socket. An element asks for an [`Endpoint`] by [`crate::Console::listen`];
//! what runs the configuration listens there and hands the bytes of each client to a
//! [`Connection`], which speaks the protocol.

mod connection;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

pub use connection::{Connection, DATA_BYTES_MAX, LINE_BYTES_MAX, OUTPUT_BYTES_MAX};

use crate::handler::{HandlerError, HandlerSpec};
use crate::router::Router;

/// Where control connections are awaited, and what they may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The place.
    pub address: Address,
    /// Whether handlers may only be read.
    pub is_read_only: bool,
    /// Whether coming and going is told.
    pub is_verbose: bool,
    /// Who asks, as messages name it: `name :: Class`.
    pub owner: String,
}

/// A place to await connections at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP port.
    Tcp {
        /// Its number.
        port: u16,
        /// Whether one of the next ports will do if it is taken.
        or_above: bool,
        /// The address of this machine that is connected to; unspecified for any.
        host: IpAddr,
    },
    /// A socket in the file system.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { port, or_above, .. } => {
                write!(f, "{port}{}", if *or_above { "+" } else { "" })
            }
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// What can be controlled.
pub trait Controlled {
    /// What there is to know of the handler `name`: `element.handler`, or one of the whole.
    ///
    /// # Errors
    /// If there is no such handler.
    fn handler(&mut self, name: &str) -> Result<HandlerSpec, HandlerError>;

    /// Reads it.
    ///
    /// # Errors
    /// Why there is no answer.
    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError>;

    /// Writes it.
    ///
    /// # Errors
    /// Why it did not obey.
    fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError>;
}

impl Controlled for Router {
    fn handler(&mut self, name: &str) -> Result<HandlerSpec, HandlerError> {
        Router::handler(self, name)
    }

    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        self.read_with(name, param)
    }

    fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError> {
        Router::write(self, name, value)
    }
}

#[cfg(test)]
mod tests;
