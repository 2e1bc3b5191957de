//! Tunnel ports of a switch over an underlay in memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use warpswitch_openflow::Datapath;
use warpswitch_rules::format::ovs;

use super::*;
use crate::testing::Wire;
use crate::{CacheKind, NewPort, NewTunnel, Switch, SwitchOptions};

/// A UDP frame from 10.0.0.1, port 1, to 10.0.0.2, port `dst_port`.
fn frame(dst_port: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 1, 0, dst_port, 0, 8, 0, 0]);
    frame
}

type Incoming = Arc<Mutex<VecDeque<(TunnelKind, IpAddr, u8, Vec<u8>)>>>;
type Sent = Arc<Mutex<Vec<(OuterHeader, Vec<u8>)>>>;

#[derive(Default)]
struct Queues {
    incoming: Incoming,
    sent: Sent,
}

const LOCAL: &str = "192.0.2.1";

impl Underlay for Queues {
    fn receive(&mut self, bytes: &mut [u8]) -> Option<Datagram> {
        let (kind, src, tos, datagram) = self.incoming.lock().unwrap().pop_front()?;
        bytes[3..3 + datagram.len()].copy_from_slice(&datagram);
        let (payload, dst) = (3..3 + datagram.len(), LOCAL.parse().unwrap());
        Some(Datagram { kind, dst_port: kind.default_port(), payload, src, dst, tos })
    }

    fn send(&mut self, outer: &OuterHeader, bytes: &[u8]) -> Sending {
        self.sent.lock().unwrap().push((*outer, bytes.to_vec()));
        Sending::Done
    }

    fn wake_fds(&self) -> Vec<Arc<OwnedFd>> {
        Vec::new()
    }
}

struct Bench {
    switch: Switch,
    incoming: Incoming,
    sent: Sent,
}

impl Bench {
    fn new(cache: CacheKind, ports: &[&str], flows: &[&str]) -> Self {
        let mut switch = Switch::new(SwitchOptions { cache, ..SwitchOptions::default() });
        let queues = Queues::default();
        let (incoming, sent) = (queues.incoming.clone(), queues.sent.clone());
        for port in ports {
            let tunnel = NewTunnel { mac: [2; 6], options: port.parse().unwrap() };
            switch.add_tunnel(tunnel, 0).unwrap();
        }
        switch.set_underlay(Box::new(queues));
        for flow in flows {
            switch.datapath().flow_mod(&ovs::parse_change(flow).unwrap(), 0).unwrap();
        }
        Self { switch, incoming, sent }
    }

    /// A frame arrives with this key.
    fn arrives(&mut self, kind: TunnelKind, src: &str, key: u32, frame: &[u8]) {
        let mut bytes = Vec::new();
        TunnelHeader { kind, key: Some(key), has_checksum: false }.encapsulate(frame, &mut bytes);
        self.receives(kind, src, 0, bytes);
    }

    /// A datagram arrives with this type of service.
    fn receives(&mut self, kind: TunnelKind, src: &str, tos: u8, datagram: Vec<u8>) {
        self.incoming.lock().unwrap().push_back((kind, src.parse().unwrap(), tos, datagram));
        assert!(self.switch.run(1));
    }

    fn sent(&mut self) -> Vec<(OuterHeader, Vec<u8>)> {
        std::mem::take(&mut self.sent.lock().unwrap())
    }

    fn dropped(&self, reason: TunnelDrop) -> u64 {
        self.switch.stats().tunnel_drops.get(reason)
    }
}

