// Passes frames from one side to the other, both ways, and counts them.
//
//   cargo run --release -- run --stats conf/forwarder.click
//
// Frames come from conf/captures/lan0.pcap and lan1.pcap; OUT0 and OUT1 name the files they go to.

define($IN0 conf/captures/lan0.pcap, $IN1 conf/captures/lan1.pcap,
       $OUT0 lan0.out.pcap, $OUT1 lan1.out.pcap);

FromDump($IN0) -> to1 :: Counter -> ToDump($OUT1, SNAPLEN 0);
FromDump($IN1) -> to0 :: Counter -> ToDump($OUT0, SNAPLEN 0);
