// Forwards frames between two interfaces and counts them.
//
//   cargo run --release -- run --stats conf/forwarder.click
//
// Frames come from conf/captures/lan0.pcap and lan1.pcap and go to the files OUT0 and OUT1.

define($IN0 conf/captures/lan0.pcap, $IN1 conf/captures/lan1.pcap,
       $OUT0 lan0.out.pcap, $OUT1 lan1.out.pcap);

FromDump($IN0, STOP true) -> to1 :: Counter -> ToDump($OUT1, SNAPLEN 0);
FromDump($IN1, STOP true) -> to0 :: Counter -> ToDump($OUT0, SNAPLEN 0);

DriverManager(wait_stop 2,
              print "$(to1.count) frames from $IN0 are in $OUT1",
              print "$(to0.count) frames from $IN1 are in $OUT0",
              stop);
