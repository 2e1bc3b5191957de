//! Elements that rewrite addresses and ports, flow by flow.
//!
//! | file | holds |
//! | --- | --- |
//! | `ip_rewriter`, `address_rewriter`, `ping_rewriter` | the rewriters' classes and what they promise |
//! | `rewriter`, `handlers`, `takeover` | what all of them do |
//! | `input`, `pattern`, `patterns`, `mapper` | what becomes of a new flow |
//! | `set`, `flow`, `heap`, `used`, `keyed` | flows: found, ended, evicted |
//! | `apply`, `seq` | packets: read and changed |
//! | `icmp_rewriter`, `ftp_port_mapper` | errors about flows, addresses in payload |

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
