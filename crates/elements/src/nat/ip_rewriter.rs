//! Rewrites addresses and ports of TCP and UDP flows.
//!
//! # Synopsis
//! `IPRewriter(INPUTSPEC, …, TCP_TIMEOUT, UDP_TIMEOUT, MAPPING_CAPACITY, …)`,
//! `TCPRewriter(INPUTSPEC, …)`, `UDPRewriter(INPUTSPEC, …)`
//!
//! # Ports
//! As many inputs as input specs, any number of outputs; all push. Packets need the network header
//! set.
//!
//! # Configuration
//! A packet of a known flow is rewritten as the flow says and leaves where the flow says, whichever
//! input it came to. For others there is an input spec per input:
//! - `drop`, `discard`: dropped
//! - `pass [OUTPUT]`, `passthrough`, `nochange`: leaves as it is; makes no flow
//! - `keep FOUTPUT ROUTPUT`: makes a flow that changes nothing; its packets leave through
//!   `FOUTPUT`, their answers through `ROUTPUT`
//! - `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`: makes a flow that changes these, `-` for
//!   what stays; `SPORT` may be a range `L-H`, of which the source's own port is preferred, or
//!   `L-H#` for the next free one, or `L-H?` for any
//! - `pattern NAME FOUTPUT ROUTPUT`: as `IPRewriterPatterns` says
//! - the name of a mapper: as `RoundRobinIPMapper` and its like say
//!
//! Times are in seconds unless they have a unit.
//! - `TCP_TIMEOUT`, `TIMEOUT`: how long connections are kept that had payload both ways; 24 hours
//! - `TCP_DONE_TIMEOUT`: those that FIN or RST closed; 4 minutes
//! - `TCP_NODATA_TIMEOUT`: all others; 5 minutes
//! - `TCP_GUARANTEE`, `GUARANTEE`: how long after its last packet nothing evicts a flow; 5 seconds
//! - `UDP_TIMEOUT`, `UDP_STREAMING_TIMEOUT`, `UDP_GUARANTEE`: the same for UDP, where a flow
//!   streams after three packets, one of them an answer; 5 minutes, as `UDP_TIMEOUT`, 5 seconds.
//!   `UDPRewriter` also calls them `TIMEOUT`, `STREAMING_TIMEOUT` and `GUARANTEE`
//! - `REAP_INTERVAL`, `REAP_TIME`: how often flows that ended are taken out; 15 minutes, 0 never
//! - `MAPPING_CAPACITY`, `CAPACITY`: how many flows there may be, or a rewriter to share them with;
//!   never more than 4194304, whatever is said
//! - `DST_ANNO`: whether the destination annotation becomes the new destination; true
//! - `REPLY_ANNO`: an annotation byte that answers get, as the flow's first packet had it
//!
//! `TCPRewriter` knows the TCP words, `UDPRewriter` those of UDP. `TCPRewriter` and `IPRewriter`
//! shift sequence numbers, acknowledgements and selective acknowledgements where payload was
//! changed in length.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `tcp_table`, `udp_table` | read | one direction of a flow per line: what it is, what it becomes, its outputs with `*` at the own one, its input, seconds until it ends |
//! | `tcp_mappings`, `udp_mappings` | read | the same |
//! | `table`, `mappings` | read | the same, of `TCPRewriter` and `UDPRewriter` |
//! | `tcp_lookup`, `lookup` | read with parameter | `SADDR SPORT DADDR DPORT` of TCP, rewritten; nothing if unknown |
//! | `nmappings` | read | flows of this element |
//! | `mapping_failures` | read | flows for which there was nothing free, or no room |
//! | `size` | read | flows of all that share the capacity |
//! | `capacity` | read, write | flows |
//! | `patterns` | read | the input specs, with the number of flows |
//! | `pattern0` to `pattern15` | read, write | one of them; writing takes out its flows |
//! | `clear` | write | takes out all flows of all that share the capacity |
//!
//! # Drops
//! `no IP header`, `not to be rewritten` (protocols without ports), `fragment` (all but first
//! ones), `short header`, `no flow` (`drop`), `nothing free`, `pattern does not fit`, `full`. What
//! has an IP header but cannot be rewritten passes an input with `pass` all the same.
//!
//! # Threads
//! Belongs to one worker, with all that share its capacity.
//!
//! # Example
//! ```text
//! rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop);
//! inside -> [0]rw; outside -> [1]rw; rw[0] -> to_outside; rw[1] -> to_inside;
//! ```

use warpswitch_graph::ElementClass;

use super::rewriter::{REASONS, Rewriter};
use super::set::Kind;

/// The class `IPRewriter`.
pub static CLASS: ElementClass =
    ElementClass::new("IPRewriter", "1-/1-", "h/h", || Box::new(Rewriter::new(Kind::Ip)))
        .drops(REASONS);
/// The class `TCPRewriter`.
pub static TCP: ElementClass =
    ElementClass::new("TCPRewriter", "1-/1-", "h/h", || Box::new(Rewriter::new(Kind::Tcp)))
        .drops(REASONS);
/// The class `UDPRewriter`.
pub static UDP: ElementClass =
    ElementClass::new("UDPRewriter", "1-/1-", "h/h", || Box::new(Rewriter::new(Kind::Udp)))
        .drops(REASONS);
