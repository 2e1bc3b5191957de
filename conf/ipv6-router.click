// An IPv6 router (RFC 8200, RFC 4443, RFC 4861) with two interfaces.
//
//   cargo run --release -- run --stats conf/ipv6-router.click
//
// lan0 is 2001:db8:0:a::/64, the router is 2001:db8:0:a::1 there; lan1 is 2001:db8:0:b::/64, the
// router is 2001:db8:0:b::1, and the MTU is 1400 bytes. Input of lan0 is
// conf/captures/lan0-ipv6.pcap: packets to forward, some with a hop limit of one, too long, without
// a route or with errors; pings and neighbour discovery. Sent packets are printed, and written to
// the files OUT0 and OUT1.
//
//   frames ─► Classifier ─► solicitations  ─► replies
//                        ├► advertisements ─► input of the solicitors
//                        └► CheckIP6Header ─► routes ─► one path for each interface ─► IP6NDSolicitor ─► frames
//                              errors of a path ─► ICMP6Error ─► routes

define($IN0 conf/captures/lan0-ipv6.pcap, $IN1 conf/captures/lan1-ipv6.pcap,
       $OUT0 lan0-ipv6.out.pcap, $OUT1 lan1-ipv6.out.pcap);

// For each interface: global address, link-local address, Ethernet address.
define($IP0 2001:db8:0:a::1, $LINK0 fe80::ff:fe00:0, $MAC0 02:00:00:00:00:00,
       $IP1 2001:db8:0:b::1, $LINK1 fe80::ff:fe00:100, $MAC1 02:00:00:00:01:00);

// Input side of an interface: accepts frames for it, answers solicitations, checks packets, and
// answers pings from its link, because replies must leave by the same interface.
// Input 0: frames received. Output 0: IPv6 packets. Output 1: advertisements.
// Output 2: frames to send. Output 3: packets for neighbours.
elementclass Port { $ip, $link, $mac |
  input -> HostEtherFilter($mac)
    -> sort :: Classifier(12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/86dd, -);
  sort[0] -> IP6NDAdvertiser($ip $link $mac) -> [2]output;
  sort[1] -> [1]output;
  sort[2] -> Strip(14)
    -> check :: CheckIP6Header(:: ::1)
    -> GetIP6Address(24)
    -> mine :: LookupIP6Route($link/128 0, ::/0 1);
  sort[3] -> Discard;
  mine[0] -> ICMP6PingResponder -> [3]output;
  mine[1] -> [0]output;
}

// Output side of an interface: drops packets that must not be forwarded, sends ICMPv6 errors.
// Input 0: packets routed to it. Output 0: packets to send. Output 1: ICMPv6 errors, to be routed.
elementclass WayOut { $ip, $mtu |
  input -> DropBroadcasts
    -> scope :: Classifier(8/fe80%ffc0, -);
  scope[0] -> Discard;
  scope[1] -> FixIP6Src($ip)
    -> hops :: DecIP6HLIM
    -> mtu :: CheckIP6MTU($mtu)
    -> [0]output;
  hops[1] -> ICMP6Error($ip, timeexceeded) -> [1]output;
  mtu[1] -> ICMP6Error($ip, packettoobig) -> [1]output;
}

port0 :: Port($IP0, $LINK0, $MAC0);
port1 :: Port($IP1, $LINK1, $MAC1);
nd0 :: IP6NDSolicitor($LINK0, $MAC0);
nd1 :: IP6NDSolicitor($LINK1, $MAC1);
send0 :: Queue(200) -> IP6Print("lan0 <") -> ToDump($OUT0);
send1 :: Queue(200) -> IP6Print("lan1 <") -> ToDump($OUT1);

// Frames keep the times of the capture: neighbours answer earlier solicitations.
FromDump($IN0, TIMING true, STOP false) -> port0;
FromDump($IN1, TIMING true, STOP false) -> port1;

routes :: LookupIP6Route(
  2001:db8:0:a::1/128 0, 2001:db8:0:a::/128 0,
  2001:db8:0:b::1/128 0, 2001:db8:0:b::/128 0,
  2001:db8:0:a::/64 1,
  2001:db8:0:b::/64 2,
  fe80::/10 0, ff00::/8 0,
  ::/128 3, ::1/128 3,
  ::/0 4);

port0, port1 -> routes;

// Packets to the router: it answers pings.
routes[0] -> local :: ICMP6PingResponder -> routes;
local[1] -> IP6Print("for us") -> Discard;

routes[1] -> out0 :: WayOut($IP0, 1500) -> nd0;
routes[2] -> out1 :: WayOut($IP1, 1400) -> nd1;
routes[3] -> Discard;
routes[4] -> unknown :: ICMP6Error($IP0, unreachable, noroute);

// ICMPv6 errors are limited to a thousand a second.
limit :: RatedSplitter(1000);
limit[0] -> routes;
limit[1] -> Discard;
out0[1], out1[1], unknown -> limit;

port0[1] -> [1]nd0;
port1[1] -> [1]nd1;
port0[2] -> send0;
port1[2] -> send1;
port0[3] -> nd0;
port1[3] -> nd1;

// Frames, solicitations, and packets of unresolved neighbours.
nd0[0], nd0[1] -> send0;
nd1[0], nd1[1] -> send1;
nd0[2] -> ICMP6Error($IP0, unreachable, address) -> limit;
nd1[2] -> ICMP6Error($IP1, unreachable, address) -> limit;
