//! Sends the packets of a batch to where they go.

use warpswitch_graph::{Context, Fate};
use warpswitch_packet::Batch;

/// Outputs from here on stand for reasons of drops.
const DROPS: u32 = u32::MAX - 15;

/// What stands for a drop for reason number `reason` where outputs are expected.
pub(super) const fn drop_for(reason: u32) -> u32 {
    u32::MAX - reason
}

/// Sends each packet of `batch` through the output that `outputs` has for it, in order, or drops it
/// if that is what [`drop_for`] gave.
pub(super) fn dispatch(cx: &mut Context<'_>, mut batch: Batch, outputs: &[u32]) {
    debug_assert_eq!(batch.len(), outputs.len());
    let Some(&main) = outputs.first() else { return cx.pool().recycle_empty(batch) };
    if outputs.iter().any(|&output| output != main) {
        let mut outputs = outputs.iter();
        cx.sort(&mut batch, |_, _| match outputs.next() {
            Some(&output) if output >= DROPS => Fate::Drop((u32::MAX - output) as usize),
            Some(&output) if output == main => Fate::Pass,
            Some(&output) => Fate::Emit(output as usize),
            None => Fate::Drop(0),
        });
    } else if main >= DROPS {
        return cx.drop_batch(batch, (u32::MAX - main) as usize);
    }
    // Of packets to be dropped none are left here.
    cx.emit_batch(main as usize, batch);
}
