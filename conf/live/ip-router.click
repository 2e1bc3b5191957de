// An IPv4 router (RFC 1812) between two interfaces of this machine.
//
//   sudo warpswitch run conf/live/ip-router.click ETH0=eth0 ETH1=eth1 \
//     ADDR0=10.0.0.1/24 ADDR1=10.0.1.1/24
//
// ETH0 and ETH1 are names of interfaces. ADDR0 and ADDR1 are the addresses of the router on their
// links, MAC0 and MAC1 its Ethernet addresses there. With QUEUES=n each interface has n receive
// queues, for n workers (run -j n). Give the interfaces no IP addresses of the
// kernel on these links: it would route, too. Hosts use ADDR0 and ADDR1 as their gateways. Routes
// to further networks are added while it runs, through a control socket (run --control PORT):
//
//   warpswitch write PORT routes.add '10.2.0.0/16 10.0.1.7 2'
//
// Elements and paths are those of conf/ip-router.click.

define($ETH0 eth0, $ETH1 eth1, $METHOD AUTO, $QUEUES 1, $QUEUE 1000,
       $ADDR0 10.0.0.1/24, $ADDR1 10.0.1.1/24, $MTU0 1500, $MTU1 1500,
       $MAC0 02:00:00:00:00:00, $MAC1 02:00:00:00:01:00);

AddressInfo(lan0 $ADDR0 $MAC0, lan1 $ADDR1 $MAC1);

// Input side of an interface: accepts frames for it, answers ARP, paints packets with its number.
// Input 0: frames received. Output 0: IPv4 packets. Output 1: ARP replies. Output 2: frames to send.
elementclass Port { $name, $color |
  input -> HostEtherFilter($name)
    -> sort :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  sort[0] -> ARPResponder($name) -> [2]output;
  sort[1] -> [1]output;
  sort[2] -> Paint($color) -> Strip(14) -> [0]output;
  sort[3] -> Discard;
}

// Output side of an interface: sends ICMP errors, fragments long packets. A sender on the same link
// gets a redirect if the packet is forwarded.
// Input 0: packets routed to it. Output 0: packets to send. Output 1: ICMP errors, to be routed.
elementclass WayOut { $name, $color, $mtu |
  input -> DropBroadcasts
    -> options :: IPGWOptions($name)
    -> FixIPSrc($name)
    -> ttl :: DecIPTTL
    -> back :: PaintTee($color)
    -> cut :: IPFragmenter($mtu)
    -> [0]output;
  options[1] -> ICMPError($name, parameterproblem) -> [1]output;
  ttl[1] -> ICMPError($name, timeexceeded) -> [1]output;
  back[1] -> IPClassifier(src net $name and (ip[2:2] <= $mtu or ip[6] & 0x40 == 0))
    -> ICMPError($name, redirect, host) -> [1]output;
  cut[1] -> ICMPError($name, unreachable, needfrag, PMTU $mtu) -> [1]output;
}

from0 :: FromDevice($ETH0, PROMISC true, METHOD $METHOD, QUEUES $QUEUES)
  -> port0 :: Port(lan0, 1);
from1 :: FromDevice($ETH1, PROMISC true, METHOD $METHOD, QUEUES $QUEUES)
  -> port1 :: Port(lan1, 2);
arp0 :: ARPQuerier(lan0);
arp1 :: ARPQuerier(lan1);
send0 :: Queue($QUEUE) -> to0 :: ToDevice($ETH0, METHOD $METHOD);
send1 :: Queue($QUEUE) -> to1 :: ToDevice($ETH1, METHOD $METHOD);

// Output 0: the router itself. 1 and 2: the interfaces. 3: groups and addresses of no host.
// 4: no route.
routes :: RadixIPLookup(
  lan0:ip 0, lan1:ip 0,
  lan0:ipnet 1, lan0:bcast 3, lan1:ipnet 2, lan1:bcast 3,
  0.0.0.0/8 3, 127.0.0.0/8 3, 224.0.0.0/3 3,
  0.0.0.0/0 4);

// Accepts valid packets whose source is a host address other than the router's own.
port0, port1
  -> check :: CheckIPHeader(INTERFACES $ADDR0 $ADDR1,
                            BADSRC 0.0.0.0/8 127.0.0.0/8 224.0.0.0/3 lan0:ip lan1:ip)
  -> routes;

// ICMP errors are control traffic: precedence 6, class selector 48. They are limited to a thousand
// a second.
errors :: SetIPDSCP(48) -> limit :: RatedSplitter(1000);
limit[0] -> routes;
limit[1] -> Discard;

// The router answers pings. Other protocols get an ICMP error, except TCP, which is dropped.
routes[0] -> IPReassembler -> local :: IPClassifier(icmp, tcp, udp, -);
local[0] -> CheckICMPHeader -> ping :: ICMPPingResponder -> routes;
ping[1], local[1] -> Discard;
local[2] -> CheckUDPHeader -> ICMPError(lan0, unreachable, port) -> errors;
local[3] -> ICMPError(lan0, unreachable, protocol) -> errors;
routes[3] -> Discard;
routes[4] -> ICMPError(lan0, unreachable, net) -> errors;

routes[1] -> out0 :: WayOut(lan0, 1, $MTU0) -> arp0 -> send0;
routes[2] -> out1 :: WayOut(lan1, 2, $MTU1) -> arp1 -> send1;
out0[1], out1[1] -> errors;

// ARP queries are sent like frames. Packets of unresolved next hops get an ICMP error.
arp0[1] -> send0;
arp1[1] -> send1;
arp0[2], arp1[2] -> ICMPError(lan0, unreachable, host) -> errors;

port0[1] -> [1]arp0;
port1[1] -> [1]arp1;
port0[2] -> send0;
port1[2] -> send1;
