// Forwards frames by a flow table behind a cache of evolving rules.
//
//   cargo run --release -- run conf/sdn-cached.click
//   cargo run --release -- run conf/sdn-cached.click CACHE=none
//
// Two services get most frames, each for 256 addresses; one frame in nine goes to any address. The
// cache derives a few rules from sampled frames and answers the rest of them without the engine.
// CACHE=auto measures whether that saves time. Results are the same with any value.

define($CACHE storm, $ENGINE hypercuts, $RULES conf/sdn-cached.rules, $FRAMES 100000);

table :: SDNClassifier(RULES $RULES, ENGINE $ENGINE, CACHE $CACHE);

web :: InfiniteSource(DATA \<020000000002 020000000001 0800 45000028 00000000 40060000 0a000001
                            c6336401 9c400050 00000000 00000000 50020000 00000000>,
                      LIMIT $FRAMES, BURST 5, STOP true);
dns :: InfiniteSource(DATA \<020000000002 020000000001 0800 4500001c 00000000 40110000 0a000001
                            c6336401 9c410035 00080000>, LIMIT $FRAMES, BURST 3);
any :: InfiniteSource(DATA \<020000000002 020000000001 0800 45000028 00000000 40060000 0a000001
                            c6336401 9c42232a 00000000 00000000 50020000 00000000>,
                      LIMIT $FRAMES, BURST 1);

// StoreIPAddress writes the address annotation over the destination.
web -> SetRandIPAddress(198.51.100.0/24) -> StoreIPAddress(30) -> in :: Counter;
dns -> SetRandIPAddress(198.51.100.0/24) -> StoreIPAddress(30) -> in;
any -> SetRandIPAddress(0.0.0.0/0) -> StoreIPAddress(30) -> in;

in -> table;
table[0] -> port0 :: Counter -> Discard;
table[1] -> port1 :: Counter -> Discard;

DriverManager(wait_stop,
              print "$(in.count) frames: $(port0.count) left by port 0, $(port1.count) by port 1",
              print "cache: $(table.cache_hit_ratio) of the lookups, $(table.cached_rules) rules, $(table.cache_swaps) versions, in use: $(table.cache_on)",
              stop);
