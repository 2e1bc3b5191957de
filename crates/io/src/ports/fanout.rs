//! Packet sockets that share the frames of an interface: its receive queues.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use crate::sys::packet_socket;

/// The sockets of one interface. The kernel distributes frames among those that joined.
#[derive(Debug, Default)]
pub(super) struct Fanout {
    /// The number of the group, once the first socket has joined.
    id: Mutex<Option<u16>>,
}

impl Fanout {
    /// Has a bound socket join.
    pub(super) fn join(&self, socket: &OwnedFd) -> io::Result<()> {
        let mut id = self.id.lock().unwrap_or_else(PoisonError::into_inner);
        // The group of an interface that was removed accepts no socket of its successor.
        let joined = id.map(|id| packet_socket::join_fanout(socket, Some(id)));
        *id = match joined {
            Some(Ok(joined)) => Some(joined),
            Some(Err(_)) | None => Some(packet_socket::join_fanout(socket, None)?),
        };
        Ok(())
    }
}
