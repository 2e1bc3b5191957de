// Flow classifier, detection and route lookup in series.
//
//   cargo run --release -- run --stats conf/ids-router.click
//
// conf/ids-router.rules, in ovs-ofctl's flow syntax, is the input policy; packets that it drops are
// not inspected. Otherwise like conf/dpi-router.click.

define($IN conf/captures/ids.pcap, $FLOWS conf/ids-router.rules, $RULES conf/ids.rules,
       $EVE eve.json, $OUT0 lan0.out.pcap, $OUT1 lan1.out.pcap);

FromDump($IN, BURST 64, STOP true)
  -> in :: Counter
  -> flows :: SDNClassifier(RULES $FLOWS)
  -> Strip(14)
  -> CheckIPHeader
  -> ids :: IDSMatcher(RULES $RULES, OUT $EVE, LINK ip)
  -> routes :: StaticIPLookup(10.0.0.0/24 0, 10.0.1.0/24 1, 0.0.0.0/0 2);

flows[1] -> Discard;

routes[0] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:00:00, 02:00:00:00:00:0a)
  -> out0 :: Counter -> ToDump($OUT0, SNAPLEN 0);
routes[1] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:01:00, 02:00:00:00:01:0b)
  -> out1 :: Counter -> ToDump($OUT1, SNAPLEN 0);
routes[2] -> Discard;

DriverManager(wait_stop,
              print "$(in.count) frames came, $(out0.count) left by lan0, $(out1.count) by lan1",
              print "$(ids.alerts) alerts are in $EVE; $(ids.rules) rules were looked for",
              stop);
