//! Tunnel headers and options of tunnel ports.

use warpswitch_switch::tunnel::{TunnelHeader, TunnelKind, TunnelOptions};

use crate::split;

/// A tunnel header that is accepted is written again with the same meaning; option texts never
/// panic, and accepted keys fit into the header.
///
/// The first byte selects the protocol; the rest is a packet.
pub fn tunnel(data: &[u8]) {
    let ([choice], bytes) = split::<1>(data);
    let kind = TunnelKind::ALL[usize::from(choice) % TunnelKind::ALL.len()];
    if let Ok((header, frame)) = TunnelHeader::decapsulate(kind, bytes) {
        assert!(bytes.ends_with(frame));
        assert_eq!(header.kind, kind);
        let mut again = vec![choice];
        header.encapsulate(frame, &mut again);
        assert_eq!(TunnelHeader::decapsulate(kind, &again), Ok((header, frame)));
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(options) = text.parse::<TunnelOptions>()
    {
        assert!(TunnelOptions::is_tunnel(text));
        let keys = [options.in_key, options.out_key].into_iter().flatten();
        let mut fixed = keys.filter_map(|key| key.fixed());
        assert!(fixed.all(|key| key <= options.kind.key_max()), "{options:?}");
    }
}
