//! Rewrites addresses and identifiers of pings, and of their answers.
//!
//! # Synopsis
//! `ICMPPingRewriter(INPUTSPEC, …, TIMEOUT, GUARANTEE, MAPPING_CAPACITY, …)`
//!
//! # Ports
//! As many inputs as input specs, any number of outputs; all push. Packets need the network header
//! set.
//!
//! # Configuration
//! Input specs are those of `IPRewriter`; what is the source port there is the identifier here, as
//! in `pattern 192.0.2.1 - 0-65535 0 1`. Only requests make flows.
//! - `TIMEOUT`: how long flows are kept after their last packet; 5 minutes
//! - `GUARANTEE`: how long after its last packet nothing evicts a flow; 5 seconds
//! - `REAP_INTERVAL`, `REAP_TIME`, `MAPPING_CAPACITY`, `CAPACITY`, `DST_ANNO`, `REPLY_ANNO`: as of
//!   `IPRewriter`
//!
//! # Handlers
//! Those of `IPRewriter`, with `table` and `mappings` for the flows, and without `lookup`.
//!
//! # Drops
//! Those of `IPRewriter`; `no flow` also for replies that nobody asked for.
//!
//! # Threads
//! Belongs to one worker, with all that share its capacity.
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
