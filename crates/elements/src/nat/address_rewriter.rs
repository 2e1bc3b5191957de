//! Rewrites addresses of all protocols.
//!
//! # Synopsis
//! `IPAddrRewriter(INPUTSPEC, …, TIMEOUT, GUARANTEE, MAPPING_CAPACITY, …)`,
//! `IPAddrPairRewriter(INPUTSPEC, …)`
//!
//! # Ports
//! As many inputs as input specs, any number of outputs; all push. Packets need the network header
//! set.
//!
//! # Configuration
//! Input specs are those of `IPRewriter`, with patterns `SADDR DADDR FOUTPUT ROUTPUT`. `SADDR` may
//! be a range `L-H` or a prefix, of which an address is chosen at random, or the next free one if
//! `#` follows.
//!
//! `IPAddrRewriter` looks at the source: a source gets one new address for all that it sends, and
//! what comes to that address goes to the source. `DADDR` must be `-`. `IPAddrPairRewriter` looks
//! at source and destination: a source may get another address for another destination.
//! - `TIMEOUT`: how long flows are kept after their last packet; 2 hours
//! - `GUARANTEE`: how long after its last packet nothing evicts a flow; 5 seconds
//! - `REAP_INTERVAL`, `REAP_TIME`, `MAPPING_CAPACITY`, `CAPACITY`, `REPLY_ANNO`: as of `IPRewriter`
//!
//! TCP and UDP checksums are put right too, in first fragments.
//!
//! # Handlers
//! Those of `IPRewriter`, with `table` and `mappings` for the flows, and without `lookup`.
//!
//! # Drops
//! Those of `IPRewriter`; packets of all protocols and fragments are rewritten.
//!
//! # Threads
//! Belongs to one worker, with all that share its capacity.
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
