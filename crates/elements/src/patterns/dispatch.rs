//! Sends the packets of a batch to where they go.

use warpswitch_graph::{Context, Fate};
use warpswitch_packet::Batch;

use super::run::DROP;

/// Sends each packet of `batch` through the output that `outputs` has for it, in order; those with
/// [`DROP`] are dropped for reason number `reason`.
pub(super) fn dispatch(cx: &mut Context<'_>, mut batch: Batch, outputs: &[u32], reason: usize) {
    debug_assert_eq!(batch.len(), outputs.len());
    let Some(&main) = outputs.first() else { return cx.pool().recycle_empty(batch) };
    if outputs.iter().any(|&output| output != main) {
        let mut outputs = outputs.iter();
        cx.sort(&mut batch, |_, _| match outputs.next() {
            Some(&DROP) | None => Fate::Drop(reason),
            Some(&output) if output == main => Fate::Pass,
            Some(&output) => Fate::Emit(output as usize),
        });
    } else if main == DROP {
        return cx.drop_batch(batch, reason);
    }
    // With `main` to be dropped nothing is left here.
    cx.emit_batch(main as usize, batch);
}
