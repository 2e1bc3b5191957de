// conf/ids-router.click with a device chain: same frames and alerts, in the same order.
//
//   cargo run --release -- run --stats conf/ids-router-gpu.click --offload always --device host
//
// With a GPU '--offload always' is enough; without a device the worker does all the work. Three
// elements of one chain process each batch; the two after the classifier only frames that it sends
// to output 0, by its annotation at byte 40.

define($IN conf/captures/ids.pcap, $FLOWS conf/ids-router.rules, $RULES conf/ids.rules,
       $EVE eve.json, $OUT0 lan0.out.pcap, $OUT1 lan1.out.pcap);

FromDump($IN, BURST 64, STOP true)
  -> in :: Counter
  -> CheckIPHeader(14)
  -> batcher :: Batcher(SIZE 4096, IDLE true)
  -> HostToDeviceMemcpy
  -> flows :: GPUSDNClassifier(RULES $FLOWS, ANNO 40)
  -> routes :: GPUIPLookup(10.0.0.0/24 0, 10.0.1.0/24 1, 0.0.0.0/0 2, ANNO 44, CHK_ANNO 40=0)
  -> ids :: GPUIDSMatcher(RULES $RULES, OUT $EVE, ANNO 24, CHK_ANNO 40=0)
  -> DeviceToHostMemcpy
  -> GPUCompletionQueue
  -> Debatcher
  -> allowed :: Dispatcher(ANNO 40)
  -> Strip(14)
  -> out :: Dispatcher(ANNO 44);

allowed[1] -> Discard;

out[0] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:00:00, 02:00:00:00:00:0a)
  -> out0 :: Counter -> ToDump($OUT0, SNAPLEN 0);
out[1] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:01:00, 02:00:00:00:01:0b)
  -> out1 :: Counter -> ToDump($OUT1, SNAPLEN 0);
out[2] -> Discard;

DriverManager(wait_stop,
              print "$(in.count) frames came, $(out0.count) left by lan0, $(out1.count) by lan1",
              print "$(ids.alerts) alerts are in $EVE; $(ids.rules) rules were looked for",
              stop);