#[test]
fn packets_pass_between_tunnels_with_keys_and_addresses_of_the_flow() {
    for cache in CacheKind::ALL {
        let ports = [
            "vxlan:a:remote_ip=198.51.100.1,key=5",
            "geneve:b:remote_ip=flow,key=flow,ttl=9,df_default=false",
            "gre:c:remote_ip=198.51.100.3,local_ip=192.0.2.1,csum=true",
        ];
        let flows = ["in_port=1,tun_id=5,tun_src=198.51.100.1,tun_dst=192.0.2.1 \
             actions=set_field:0x77->tun_id,set_field:203.0.113.9->tun_dst,output:2,output:3"];
        let mut bench = Bench::new(cache, &ports, &flows);
        for _ in 0..3 {
            bench.arrives(TunnelKind::Vxlan, "198.51.100.1", 5, &frame(9));
            let sent = bench.sent();
            let [(geneve, geneve_bytes), (gre, gre_bytes)] = &sent[..] else {
                panic!("{cache:?}: {sent:?}")
            };
            assert_eq!(geneve.dst, "203.0.113.9".parse::<IpAddr>().unwrap());
            assert_eq!((geneve.src, geneve.ttl, geneve.has_df), (None, 9, false));
            assert!(geneve.has_checksum && geneve.dst_port == 6081);
            assert_eq!(geneve_bytes[..8], [0, 0, 0x65, 0x58, 0, 0, 0x77, 0]);
            assert_eq!(geneve_bytes[8..], frame(9));
            assert_eq!(gre.src, Some(LOCAL.parse().unwrap()));
            // Without option `key` there is no key in the header.
            assert_eq!(gre_bytes[..4], [0x80, 0, 0x65, 0x58]);
            assert_eq!(gre_bytes[8..], frame(9));
            assert_eq!(geneve.flow_hash, gre.flow_hash);
        }
        let stats = bench.switch.ports(1);
        assert_eq!((stats[0].1.rx_packets, stats[1].1.tx_packets), (3, 3));
        assert_eq!(stats[0].1.rx_bytes, 3 * frame(9).len() as u64);
    }
}

#[test]
fn the_port_with_the_closest_options_receives() {
    let ports = [
        "vxlan:a:remote_ip=flow,key=flow",
        "vxlan:b:remote_ip=flow,key=5",
        "vxlan:c:remote_ip=198.51.100.1,key=5",
        "vxlan:d:remote_ip=198.51.100.2,key=flow",
        "geneve:e:remote_ip=198.51.100.2",
        "gre:f:remote_ip=flow,local_ip=192.0.2.7",
    ];
    let flows: Vec<String> = (1..=6).map(|port| format!("in_port={port} actions=drop")).collect();
    let flows: Vec<&str> = flows.iter().map(String::as_str).collect();
    let mut bench = Bench::new(CacheKind::Mega, &ports, &flows);
    for (kind, src, key, expected) in [
        (TunnelKind::Vxlan, "198.51.100.1", 5, Some(2)),
        (TunnelKind::Vxlan, "198.51.100.2", 5, Some(1)),
        (TunnelKind::Vxlan, "198.51.100.2", 6, Some(3)),
        (TunnelKind::Vxlan, "198.51.100.1", 6, Some(0)),
        (TunnelKind::Geneve, "198.51.100.2", 0, Some(4)),
        (TunnelKind::Geneve, "198.51.100.2", 1, None),
        (TunnelKind::Geneve, "198.51.100.1", 0, None),
        // Sent to another local address.
        (TunnelKind::Gre, "198.51.100.1", 0, None),
    ] {
        let before: Vec<u64> = bench.switch.ports(1).iter().map(|p| p.1.rx_packets).collect();
        bench.arrives(kind, src, key, &frame(1));
        let after = bench.switch.ports(1);
        let received = (0..before.len()).find(|at| after[*at].1.rx_packets > before[*at]);
        assert_eq!(received, expected, "{kind:?} {src} {key}");
    }
    assert_eq!(bench.dropped(TunnelDrop::UnknownTunnel), 3);
    let same = NewTunnel { mac: [2; 6], options: "vxlan:x:remote_ip=flow,key=5".parse().unwrap() };
    let error = bench.switch.add_tunnel(same, 0).unwrap_err();
    assert!(error.contains("port 2"), "{error}");
}

