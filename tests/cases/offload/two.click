// Two sources into one chain: it belongs to one worker, whoever runs them.
one :: InfiniteSource(DATA \<0a000001>, LIMIT 20000, BURST 32) -> GetIPAddress(0) -> b :: Batcher;
two :: InfiniteSource(DATA \<c0a80001>, LIMIT 20000, BURST 32) -> GetIPAddress(0) -> b;
b -> HostToDeviceMemcpy -> g :: GPUIPLookup(10.0.0.0/8 0, 0.0.0.0/0 1) -> DeviceToHostMemcpy
  -> GPUCompletionQueue -> Debatcher -> by :: Dispatcher;
by[0] -> zero :: Counter -> Discard;
by[1] -> rest :: Counter -> Discard;
