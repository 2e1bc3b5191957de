// Limits the rate of a source, and drops early when a queue fills (RED).
//
//   cargo run --release -- run --simtime --stats conf/rate-limiter.click
//   cargo run --release -- run --simtime --stats conf/rate-limiter.click RATE=100
//
// A source creates 1000 packets a second for ten seconds; RATE a second leave. RED drops at random
// while the queue grows, so it never fills. With --simtime the ten seconds take no time, and all
// runs are identical.

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
