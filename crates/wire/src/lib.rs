//! Packet headers: reading, checking and writing them, and one pass over a whole frame.
//!
//! Each protocol is one file with three levels:
//!
//! 1. a **view** such as [`Ipv4<T>`](ipv4::Ipv4) over bytes that somebody owns. An accessor reads
//!    (or sets) one field at its place; `new_unchecked` looks at nothing;
//! 2. a **checked view**: `new_checked` runs `check`, which looks at every length that an accessor
//!    of this header depends on, and names what is wrong as a [`ParseError`];
//! 3. a **representation** such as [`Ipv4Repr`](ipv4::Ipv4Repr): a plain struct of what the header
//!    says. `parse` makes it from a view, `emit` writes it into one.
//!
//! [`parse`](mod@parse) walks the headers of a frame once and keeps offsets; [`checksum`] sums.
//!
//! # Invariants
//! - W1: no accessor of a view panics once its check passed. A setter that changes a length field
//!   voids the check; run it again.
//! - W2: any byte string is accepted by [`parse::parse`]: it gives a [`parse::ParsedFrame`] or one
//!   named [`ParseError`], in time bounded by the constants of [`parse`](mod@parse).
//! - W3: `emit` then `parse` gives the same representation, within the documented field widths.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod arp;
pub mod checksum;
mod error;
pub mod ethernet;
pub mod fragment;
pub mod icmp;
pub mod icmpv6;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod ipv6_ext;
pub mod link;
pub mod link_watch;
pub mod llc;
pub mod mpls;
pub mod parse;
pub mod sctp;
pub mod segment;
pub mod tcp;
pub mod udp;
mod view;
pub mod vlan;
pub mod walk;

pub use error::ParseError;
