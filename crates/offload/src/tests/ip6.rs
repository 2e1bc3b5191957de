//! IPv6 chains against the same configuration without them.

use super::*;

const ROUTES6: &str =
    "2001:db8::/64 0, 2001:db8:0:1::/64 fe80::9 1, 2001:db8:0:1::4/128 2, 8000::/1 2";

/// IPv6 frames with and without VLAN tags, with extension headers, truncated, and other frames.
fn frame6(draw: &mut Prng) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    if draw.below(8) == 0 {
        frame.extend([0x81, 0, 0, draw.below(4) as u8]);
    }
    frame.extend(if draw.below(12) == 0 { [0x08, 0x00] } else { [0x86, 0xdd] });
    let payload = draw.below(40) as usize;
    let options = if draw.below(6) == 0 { 8 } else { 0 };
    let next = if options > 0 { 0 } else { 17 };
    frame.extend([0x60, 0, 0, 0, 0, (options + 8 + payload) as u8, next, 64]);
    frame.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    frame.push(1 + draw.below(5) as u8);
    let networks = [[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0], [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 1]];
    let elsewhere = [[0x90, 1, 2, 3, 0, 0, 0, 0], [0x30, 1, 2, 3, 0, 0, 0, 0]];
    frame.extend([networks, elsewhere].concat()[draw.below(4) as usize]);
    frame.extend([0, 0, 0, 0, 0, 0, 0, draw.below(6) as u8]);
    if options > 0 {
        frame.extend([17, 0, 1, 4, 0, 0, 0, 0]);
    }
    frame.extend([4, 0, 0, 80, 0, 8 + payload as u8, 0, 0]);
    frame.extend((0..payload).map(|_| draw.below(256) as u8));
    if draw.below(15) == 0 {
        frame.truncate(draw.below(70) as usize);
    }
    frame
}

/// Sends IPv6 packets of tagged and untagged frames to `what`, without their frame header. Then
/// stores the gateway, if any, in place of the destination.
fn serial(front: &str, what: &str) -> String {
    let ways = (0..3).map(|way| format!("rt[{way}] -> StoreIP6Address(dst) -> way{way};\n"));
    format!(
        "FromDump(IN, STOP true) -> {front} cl :: Classifier(12/86dd, 12/8100 16/86dd, -);
        cl[0] -> Strip(14) -> ip :: CheckIP6Header -> GetIP6Address(24) -> {what};
        cl[1] -> Strip(18) -> ip; cl[2] -> way3;\n{}",
        ways.collect::<String>()
    )
}

fn ahead6(batcher: &str) -> String {
    let chain = chain(batcher, "gr :: GPUIP6Lookup(FOR rt)");
    serial(&format!("{chain} ->"), &format!("rt :: LookupIP6Route({ROUTES6})"))
}

fn instead6(batcher: &str) -> String {
    let chain = chain(batcher, &format!("gr :: GPUIP6Lookup({ROUTES6}, ANNO 44)"));
    serial("", &format!("{chain} -> rt :: Dispatcher(ANNO 44)"))
}

#[test]
fn ipv6_chains_keep_the_output() {
    let folder = Folder::with(frame6);
    let config = folder.config(&serial("", &format!("rt :: LookupIP6Route({ROUTES6})")));
    run(&config, None);
    assert!(folder.outputs().iter().all(|bytes| bytes.len() > 1000));
    agree(&folder, ahead6, &["rt.ahead"]);
    agree(&folder, instead6, &[]);
}

#[test]
fn applies_ipv6_route_changes_during_lookups_ahead() {
    let chain = chain("Batcher(SIZE 64, IDLE true)", "GPUIP6Lookup(FOR rt)");
    let config = format!(
        "s :: InfiniteSource(DATA \\<020000000002 020000000001 86dd
            6000 0000 0008 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002
            0400 0050 0008 0000>, LIMIT 100)
        -> {chain} -> Strip(14) -> CheckIP6Header -> GetIP6Address(24)
        -> rt :: LookupIP6Route(2001:db8::/32 0, ::/0 1);
        rt[0] -> a :: Discard; rt[1] -> b :: Discard;",
    );
    let transcript = Transcript::with_device(pool(FaultPlan::default()));
    let made = router_for(&config, &crate::registry(), &transcript);
    let mut router = made.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
    let mut again = |call: Option<(&str, &str)>| {
        if let Some((handler, value)) = call {
            router.write(handler, value).expect("it obeys");
            router.write("s.reset", "").expect("it obeys");
        }
        router.run(&mut SimulatedHost::default());
        ["a.count", "b.count", "rt.ahead"]
            .map(|handler| router.read(handler).unwrap().parse::<u32>().unwrap())
    };
    assert_eq!(again(None), [100, 0, 100]);
    assert_eq!(again(Some(("rt.add", "2001:db8::2 1"))), [100, 100, 200]);
    assert_eq!(again(Some(("rt.remove", "2001:db8::2"))), [200, 100, 300]);
    assert_eq!(again(Some(("rt.ctrl", "set 2001:db8::/32 1\nadd 1::/16 0"))), [200, 200, 400]);
}

/// A result holds for the destination in the header, not for another annotation.
#[test]
fn ignores_results_for_other_addresses() {
    let chain = chain("Batcher(SIZE 64, IDLE true)", "GPUIP6Lookup(FOR rt)");
    let config = format!(
        "InfiniteSource(DATA \\<020000000002 020000000001 86dd
            6000 0000 0008 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002
            0400 0050 0008 0000>, LIMIT 100, STOP true)
        -> {chain} -> Strip(14) -> CheckIP6Header -> SetIP6Address(3::3)
        -> rt :: LookupIP6Route(2001:db8::/32 0, ::/0 1);
        rt[0] -> a :: Discard; rt[1] -> b :: Discard;",
    );
    let (mut router, _) = run(&config, Some(&pool(FaultPlan::default())));
    assert_eq!(
        (router.read("b.count"), router.read("rt.ahead")),
        (Ok("100".into()), Ok("0".into()))
    );
}
