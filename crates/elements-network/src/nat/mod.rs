//! Elements that rewrite addresses and ports per flow.
//!
//! | file | contents |
//! | --- | --- |
//! | `ip_rewriter`, `address_rewriter`, `ping_rewriter` | rewriter classes and their documentation |
//! | `rewriter`, `handlers`, `takeover` | code shared by all rewriters |
//! | `input`, `pattern`, `patterns`, `mapper` | creation of flows |
//! | `set`, `flow`, `heap`, `used`, `keyed` | flow table: lookup, expiry, eviction |
//! | `apply`, `seq` | packet access and rewriting |
//! | `icmp_rewriter`, `ftp_port_mapper` | ICMP errors about flows, addresses in FTP payload |

mod address_rewriter;
mod apply;
mod flow;
mod ftp_port_mapper;
mod handlers;
mod heap;
mod icmp_rewriter;
mod input;
mod ip_rewriter;
mod keyed;
mod mapper;
mod pattern;
mod patterns;
mod ping_rewriter;
mod rewriter;
mod seq;
mod set;
mod takeover;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod used;

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[
    &ip_rewriter::CLASS,
    &ip_rewriter::TCP,
    &ip_rewriter::UDP,
    &address_rewriter::CLASS,
    &address_rewriter::PAIR,
    &ping_rewriter::CLASS,
    &icmp_rewriter::CLASS,
    &ftp_port_mapper::CLASS,
    &patterns::CLASS,
    &mapper::CLASS,
    &mapper::HASH,
];
