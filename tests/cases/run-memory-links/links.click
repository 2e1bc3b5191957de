// A switch between two links; the far end of each sends or receives.
FromDevice(gen:60:1000) -> Queue(2000) -> ToDevice(mem:left:peer);
FromDevice(mem:left) -> Queue(2000) -> ToDevice(mem:right);
FromDevice(mem:right) -> Queue(2000) -> ToDevice(mem:left);
FromDevice(mem:right:peer) -> came :: Counter(COUNT_CALL 1000 done.run) -> Discard;
done :: Script(TYPE PASSIVE, print "$(came.count) frames, $(came.byte_count) bytes", stop);
