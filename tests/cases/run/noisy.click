src :: InfiniteSource(LIMIT $N) -> c :: Counter -> Discard;
Script(wait 1s, print "c: $(c.count)");
