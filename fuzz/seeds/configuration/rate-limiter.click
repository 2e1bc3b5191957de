// Lets a source through at a set rate, and drops early when a queue fills.
//
//   cargo run --release -- run --simtime --stats conf/rate-limiter.click
//   cargo run --release -- run --simtime --stats conf/rate-limiter.click RATE=100
//
// A source makes 1000 packets a second for ten seconds; RATE of them leave a second. RED drops at
// random while the queue grows, so the queue never fills. With --simtime the ten seconds take no
// time, and every run is the same.

define($RATE 400, $SECONDS 10);

source :: RatedSource(RATE 1000, LIMIT -1)
  -> in :: Counter
  -> red :: RED(20, 80, 0.05)
  -> queue :: Queue(200)
  -> limit :: RatedUnqueue($RATE)
  -> out :: Counter
  -> Discard;

Script(wait $SECONDS,
       print "in    $(in.count)",
       print "out   $(out.count)",
       print "early $(red.drops)",
       print "held  $(queue.length)",
       stop);
