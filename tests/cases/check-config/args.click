InfiniteSource(LIMIT ten, BURST) -> Strip(-1) -> Discard;
Script(frobnicate, goto nowhere);
