// An IPv4 router (RFC 1812) with four interfaces and a default route.
//
//   cargo run --release -- run --stats conf/ip-router-4.click
//
// lan0 to lan3 are 10.0.0.0/24 to 10.0.3.0/24, and the router is 10.0.N.1 on each. The default
// gateway is 10.0.3.254 on lan3; 10.0.2.254 on lan2 leads to 172.16.0.0/12. The MTU of lan2 is 1280
// bytes. Each lan's traffic is in conf/captures/four-lanN.pcap. Sent packets are printed, and
// written to the files OUT0 to OUT3.
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

// An interface, both directions.
// Input 0: packets routed to it. Output 0: packets received. Output 1: ICMP errors, to be routed.
elementclass Interface { $name, $color, $mtu, $in, $out |
  // In: accepts frames for it, answers ARP, passes ARP replies on, paints packets.
  FromDump($in, TIMING $TIMING, STOP true)
    -> HostEtherFilter($name)
    -> sort :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  sort[0] -> ARPResponder($name) -> send :: Queue(200) -> ToDump($out, SNAPLEN 0);
  sort[1] -> [1]arp :: ARPQuerier($name);
  sort[2] -> Paint($color) -> Strip(14) -> [0]output;
  sort[3] -> Discard;

  // Out: sends ICMP errors, fragments long packets. A sender on the same link gets a redirect if
  // the packet is forwarded.
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

  // ARP queries are sent like frames. Packets of unresolved next hops get an ICMP error.
  arp[1] -> send;
  arp[2] -> ICMPError($name, unreachable, host) -> [1]output;
}

if0 :: Interface(lan0, 1, 1500, $IN0, $OUT0);
if1 :: Interface(lan1, 2, 1500, $IN1, $OUT1);
if2 :: Interface(lan2, 3, 1280, $IN2, $OUT2);
if3 :: Interface(lan3, 4, 1500, $IN3, $OUT3);

// The run ends after all captures and their consequences; otherwise it would wait for the ARP tables
// to age. WAIT=4s leaves time to give up silent neighbours.
DriverManager(wait_stop 4, wait_time $WAIT, stop);

// Output 0: the router itself. 1 to 4: the interfaces. 5: groups and addresses of no host.
routes :: StaticIPLookup(
  10.0.0.1/32 0, 10.0.1.1/32 0, 10.0.2.1/32 0, 10.0.3.1/32 0,
  10.0.0.0/24 1, 10.0.0.0/32 5, 10.0.0.255/32 5,
  10.0.1.0/24 2, 10.0.1.0/32 5, 10.0.1.255/32 5,
  10.0.2.0/24 3, 10.0.2.0/32 5, 10.0.2.255/32 5,
  10.0.3.0/24 4, 10.0.3.0/32 5, 10.0.3.255/32 5,
  172.16.0.0/12 10.0.2.254 3,
  0.0.0.0/0 10.0.3.254 4,
  0.0.0.0/8 5, 127.0.0.0/8 5, 224.0.0.0/3 5);

// Accepts valid packets whose source is a host address other than the router's own.
if0, if1, if2, if3
  -> check :: CheckIPHeader(INTERFACES 10.0.0.1/24 10.0.1.1/24 10.0.2.1/24 10.0.3.1/24,
                            BADSRC 0.0.0.0/8 127.0.0.0/8 224.0.0.0/3 10.0.0.1 10.0.1.1 10.0.2.1 10.0.3.1)
  -> routes;

// ICMP errors are control traffic: precedence 6, class selector 48. They are limited to a thousand
// a second.
errors :: SetIPDSCP(48) -> limit :: RatedSplitter(1000);
limit[0] -> routes;
limit[1] -> Discard;
if0[1], if1[1], if2[1], if3[1] -> errors;

// The router answers pings. Other protocols get an ICMP error, except TCP, which is dropped.
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
