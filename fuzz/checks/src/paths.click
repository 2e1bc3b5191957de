// What the check `graph_frames` sends packets through. Each frame enters at one of the `inN`.

AddressInfo(lan0 10.0.0.1 10.0.0.0/24 02:00:00:00:00:00,
            lan1 10.0.1.1 10.0.1.0/24 02:00:00:00:01:00);

// Nothing but bytes.
Idle -> in0 :: Counter -> t :: Tee -> Strip(14) -> Unstrip(20) -> Truncate(900) -> Pad(80)
  -> q :: Queue(50) -> RED(5, 20, 0.1) -> Unqueue(7) -> EtherMirror -> VLANEncap(5, 1)
  -> VLANDecap -> EtherVLANEncap(0x0800, 1:2:3:4:5:6, 2:3:4:5:6:7, 9) -> Discard;
t[1] -> EnsureEther(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> StripEtherVLANHeader -> Discard;

// An IPv4 router.
Idle -> in1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, 12/86dd, -);
in1[0] -> ARPResponder(lan0) -> Discard;
in1[1] -> [1]arp :: ARPQuerier(lan0) -> Discard;
arp[1] -> Discard;
in1[2] -> Paint(1) -> Strip(14)
  -> check :: CheckIPHeader(INTERFACES 10.0.0.1/24 10.0.1.1/24, VERBOSE false)
  -> routes :: StaticIPLookup(10.0.0.1/32 0, 10.0.0.0/24 1, 10.0.1.0/24 1, 0.0.0.0/0 10.0.0.9 1);
in1[3] -> Strip(14) -> in2 :: CheckIP6Header -> hops :: DecIP6HLIM -> big :: CheckIP6MTU(1280)
  -> IP6Mirror -> SetICMP6Checksum -> Discard;
hops[1] -> ICMP6Error(2001:db8::1, timeexceeded, transit) -> Discard;
big[1] -> ICMP6Error(2001:db8::1, packettoobig) -> Discard;
in1[4] -> HostEtherFilter(02:00:00:00:00:00) -> EtherMirror -> Discard;
check[1] -> Discard;
routes[0] -> ICMPPingResponder -> Discard;
routes[1] -> DropBroadcasts -> redirect :: PaintTee(1) -> options :: IPGWOptions(lan0)
  -> FixIPSrc(lan0) -> ttl :: DecIPTTL -> cut :: IPFragmenter(200) -> IPReassembler
  -> [0]arp;
arp[2] -> ICMPError(lan0, unreachable, host) -> routes;
redirect[1] -> ICMPError(lan0, redirect, host) -> Discard;
options[1] -> ICMPError(lan0, parameterproblem) -> Discard;
ttl[1] -> ICMPError(lan0, timeexceeded) -> Discard;
cut[1] -> ICMPError(lan0, unreachable, needfrag) -> Discard;

// Patterns, few and many, and rewriters.
Idle -> in3 :: MarkIPHeader(14) -> few :: IPClassifier(tcp syn and dst port 80, udp or icmp type echo,
  ip frag, src net 10/8 and not tcp, ip[8:2] > 300, -);
few[0] -> [0]nat :: IPRewriter(pattern 192.0.2.1 1024-2000 - - 0 1, drop);
few[1] -> [1]nat;
few[2] -> IPPrint(ACTIVE false) -> Discard;
few[3] -> IPMirror -> SetTCPChecksum -> SetUDPChecksum -> SetIPChecksum -> Discard;
few[4] -> CheckTCPHeader -> CheckUDPHeader -> CheckICMPHeader -> Discard;
few[5] -> many :: IPFilter(
  allow src host 1.0.0.1, allow src host 1.0.0.2, allow src host 1.0.0.3, allow src host 1.0.0.4,
  allow src host 1.0.0.5, allow src host 1.0.0.6, allow src host 1.0.0.7, allow src host 1.0.0.8,
  allow dst port 1, allow dst port 2, allow dst port 3, allow dst port 4, allow dst port 5,
  allow dst port 6, allow dst port 7, allow dst port 8, allow tcp opt fin, deny ip ttl 3,
  allow dst net 10.0.0.0/8 and src port >= 1024) -> Discard;
nat[0] -> ping :: ICMPPingRewriter(pattern 192.0.2.1 - 0 1) -> Discard;
ping[1] -> Discard;
nat[1] -> Discard;
