// Two detection paths: one matcher for web traffic, another for the rest.
//
//   cargo run --release -- run --stats conf/ids-diverging.click
//
// Each matcher has its own flows, rules and alert file; the paths meet again before the route lookup.
// Otherwise like conf/dpi-router.click.

define($IN conf/captures/ids.pcap, $RULES_WEB conf/ids.rules, $RULES_REST conf/ids.rules,
       $EVE_WEB eve-web.json, $EVE_REST eve-rest.json,
       $OUT0 lan0.out.pcap, $OUT1 lan1.out.pcap);

FromDump($IN, BURST 64, STOP true)
  -> in :: Counter
  -> frames :: Classifier(12/0800, -)
  -> Strip(14)
  -> CheckIPHeader
  -> which :: IPClassifier(tcp port 80, -);

frames[1] -> Discard;

routes :: StaticIPLookup(10.0.0.0/24 0, 10.0.1.0/24 1, 0.0.0.0/0 2);
which[0] -> web :: IDSMatcher(RULES $RULES_WEB, OUT $EVE_WEB, LINK ip) -> routes;
which[1] -> rest :: IDSMatcher(RULES $RULES_REST, OUT $EVE_REST, LINK ip) -> routes;

routes[0] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:00:00, 02:00:00:00:00:0a)
  -> out0 :: Counter -> ToDump($OUT0, SNAPLEN 0);
routes[1] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:01:00, 02:00:00:00:01:0b)
  -> out1 :: Counter -> ToDump($OUT1, SNAPLEN 0);
routes[2] -> Discard;

DriverManager(wait_stop,
              print "$(in.count) frames came, $(out0.count) left by lan0, $(out1.count) by lan1",
              print "$(web.alerts) alerts are in $EVE_WEB, $(rest.alerts) in $EVE_REST",
              stop);
