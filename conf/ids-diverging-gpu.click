// conf/ids-diverging.click with a device chain: same frames and alerts, in the same order.
//
//   cargo run --release -- run --stats conf/ids-diverging-gpu.click --offload always --device host
//
// With a GPU '--offload always' is enough; without a device the worker does all the work. Both
// matchers are in one chain. Each inspects the packets that the classifier annotated with its
// number: predicates replace separate paths.

define($IN conf/captures/ids.pcap, $FLOWS conf/ids-diverging.rules,
       $RULES_WEB conf/ids.rules, $RULES_REST conf/ids.rules,
       $EVE_WEB eve-web.json, $EVE_REST eve-rest.json,
       $OUT0 lan0.out.pcap, $OUT1 lan1.out.pcap);

FromDump($IN, BURST 64, STOP true)
  -> in :: Counter
  -> frames :: Classifier(12/0800, -)
  -> CheckIPHeader(14)
  -> batcher :: Batcher(SIZE 4096, IDLE true)
  -> HostToDeviceMemcpy
  -> flows :: GPUSDNClassifier(RULES $FLOWS, ANNO 40)
  -> routes :: GPUIPLookup(10.0.0.0/24 0, 10.0.1.0/24 1, 0.0.0.0/0 2, ANNO 44)
  -> web :: GPUIDSMatcher(RULES $RULES_WEB, OUT $EVE_WEB, ANNO 24, CHK_ANNO 40=0)
  -> rest :: GPUIDSMatcher(RULES $RULES_REST, OUT $EVE_REST, ANNO 24, CHK_ANNO 40=1)
  -> DeviceToHostMemcpy
  -> GPUCompletionQueue
  -> Debatcher
  -> which :: Dispatcher(ANNO 40);

frames[1] -> Discard;
which[0], which[1] -> Strip(14) -> out :: Dispatcher(ANNO 44);

out[0] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:00:00, 02:00:00:00:00:0a)
  -> out0 :: Counter -> ToDump($OUT0, SNAPLEN 0);
out[1] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:01:00, 02:00:00:00:01:0b)
  -> out1 :: Counter -> ToDump($OUT1, SNAPLEN 0);
out[2] -> Discard;

DriverManager(wait_stop,
              print "$(in.count) frames came, $(out0.count) left by lan0, $(out1.count) by lan1",
              print "$(web.alerts) alerts are in $EVE_WEB, $(rest.alerts) in $EVE_REST",
              stop);
