//! Frames: any bytes are parsed or refused by name, and no accessor panics.

use warpswitch_rules::extract::extract;
use warpswitch_rules::schema::SCHEMAS;
use warpswitch_wire::link::LinkType;
use warpswitch_wire::parse::parse;
use warpswitch_wire::walk::{walk_frame, walk_views};

use crate::split;

/// Parses the bytes as a frame of each kind, and reads every field that passed its check.
pub fn frame(data: &[u8]) {
    let ([cut, link], bytes) = split(data);
    // What was on the wire may be longer than what was captured.
    let wire_bytes = bytes.len() + usize::from(cut);
    let link = LinkType::from_capture(u32::from(link));
    if let Ok(found) = parse(link, bytes, wire_bytes) {
        assert!(found.network_offset <= found.transport_offset, "{found:?}");
        assert!(found.transport_offset <= found.payload_offset, "{found:?}");
        assert!(found.payload_offset <= found.packet_end, "{found:?}");
        assert!(found.packet_end <= bytes.len(), "{found:?}");
        assert_eq!(parse(link, bytes, wire_bytes), Ok(found), "parsing depends on something else");
    }
    walk_frame(bytes);
    walk_views(bytes);
}

/// Takes the key of each schema out of the bytes as a frame.
pub fn extract_key(data: &[u8]) {
    let ([port], bytes) = split(data);
    for schema in SCHEMAS {
        let mut key = vec![0xa5a5_a5a5; schema.words];
        if extract(schema, bytes, u32::from(port), &mut key).is_ok() {
            let used = schema.used_bits();
            let stray = key.iter().zip(used).any(|(word, used)| word & !used != 0);
            assert!(!stray, "{}: bits outside of the fields: {key:x?}", schema.name);
            let mut again = vec![0; schema.words];
            extract(schema, bytes, u32::from(port), &mut again).expect("the same frame");
            assert_eq!(key, again, "{}: the key depends on what was there", schema.name);
        }
    }
}
