// An IPv4 router (RFC 1812) with two interfaces.
//
//   cargo run --release -- run --stats conf/ip-router.click
//
// lan0 is 10.0.0.0/24, the router is 10.0.0.1 there; lan1 is 10.0.1.0/24, the router is 10.0.1.1.
// Input of lan0 is conf/captures/lan0.pcap: datagrams to forward, some with a time to live of one,
// too long, with options or with errors; pings and ARP. Sent packets are printed, and written to
// the files OUT0 and OUT1.
//
//   frames ─► Classifier ─► ARP          ─► replies, and input of the queriers
//                        └► CheckIPHeader ─► routes ─► one path for each interface ─► ARPQuerier ─► frames
//                              errors of a path ─► ICMPError ─► routes

define($IN0 conf/captures/lan0.pcap, $IN1 conf/captures/lan1.pcap,
       $OUT0 lan0.out.pcap, $OUT1 lan1.out.pcap, $TIMING false, $WAIT 0.1s);

AddressInfo(lan0 10.0.0.1 10.0.0.0/24 02:00:00:00:00:00,
            lan1 10.0.1.1 10.0.1.0/24 02:00:00:00:01:00);

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

port0 :: Port(lan0, 1);
port1 :: Port(lan1, 2);
arp0 :: ARPQuerier(lan0);
arp1 :: ARPQuerier(lan1);
send0 :: Queue(200) -> ToDump($OUT0, SNAPLEN 0);
send1 :: Queue(200) -> ToDump($OUT1, SNAPLEN 0);

FromDump($IN0, TIMING $TIMING, STOP true) -> port0;
FromDump($IN1, TIMING $TIMING, STOP true) -> port1;

// The run ends after both captures and their consequences; otherwise it would wait for the ARP
// tables to age. WAIT=4s leaves time to give up silent neighbours.
DriverManager(wait_stop 2, wait_time $WAIT, stop);

// Output 0: the router itself. 1 and 2: the interfaces. 3: groups and addresses of no host.
// 4: no route.
routes :: StaticIPLookup(
  10.0.0.1/32 0, 10.0.1.1/32 0,
  10.0.0.0/24 1, 10.0.0.0/32 3, 10.0.0.255/32 3,
  10.0.1.0/24 2, 10.0.1.0/32 3, 10.0.1.255/32 3,
  0.0.0.0/8 3, 127.0.0.0/8 3, 224.0.0.0/3 3,
  0.0.0.0/0 4);

// Accepts valid packets whose source is a host address other than the router's own.
port0, port1
  -> check :: CheckIPHeader(INTERFACES 10.0.0.1/24 10.0.1.1/24,
                            BADSRC 0.0.0.0/8 127.0.0.0/8 224.0.0.0/3 10.0.0.1 10.0.1.1)
  -> routes;

// ICMP errors are control traffic: precedence 6, class selector 48. They are limited to a thousand
// a second.
errors :: SetIPDSCP(48) -> limit :: RatedSplitter(1000);
limit[0] -> routes;
limit[1] -> Discard;

// The router answers pings. Other protocols get an ICMP error, except TCP, which is dropped.
routes[0] -> IPReassembler -> local :: IPClassifier(icmp, tcp, udp, -);
local[0] -> CheckICMPHeader -> ping :: ICMPPingResponder -> routes;
ping[1], local[1] -> IPPrint("for us") -> Discard;
local[2] -> CheckUDPHeader -> ICMPError(lan0, unreachable, port) -> errors;
local[3] -> ICMPError(lan0, unreachable, protocol) -> errors;
routes[3] -> Discard;
routes[4] -> ICMPError(lan0, unreachable, net) -> errors;

routes[1] -> out0 :: WayOut(lan0, 1, 1500) -> IPPrint("to lan0") -> arp0 -> send0;
routes[2] -> out1 :: WayOut(lan1, 2, 1500) -> IPPrint("to lan1") -> arp1 -> send1;
out0[1], out1[1] -> errors;

// ARP queries are sent like frames. Packets of unresolved next hops get an ICMP error.
arp0[1] -> send0;
arp1[1] -> send1;
arp0[2], arp1[2] -> ICMPError(lan0, unreachable, host) -> errors;

port0[1] -> [1]arp0;
port1[1] -> [1]arp1;
port0[2] -> send0;
port1[2] -> send1;
