//! Rewrites IPv4 addresses per flow, for all protocols.
//!
//! # Synopsis
//! `IPAddrRewriter(INPUTSPEC, …, TIMEOUT, GUARANTEE, MAPPING_CAPACITY, …)`,
//! `IPAddrPairRewriter(INPUTSPEC, …)`
//!
//! # Ports
//! One input per input spec, any number of outputs; all push. Requires the network header
//! annotation.
//!
//! # Configuration
//! Input specs are those of `IPRewriter`, with patterns `SADDR DADDR FOUTPUT ROUTPUT`. `SADDR` may
//! be a range `L-H` or a prefix: a random free address is chosen, or, with a `#` suffix, the next
//! free one. A prefix shorter than 31 bits excludes its network and broadcast addresses.
//!
//! `IPAddrRewriter` maps by source address: a source gets one new address for all its packets, and
//! packets to that address are sent back to the source. `DADDR` must be `-`. `IPAddrPairRewriter`
//! maps by source and destination address: a source may get a different address per destination.
//! - `TIMEOUT`: idle timeout of flows; default: 2 hours
//! - `GUARANTEE`: time after its last packet during which a flow cannot be evicted; default: 5
//!   seconds
//! - `REAP_INTERVAL`, `REAP_TIME`, `MAPPING_CAPACITY`, `CAPACITY`, `REPLY_ANNO`: as for
//!   `IPRewriter`
//!
//! TCP and UDP checksums are updated too, in first fragments.
//!
//! # Handlers
//! Those of `IPRewriter`, with `table` and `mappings` for the flows, and without `lookup`.
//!
//! # Drops
//! Those of `IPRewriter`, except those for protocols, fragments and short headers: fragments and
//! packets of all protocols are rewritten.
//!
//! # Threads
//! Runs on one worker, the same for all rewriters that share its capacity.
//!
//! # Example
//! ```text
//! rw :: IPAddrRewriter(pattern 192.0.2.0/26 - 0 1, drop);
//! ```

use warpswitch_graph::ElementClass;

use super::rewriter::{REASONS, Rewriter};
use super::set::Kind;

/// The class `IPAddrRewriter`.
pub static CLASS: ElementClass =
    ElementClass::new("IPAddrRewriter", "1-/1-", "h/h", || Box::new(Rewriter::new(Kind::Address)))
        .drops(REASONS);
/// The class `IPAddrPairRewriter`.
pub static PAIR: ElementClass = ElementClass::new("IPAddrPairRewriter", "1-/1-", "h/h", || {
    Box::new(Rewriter::new(Kind::AddressPair))
})
.drops(REASONS);
