//! Rewrites addresses and identifiers of ICMP echo requests and replies.
//!
//! # Synopsis
//! `ICMPPingRewriter(INPUTSPEC, …, TIMEOUT, GUARANTEE, MAPPING_CAPACITY, …)`
//!
//! # Ports
//! One input per input spec, any number of outputs; all push. Requires the network header
//! annotation.
//!
//! # Configuration
//! Input specs are those of `IPRewriter`, with the ICMP identifier in the place of the source port,
//! as in `pattern 192.0.2.1 - 0-65535 0 1`. Only requests create flows.
//! - `TIMEOUT`: idle timeout of flows; default: 5 minutes
//! - `GUARANTEE`: time after its last packet during which a flow cannot be evicted; default: 5
//!   seconds
//! - `REAP_INTERVAL`, `REAP_TIME`, `MAPPING_CAPACITY`, `CAPACITY`, `DST_ANNO`, `REPLY_ANNO`: as for
//!   `IPRewriter`
//!
//! # Handlers
//! Those of `IPRewriter`, with `table` and `mappings` for the flows, and without `lookup`.
//!
//! # Drops
//! Those of `IPRewriter`; `no flow` also for replies without a matching request.
//!
//! # Threads
//! Runs on one worker, the same for all rewriters that share its capacity.
//!
//! # Example
//! ```text
//! rw :: ICMPPingRewriter(pattern 192.0.2.1 - 0-65535 0 1, drop);
//! ```

use warpswitch_graph::ElementClass;

use super::rewriter::{REASONS, Rewriter};
use super::set::Kind;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("ICMPPingRewriter", "1-/1-", "h/h", || Box::new(Rewriter::new(Kind::Ping)))
        .drops(REASONS);
