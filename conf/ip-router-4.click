// An IPv4 router with four interfaces, as RFC 1812 wants it, and a default route.
//
//   cargo run --release -- run --stats conf/ip-router-4.click
//
// lan0 to lan3 are 10.0.0.0/24 to 10.0.3.0/24, and the router is 10.0.N.1 on each. Behind the
// gateway 10.0.3.254 on lan3 lies everything else, behind 10.0.2.254 on lan2 172.16.0.0/12; lan2
// carries packets of 1280 bytes at most. Each lan's traffic is in conf/captures/four-lanN.pcap.
// What leaves is printed, and written to the files that OUT0 to OUT3 name.
//
//   Interface ─► packets ─► checks ─► routes ─► Interface
//             └► errors  ─► marked ─────┘

define($IN0 conf/captures/four-lan0.pcap, $OUT0 four-lan0.out.pcap,
       $IN1 conf/captures/four-lan1.pcap, $OUT1 four-lan1.out.pcap,
       $IN2 conf/captures/four-lan2.pcap, $OUT2 four-lan2.out.pcap,
       $IN3 conf/captures/four-lan3.pcap, $OUT3 four-lan3.out.pcap,
       $TIMING false, $WAIT 0.1s);

AddressInfo(lan0 10.0.0.1 10.0.0.0/24 02:00:00:00:00:00,
            lan1 10.0.1.1 10.0.1.0/24 02:00:00:00:01:00,
            lan2 10.0.2.1 10.0.2.0/24 02:00:00:00:02:00,
            lan3 10.0.3.1 10.0.3.0/24 02:00:00:00:03:00);

// An interface, both ways.
// Input 0: packets routed to it. Output 0: packets received. Output 1: ICMP errors, to be routed.
elementclass Interface { $name, $color, $mtu, $in, $out |
  // In: frames that are for it. ARP is answered, answers are learnt, packets painted.
  FromDump($in, TIMING $TIMING, STOP true)
    -> HostEtherFilter($name)
    -> sort :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  sort[0] -> ARPResponder($name) -> send :: Queue(200) -> ToDump($out, SNAPLEN 0);
  sort[1] -> [1]arp :: ARPQuerier($name);
  sort[2] -> Paint($color) -> Strip(14) -> [0]output;
  sort[3] -> Discard;

  // Out: errors are answered, long packets cut. A sender on this very link is told that it could
  // have sent to its neighbour itself, if the packet can go on.
  input -> DropBroadcasts
    -> options :: IPGWOptions($name)
    -> FixIPSrc($name)
    -> ttl :: DecIPTTL
    -> back :: PaintTee($color)
    -> cut :: IPFragmenter($mtu)
    -> IPPrint("to $name")
    -> arp -> send;
  options[1] -> ICMPError($name, parameterproblem) -> [1]output;
  ttl[1] -> ICMPError($name, timeexceeded) -> [1]output;
  back[1] -> IPClassifier(src net $name and (ip[2:2] <= $mtu or ip[6] & 0x40 == 0))
    -> ICMPError($name, redirect, host) -> [1]output;
  cut[1] -> ICMPError($name, unreachable, needfrag, PMTU $mtu) -> [1]output;

  // Queries leave as frames do. Whose next hop does not answer them is told.
  arp[1] -> send;
  arp[2] -> ICMPError($name, unreachable, host) -> [1]output;
}

if0 :: Interface(lan0, 1, 1500, $IN0, $OUT0);
if1 :: Interface(lan1, 2, 1500, $IN1, $OUT1);
if2 :: Interface(lan2, 3, 1280, $IN2, $OUT2);
if3 :: Interface(lan3, 4, 1500, $IN3, $OUT3);

// Once all captures are at their end, and what they caused is done with, the run ends: it would
// wait for the ARP tables to age else. WAIT=4s leaves time to give neighbours up that are silent.
DriverManager(wait_stop 4, wait_time $WAIT, stop);

// To the router itself 0, to the interfaces 1 to 4, to many or to what is no host's address 5.
routes :: StaticIPLookup(
  10.0.0.1/32 0, 10.0.1.1/32 0, 10.0.2.1/32 0, 10.0.3.1/32 0,
  10.0.0.0/24 1, 10.0.0.0/32 5, 10.0.0.255/32 5,
  10.0.1.0/24 2, 10.0.1.0/32 5, 10.0.1.255/32 5,
  10.0.2.0/24 3, 10.0.2.0/32 5, 10.0.2.255/32 5,
  10.0.3.0/24 4, 10.0.3.0/32 5, 10.0.3.255/32 5,
  172.16.0.0/12 10.0.2.254 3,
  0.0.0.0/0 10.0.3.254 4,
  0.0.0.0/8 5, 127.0.0.0/8 5, 224.0.0.0/3 5);

// Packets that are whole, and come from what may be a host's address but this router's own.
if0, if1, if2, if3
  -> check :: CheckIPHeader(INTERFACES 10.0.0.1/24 10.0.1.1/24 10.0.2.1/24 10.0.3.1/24,
                            BADSRC 0.0.0.0/8 127.0.0.0/8 224.0.0.0/3 10.0.0.1 10.0.1.1 10.0.2.1 10.0.3.1)
  -> routes;

// Errors go before other traffic, as control does: precedence 6, the class selector 48. They are
// few: no more than a thousand a second.
errors :: SetIPDSCP(48) -> limit :: RatedSplitter(1000);
limit[0] -> routes;
limit[1] -> Discard;
if0[1], if1[1], if2[1], if3[1] -> errors;

// It answers pings, and tells who wants more of it. Nobody listens to TCP here.
routes[0] -> IPReassembler -> local :: IPClassifier(icmp, tcp, udp, -);
local[0] -> CheckICMPHeader -> ping :: ICMPPingResponder -> routes;
ping[1], local[1] -> IPPrint("for us") -> Discard;
local[2] -> CheckUDPHeader -> ICMPError(lan0, unreachable, port) -> errors;
local[3] -> ICMPError(lan0, unreachable, protocol) -> errors;

routes[1] -> if0;
routes[2] -> if1;
routes[3] -> if2;
routes[4] -> if3;
routes[5] -> Discard;
