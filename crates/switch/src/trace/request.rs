//! What `ofproto/trace` is to trace.

use warpswitch_pipeline::frame::{compose, extract};
use warpswitch_rules::diagnostic::Diagnostics;
use warpswitch_rules::format::ovs;
use warpswitch_rules::openflow::FlowKey;

/// The longest packet.
const PACKET_BYTES_MAX: usize = 65_535;
/// An Ethernet header.
const PACKET_BYTES_MIN: usize = 14;

/// A packet to be traced.
///
/// ```
/// use warpswitch_switch::trace::TraceRequest;
///
/// assert!(TraceRequest::parse("in_port=1,tcp,nw_dst=10.0.0.1", None).is_ok());
/// let error = TraceRequest::parse("in_port=1", Some("0102")).unwrap_err();
/// assert!(error.contains("at least 14 bytes"), "{error}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// Its port and other fields that are not read from its bytes.
    pub key: FlowKey,
    /// Its bytes.
    pub frame: Vec<u8>,
}

impl TraceRequest {
    /// Reads a packet: flow text without masks, and its bytes in hexadecimal unless one is to be
    /// made from the text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, packet: Option<&str>) -> Result<Self, String> {
        let mut key = ovs::parse_key(text).map_err(|errors| message_of(&errors))?;
        if key[1] == 0 {
            key[1] = key[0];
        }
        let frame = match packet {
            Some(digits) => bytes(digits)?,
            None => compose(&key).map_err(|field| {
                let name = field.name;
                format!(
                    "{text}: a packet with these headers has no such value of {name}; \
                     give the packet in hexadecimal"
                )
            })?,
        };
        extract(&frame, &mut key);
        Ok(Self { key, frame })
    }
}

/// A report for callers that write `error:` themselves.
fn message_of(errors: &Diagnostics) -> String {
    let text = errors.to_string();
    text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned()
}

/// Bytes from hexadecimal digits, with blanks anywhere.
fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(|character| !character.is_whitespace())
        .map(|character| character.to_digit(16).map(|digit| digit as u8))
        .collect();
    let digits = digits.ok_or("packet: expected hexadecimal digits")?;
    let (pairs, []) = digits.as_chunks::<2>() else {
        return Err("packet: expected an even number of hexadecimal digits".to_owned());
    };
    match pairs.len() {
        0..PACKET_BYTES_MIN => Err(format!("packet: expected at least {PACKET_BYTES_MIN} bytes")),
        PACKET_BYTES_MIN..=PACKET_BYTES_MAX => {
            Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect())
        }
        len => Err(format!("packet: {len} bytes; expected at most {PACKET_BYTES_MAX}")),
    }
}
