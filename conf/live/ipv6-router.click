// An IPv6 router (RFC 8200, RFC 4443, RFC 4861) between two interfaces of this machine.
//
//   sudo warpswitch run conf/live/ipv6-router.click ETH0=eth0 ETH1=eth1 \
//     IP0=2001:db8:0:a::1 PREFIX0=2001:db8:0:a:: IP1=2001:db8:0:b::1 PREFIX1=2001:db8:0:b::
//
// ETH0 and ETH1 are names of interfaces. IP0 and IP1 are the addresses of the router on their
// links, PREFIX0 and PREFIX1 the first 64 bits there. LINK0 and LINK1 are its link-local addresses,
// MAC0 and MAC1 its Ethernet addresses. Give the interfaces no IPv6 addresses of the kernel: it
// would route, too. Hosts use IP0 and IP1 as their gateways; the router does not advertise itself.
// Routes to further networks are added while it runs, through a control socket (run --control
// PORT):
//
//   warpswitch write PORT routes.add '2001:db8:1::/48 2001:db8:0:b::7 2'
//
// Elements and paths are those of conf/ipv6-router.click.

define($ETH0 eth0, $ETH1 eth1, $METHOD AUTO, $QUEUE 1000,
       $IP0 2001:db8:0:a::1, $PREFIX0 2001:db8:0:a::, $LINK0 fe80::ff:fe00:0,
       $IP1 2001:db8:0:b::1, $PREFIX1 2001:db8:0:b::, $LINK1 fe80::ff:fe00:100,
       $MAC0 02:00:00:00:00:00, $MAC1 02:00:00:00:01:00, $MTU0 1500, $MTU1 1500);

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

from0 :: FromDevice($ETH0, PROMISC true, METHOD $METHOD) -> port0 :: Port($IP0, $LINK0, $MAC0);
from1 :: FromDevice($ETH1, PROMISC true, METHOD $METHOD) -> port1 :: Port($IP1, $LINK1, $MAC1);
nd0 :: IP6NDSolicitor($LINK0, $MAC0);
nd1 :: IP6NDSolicitor($LINK1, $MAC1);
send0 :: Queue($QUEUE) -> to0 :: ToDevice($ETH0, METHOD $METHOD);
send1 :: Queue($QUEUE) -> to1 :: ToDevice($ETH1, METHOD $METHOD);

routes :: LookupIP6Route(
  $IP0/128 0, $PREFIX0/128 0,
  $IP1/128 0, $PREFIX1/128 0,
  $PREFIX0/64 1,
  $PREFIX1/64 2,
  fe80::/10 0, ff00::/8 0,
  ::/128 3, ::1/128 3,
  ::/0 4);

port0, port1 -> routes;

// Packets to the router: it answers pings.
routes[0] -> local :: ICMP6PingResponder -> routes;
local[1] -> Discard;

routes[1] -> out0 :: WayOut($IP0, $MTU0) -> nd0;
routes[2] -> out1 :: WayOut($IP1, $MTU1) -> nd1;
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
