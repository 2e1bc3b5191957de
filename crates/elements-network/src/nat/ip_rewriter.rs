//! Rewrites addresses and ports of TCP and UDP flows.
//!
//! # Synopsis
//! `IPRewriter(INPUTSPEC, …, TCP_TIMEOUT, UDP_TIMEOUT, MAPPING_CAPACITY, …)`,
//! `TCPRewriter(INPUTSPEC, …)`, `UDPRewriter(INPUTSPEC, …)`
//!
//! # Ports
//! One input per input spec, any number of outputs; all push. Requires the network header
//! annotation.
//!
//! # Configuration
//! A packet of an existing flow is rewritten as the flow specifies and emitted on the output that
//! the flow specifies, whatever its input. All other packets are handled by the input spec of their
//! input:
//! - `drop`, `discard`: drops the packet
//! - `pass [OUTPUT]`, `passthrough`, `nochange`: forwards the packet unchanged to `OUTPUT`
//!   (default: 0); creates no flow
//! - `keep FOUTPUT ROUTPUT`: creates a flow that changes nothing; its packets are emitted on
//!   `FOUTPUT`, replies on `ROUTPUT`
//! - `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`: creates a flow that rewrites these fields;
//!   `-` leaves a field unchanged. `SPORT` may be a range: `L-H` keeps the source port if it is in
//!   the range and free, else chooses a random free port; `L-H#` chooses the next free port; `L-H?`
//!   always a random one
//! - `pattern NAME FOUTPUT ROUTPUT`: uses a pattern of `IPRewriterPatterns`
//! - the name of a mapper: uses a pattern that it chooses, see `RoundRobinIPMapper`
//!
//! Times without a unit are in seconds.
//! - `TCP_TIMEOUT`, `TIMEOUT`: idle timeout of connections with payload in both directions;
//!   default: 24 hours
//! - `TCP_DONE_TIMEOUT`: idle timeout of connections closed by FIN or RST; default: 4 minutes
//! - `TCP_NODATA_TIMEOUT`: idle timeout of all other connections; default: 5 minutes
//! - `TCP_GUARANTEE`, `GUARANTEE`: time after its last packet during which a flow cannot be
//!   evicted; default: 5 seconds
//! - `UDP_TIMEOUT`, `UDP_STREAMING_TIMEOUT`, `UDP_GUARANTEE`: the same for UDP, where a flow is
//!   streaming after three packets, at least one of them a reply; default: 5 minutes, the value of
//!   `UDP_TIMEOUT`, 5 seconds. `UDPRewriter` also accepts the names `TIMEOUT`, `STREAMING_TIMEOUT`
//!   and `GUARANTEE`
//! - `REAP_INTERVAL`, `REAP_TIME`: interval at which expired flows are removed; default: 15
//!   minutes; 0: never
//! - `MAPPING_CAPACITY`, `CAPACITY`: maximum number of flows, or the name of a rewriter to share
//!   flow storage and capacity with; default: unlimited; hard limit: 4194304
//! - `DST_ANNO`: whether to set the destination address annotation to the new destination; default:
//!   true
//! - `REPLY_ANNO`: annotation byte to set on replies, to its value in the first packet of the flow
//!
//! `TCPRewriter` accepts the TCP keywords, `UDPRewriter` those of UDP. `TCPRewriter` and
//! `IPRewriter` shift sequence numbers, acknowledgements and selective acknowledgements after
//! `FTPPortMapper` has changed the length of a payload.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `tcp_table`, `udp_table` | read | one line per direction of each flow: original and rewritten identifier, outputs with `*` at that of this direction, input, seconds until expiry |
//! | `tcp_mappings`, `udp_mappings` | read | the same |
//! | `table`, `mappings` | read | the same, of `TCPRewriter` and `UDPRewriter` |
//! | `tcp_lookup`, `lookup` | read with parameter | rewritten identifier of the TCP flow `SADDR SPORT DADDR DPORT`, empty if there is none; `lookup` is that of `TCPRewriter` |
//! | `nmappings` | read | flows of this element |
//! | `mapping_failures` | read | flows not created: no free port or address, or table full |
//! | `size` | read | flows of all rewriters that share the capacity |
//! | `capacity` | read, write | flows |
//! | `patterns` | read | input specs, with the number of flows of each |
//! | `pattern0` to `pattern15` | read, write | one input spec; a write removes its flows |
//! | `clear` | write | removes all flows of all rewriters that share the capacity |
//!
//! # Drops
//! `no IP header`, `not to be rewritten` (other protocols: `IPRewriter` rewrites TCP and UDP,
//! `TCPRewriter` TCP, `UDPRewriter` UDP, TCP and DCCP), `fragment` (all but first ones),
//! `short header`, `no flow` (input spec `drop`), `nothing free` (no free port or address),
//! `pattern does not fit` (only `IPAddrRewriter` and its pair variant), `full`. An input with
//! `pass` forwards packets that have an IP header but cannot be rewritten.
//!
//! # Threads
//! Runs on one worker, the same for all rewriters that share its capacity.
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
