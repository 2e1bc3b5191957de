//! Tests of the crate as a whole: what is found is what the reference finds.

mod agree;
mod bounds;
mod broken;
mod elsewhere;
mod flowbits;
mod fragments;
pub mod frames;
mod http;
mod mistakes;
mod numbers;
mod passes;
mod stateless;
mod streams;
mod texts;
mod threshold;

use std::sync::Arc;

use warpswitch_scan::PatternId;
use warpswitch_wire::link::LinkType;

use crate::inspect::{Alert, Found, Inspector, InspectorOptions, Packet, payload, payload_place};
use crate::rule::Rules;
use crate::text::{RuleText, Variables, read_rules};
use crate::{Engine, GROUPS};

/// The rules of a text that has no errors.
pub fn rules(text: &str) -> Rules {
    let texts = [RuleText { name: "test.rules", bytes: text.as_bytes() }];
    read_rules(&texts, &Variables::default()).unwrap_or_else(|errors| panic!("{errors}"))
}

/// An inspector for the rules of a text, none of which is left out.
pub fn inspector(text: &str, options: InspectorOptions) -> Inspector {
    let rules = rules(text);
    assert_eq!(rules.left_out, [], "{text}");
    Inspector::new(Arc::new(Engine::build(rules)), options)
}

/// Frames, a millisecond between each two, as packets.
pub fn packets(frames: &[Vec<u8>]) -> Vec<Packet<'_>> {
    frames
        .iter()
        .enumerate()
        .map(|(idx, frame)| Packet {
            bytes: frame,
            wire_bytes: frame.len(),
            link: LinkType::Ethernet,
            timestamp_ns: 1_700_000_000_000_000_000 + idx as u64 * 1_000_000,
            found: None,
        })
        .collect()
}

/// What occurs in the payloads of packets, of those whose bits are set in `which`.
pub fn ahead(engine: &Engine, packets: &[Packet<'_>], which: u32) -> Vec<Option<Vec<PatternId>>> {
    let groups = engine.patterns();
    let found = |(idx, packet)| {
        let (group, payload) = payload(packet).filter(|_| which >> (idx % 32) & 1 != 0)?;
        Some(warpswitch_scan::naive::set(groups[group], payload))
    };
    packets.iter().enumerate().map(found).collect()
}

/// Has an inspector know some of that before; of other payloads it is told what is not about them.
pub fn inspect_ahead(
    inspector: &mut Inspector,
    frames: &[Vec<u8>],
    which: u32,
    found: &mut Vec<Alert>,
) {
    let mut packets = packets(frames);
    let ahead = ahead(inspector.engine(), &packets, which);
    for (idx, (packet, ahead)) in packets.iter_mut().zip(&ahead).enumerate() {
        let place = payload_place(packet);
        packet.found = match (ahead, place) {
            (Some(patterns), _) => Some(Found { patterns, place: place.filter(|_| idx % 2 == 0) }),
            (None, Some(mut place)) => {
                match idx % 3 {
                    0 => place.group = (place.group + 1) % GROUPS,
                    1 => place.start = place.start.wrapping_sub(1),
                    _ => place.bytes += 1,
                }
                Some(Found { patterns: &[], place: Some(place) })
            }
            (None, None) => None,
        };
    }
    inspector.inspect(packets, found);
}

/// All alerts for frames, those at the end too.
pub fn alerts(inspector: &mut Inspector, frames: &[Vec<u8>]) -> Vec<Alert> {
    let mut alerts = Vec::new();
    inspector.inspect(packets(frames), &mut alerts);
    inspector.finish(&mut alerts);
    alerts
}

/// Packet number and `sid` of each alert.
pub fn told(text: &str, frames: &[Vec<u8>]) -> Vec<(u64, u32)> {
    let mut inspector = inspector(text, InspectorOptions::default());
    let found = alerts(&mut inspector, frames);
    found.iter().map(|a| (a.number, inspector.engine().rule(a.rule).about.sid)).collect()
}
