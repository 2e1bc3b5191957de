// The first reply arrives twice, the second one is lost.
ping :: ICMPPingSource(10.0.0.1, 10.0.0.2, INTERVAL 0.2, LIMIT 3, DATA abcdefgh, STOP true)
  -> ICMPPingResponder
  -> Queue
  -> DelayUnqueue(0.0125)
  -> sequence :: Classifier(26/0001, 26/0002, -);
sequence[0] -> twice :: Tee -> ping;
twice[1] -> ping;
sequence[1] -> Discard;
sequence[2] -> ping;