#[test]
fn frames_pass_between_tunnels_and_devices_unchanged() {
    for cache in CacheKind::ALL {
        let flows = ["in_port=1 actions=output:2", "in_port=2 actions=output:1"];
        let mut bench = Bench::new(cache, &["vxlan:a:remote_ip=198.51.100.1"], &flows);
        let wire = Wire::default();
        let (rx, tx) = (Box::new(wire.clone()), Box::new(wire.clone()));
        bench.switch.add_port(NewPort { name: "wire".to_owned(), mac: [2; 6], rx, tx }, 0);
        // Caches answer from the second round on; every other round has frames both ways.
        for round in 0..6 {
            if round % 2 == 1 {
                wire.incoming.lock().unwrap().extend([frame(1), frame(2)]);
            }
            bench.arrives(TunnelKind::Vxlan, "198.51.100.1", 0, &frame(9));
            assert_eq!(*wire.sent.lock().unwrap(), [frame(9)], "{cache:?} {round}");
            wire.sent.lock().unwrap().clear();
            let sent: Vec<_> = bench.sent().into_iter().map(|(_, b)| b[8..].to_vec()).collect();
            let expected = if round % 2 == 1 { vec![frame(1), frame(2)] } else { Vec::new() };
            assert_eq!(sent, expected, "{cache:?} {round}");
        }
    }
}

#[test]
fn frames_that_cannot_be_sent_or_read_are_counted() {
    let ports = ["vxlan:a:remote_ip=flow,key=flow", "vxlan:b:remote_ip=198.51.100.1,key=1"];
    let flows = [
        "tp_dst=1,udp actions=set_field:0x1000000->tun_id,set_field:10.9.9.9->tun_dst,output:1",
        "tp_dst=2,udp actions=set_field:0.0.0.0->tun_dst,output:1",
    ];
    let mut bench = Bench::new(CacheKind::Mega, &ports, &flows);
    for port in [1, 2, 2] {
        bench.arrives(TunnelKind::Vxlan, "198.51.100.1", 1, &frame(port));
    }
    assert!(bench.sent().is_empty());
    assert_eq!(bench.dropped(TunnelDrop::KeyTooLarge), 1);
    assert_eq!(bench.dropped(TunnelDrop::NoRemote), 2);
    assert_eq!(bench.switch.ports(1)[0].1.tx_dropped, 3);
    bench.arrives(TunnelKind::Vxlan, "198.51.100.1", 1, &[0; 13]);
    assert_eq!(bench.dropped(TunnelDrop::ShortFrame), 1);
}

#[test]
fn flows_have_different_source_ports_and_fragments_one() {
    let ports = ["vxlan:a:remote_ip=198.51.100.1", "vxlan:b:remote_ip=198.51.100.2,key=1"];
    let mut bench = Bench::new(CacheKind::Mega, &ports, &["in_port=1 actions=output:2"]);
    let mut hash_of = |frame: &[u8]| {
        bench.arrives(TunnelKind::Vxlan, "198.51.100.1", 0, frame);
        bench.sent()[0].0.flow_hash
    };
    let hashes: Vec<u16> = (0..8).map(|port| hash_of(&frame(port))).collect();
    assert!(hashes.iter().any(|hash| *hash != hashes[0]), "{hashes:?}");
    // A first and a later fragment.
    let fragments = [[0x20, 0], [0, 9]].map(|word| {
        let mut frame = frame(1);
        frame[20..22].copy_from_slice(&word);
        hash_of(&frame)
    });
    assert_eq!(fragments[0], fragments[1]);
}

#[test]
fn outer_headers_take_tos_ttl_and_ecn_from_the_frame() {
    let ports = [
        "vxlan:a:remote_ip=198.51.100.1",
        "vxlan:b:remote_ip=198.51.100.2,key=1,tos=inherit,ttl=inherit",
        "vxlan:c:remote_ip=198.51.100.3,key=2,tos=0x20,ttl=7",
        "gre:d:remote_ip=198.51.100.4",
    ];
    let flows = ["in_port=1 actions=output:2,output:3,output:4"];
    let mut bench = Bench::new(CacheKind::Mega, &ports, &flows);
    let mut arp = frame(1);
    arp[12..14].copy_from_slice(&[8, 6]);
    let ip = |tos: u8, ttl: u8| {
        let mut frame = frame(1);
        (frame[15], frame[22]) = (tos, ttl);
        frame
    };
    for (frame, expected) in [
        (arp, [(0, 64), (0x20, 7), (0, 64)]),
        (ip(0, 9), [(0, 9), (0x20, 7), (0, 64)]),
        (ip(0xb9, 255), [(0xb9, 255), (0x21, 7), (1, 64)]),
        // A mark on the inner frame is not one of the outer path.
        (ip(0xb3, 1), [(0xb2, 1), (0x22, 7), (2, 64)]),
        // No packet has a TTL of 0.
        (ip(0, 0), [(0, 1), (0x20, 7), (0, 64)]),
    ] {
        bench.arrives(TunnelKind::Vxlan, "198.51.100.1", 0, &frame);
        let sent = bench.sent();
        let headers: Vec<(u8, u8)> = sent.iter().map(|(outer, _)| (outer.tos, outer.ttl)).collect();
        assert_eq!(headers, expected, "{frame:?}");
    }
}

