//! What tests of several modules need.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use warpswitch_packet::{Batch, Packet, Pool, RxPort, Transmitted, TxPort};

/// A device whose frames the test gives and takes.
#[derive(Clone, Default)]
pub(crate) struct Wire {
    pub(crate) incoming: Arc<Mutex<VecDeque<Vec<u8>>>>,
    pub(crate) sent: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl RxPort for Wire {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, frames_max: usize) -> usize {
        let mut incoming = self.incoming.lock().unwrap();
        let count = frames_max.min(incoming.len());
        incoming.drain(..count).for_each(|frame| batch.push(pool.packet_of(&frame)));
        count
    }

    fn device(&self) -> String {
        "wire".to_owned()
    }
}

impl TxPort for Wire {
    fn send(&mut self, packets: &[Packet]) -> Transmitted {
        self.sent.lock().unwrap().extend(packets.iter().map(|packet| packet.data().to_vec()));
        Transmitted::Frames(packets.len())
    }
}
