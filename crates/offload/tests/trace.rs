//! Packets that are followed through a chain.

use warpswitch_graph::simulate::{self, SimulatedHost};

/// A packet leaves a chain with the number that it had.
#[test]
fn a_chain_keeps_the_numbers_of_traced_packets() {
    let text = "s :: InfiniteSource(LIMIT 600, LENGTH 72, BURST 100)
            -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2) -> b :: Batcher(SIZE 64, TIMEOUT 1ms)
            -> HostToDeviceMemcpy -> g :: GPUIPLookup(10/8 1, 0/0 0) -> DeviceToHostMemcpy
            -> GPUCompletionQueue -> e :: Debatcher -> by :: Dispatcher;
        by[0] -> Discard; by[1] -> d :: Discard;";
    let registry = warpswitch_offload::register(warpswitch_elements::registry());
    let made = simulate::router(text, &registry);
    let (mut router, _) = made.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
    router.trace(300, None).expect("the source is there");
    router.run(&mut SimulatedHost::default());
    router.finish().map_err(|errors| errors.to_click()).expect("the run finishes");
    let packets = router.traced().expect("packets are followed");
    assert_eq!(packets.len(), 300);
    for packet in packets {
        assert_eq!(packet.ways.len(), 1);
        let names: Vec<&str> =
            packet.ways[0].hops.iter().map(|hop| hop.element.name.as_str()).collect();
        assert!(names.contains(&"b") && names.contains(&"g"), "{names:?}");
        assert_eq!(names[names.len() - 3..], ["e", "by", "d"]);
    }
}
