// Several things are wrong here.
src :: InfiniteSource(LIMIT ten) -> Cuonter -> Discard;
src -> Discard;
q :: Queue(5);
lost -> Discard;