#[test]
fn congestion_marks_reach_the_frame_or_drop_it() {
    let ports = ["vxlan:a:remote_ip=198.51.100.1", "vxlan:b:remote_ip=198.51.100.2,key=1"];
    let mut bench = Bench::new(CacheKind::Mega, &ports, &["in_port=1 actions=output:2"]);
    for (outer, inner, expected) in [
        (0x03, 0x02, Some(0x03)),
        (0xb7, 0x41, Some(0x43)),
        (0x03, 0x03, Some(0x03)),
        (0x02, 0x00, Some(0x00)),
        (0x03, 0xb8, None),
    ] {
        let mut frame = frame(1);
        frame[15] = inner;
        let sum = warpswitch_wire::checksum::checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        let mut datagram = Vec::new();
        let header = TunnelHeader { kind: TunnelKind::Vxlan, key: Some(0), has_checksum: false };
        header.encapsulate(&frame, &mut datagram);
        bench.receives(TunnelKind::Vxlan, "198.51.100.1", outer, datagram);
        let sent = bench.sent();
        let tos = sent.first().map(|(_, bytes)| {
            let frame = &bytes[8..];
            assert!(warpswitch_wire::checksum::is_intact(&frame[14..34]), "{frame:?}");
            frame[15]
        });
        assert_eq!(tos, expected, "{outer:#x} {inner:#x}");
    }
    assert_eq!(bench.dropped(TunnelDrop::Congestion), 1);
}

#[test]
fn drops_on_receipt_are_counted_by_reason_in_the_coverage() {
    let ports = ["geneve:a:remote_ip=flow,key=flow"];
    let mut bench = Bench::new(CacheKind::Mega, &ports, &["actions=IN_PORT"]);
    let with_options = |options: &[u8]| {
        let words = (options.len() / 4) as u8;
        [&[words, 0, 0x65, 0x58, 0, 0, 5, 0][..], options, &frame(1)].concat()
    };
    let mut receives = |src, options: &[u8]| {
        bench.receives(TunnelKind::Geneve, src, 0, with_options(options));
        bench.sent().len()
    };
    // Options that nobody has to understand are skipped.
    assert_eq!(receives("198.51.100.1", &[0, 1, 7, 1, 9, 9, 9, 9, 0, 1, 8, 0]), 1);
    assert_eq!(receives("198.51.100.1", &[0, 1, 7, 0, 0, 1, 0x87, 1, 9, 9, 9, 9]), 0);
    assert_eq!(receives("198.51.100.1", &[0, 1, 7, 2, 9, 9, 9, 9]), 0);
    assert_eq!(receives(LOCAL, &[]), 0);
    let reply = bench.switch.appctl("coverage/show", &[], 1).unwrap();
    let crate::AppctlReply::Text(text) = reply else { panic!("{reply:?}") };
    for counter in ["tunnel_drop_critical", "tunnel_drop_options", "tunnel_drop_own_address"] {
        let line = text.lines().find(|line| line.starts_with(&format!("{counter} ")));
        assert!(line.is_some_and(|line| line.ends_with("total: 1")), "{counter}: {text}");
    }
    assert_eq!(text.matches("tunnel_drop").count(), 3, "{text}");
}
