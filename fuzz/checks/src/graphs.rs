//! Configurations, and the packets that pass through them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use warpswitch_graph::language::{flatten, load};
use warpswitch_graph::{Registry, Router, simulate};

/// All classes.
fn registry() -> Registry {
    warpswitch_offload::register(warpswitch_elements::registry())
}

/// A configuration of any bytes is refused or read, and what was read reads back from its flat
/// form. It is not run: sources and files are whatever the input says.
pub fn configuration(data: &[u8]) {
    let registry = registry();
    let globals = BTreeMap::new();
    match load("fuzz", data, &registry, &globals, None) {
        Err(errors) => assert!(!errors.to_click().is_empty()),
        Ok(loaded) => {
            let text = flatten(&loaded.graph);
            // A text that variables unbalanced does not read back; what does is the same.
            if let Ok(again) = load("flat", text.as_bytes(), &registry, &globals, None) {
                assert_eq!(flatten(&again.graph), text);
            }
        }
    }
}

/// Every packet path there is, its errors on optional outputs included.
const PATHS: &str = include_str!("paths.click");

thread_local! {
    static ROUTER: RefCell<Router> = RefCell::new({
        let made = simulate::router(PATHS, &registry());
        made.unwrap_or_else(|errors| panic!("{}", errors.to_click())).0
    });
}

/// Frames of any bytes pass through elements of every area; none is lost. The input is cut into
/// frames: two bytes say how long, the next so many are one.
pub fn frames(data: &[u8]) {
    ROUTER.with_borrow_mut(|router| {
        let entry = |n: usize| router.graph().find(&format!("in{n}"));
        let entries: Vec<usize> = (0..).map_while(entry).collect();
        let mut rest = data;
        let mut turn = 0;
        while let Some((&[high, low], more)) = rest.split_first_chunk() {
            let len = usize::from(u16::from_be_bytes([high & 0x0f, low])).min(more.len());
            let (frame, more) = more.split_at(len);
            let mut batch = router.pool().batch();
            batch.push(router.pool().packet_of(frame));
            router.push(entries[turn % entries.len()], 0, batch);
            turn += usize::from(high >> 7);
            rest = more;
        }
        router.run(&mut simulate::SimulatedHost::default());
        assert_eq!(router.packets_unaccounted(), 0);
    });
}
