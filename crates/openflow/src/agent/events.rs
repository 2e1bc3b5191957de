//! Asynchronous messages: which controllers get them.

use warpswitch_rules::openflow::{FlowRemoved, PacketIn, PacketInReason, port};

use super::connection::{Connection, Stage};
use super::{Agent, AgentConfig};
use crate::flows::reason_bit;
use crate::oxm::pipeline_fields;
use crate::{Message, NO_BUFFER, PacketInMessage, PortStatus};

/// The most bytes of a frame in a packet-in message: its match has to fit too.
const DATA_BYTES_MAX: usize = 65_000;

impl Agent {
    /// Sends a packet to the controllers that want it.
    ///
    /// A frame of which a controller wants a part only is buffered for it.
    pub fn packet_in(&mut self, packet: &PacketIn, now_ns: u64) {
        let matching = pipeline_fields(&packet.key);
        let mut buffer = None;
        let AgentConfig { packet_ins_max, output_bytes_max, .. } = self.config;
        let bit = 1 << packet.reason as u32;
        for connection in self.connections.values_mut() {
            if !is_receiver(connection, connection.masks().packet_in, bit) {
                continue;
            }
            let has_room = connection.output.packet_ins() < packet_ins_max
                && connection.output.waiting().len() <= output_bytes_max;
            if !has_room {
                connection.stats.packet_ins_dropped += 1;
                continue;
            }
            let wanted_len = wanted_len(connection, packet);
            let mut buffer_id = NO_BUFFER;
            let mut data_len = packet.frame.len();
            if wanted_len < data_len {
                let buffers = &mut self.buffers;
                let in_port = packet.key[0];
                let id =
                    *buffer.get_or_insert_with(|| buffers.insert(in_port, &packet.frame, now_ns));
                if let Some(id) = id {
                    (buffer_id, data_len) = (id, wanted_len);
                }
            }
            let message = Message::PacketIn(PacketInMessage {
                buffer_id,
                total_len: u16::try_from(packet.frame.len()).unwrap_or(u16::MAX),
                reason: packet.reason,
                table: packet.table,
                cookie: packet.cookie,
                matching,
                data: packet.frame[..data_len.min(DATA_BYTES_MAX)].to_vec(),
            });
            connection.output.push_packet_in(&message.encode(0));
            connection.stats.packet_ins += 1;
        }
    }

    /// Reports a removed flow, if it was added with the flag for that.
    pub fn flow_removed(&mut self, removed: &FlowRemoved) {
        if removed.stats.flow.flags.send_flow_removed {
            let bit = reason_bit(removed.reason);
            let message = Message::FlowRemoved(removed.clone()).encode(0);
            self.send_all(&message, |connection| {
                is_receiver(connection, connection.masks().flow_removed, bit)
            });
        }
    }

    /// Reports a change of a port.
    pub fn port_status(&mut self, status: &PortStatus) {
        let bit = 1 << status.change as u32;
        let message = Message::PortStatus(status.clone()).encode(0);
        self.send_all(&message, |connection| {
            is_receiver(connection, connection.masks().port_status, bit)
        });
    }

    /// Queues a message; a controller whose queue is full for longer is closed, because it would
    /// miss a change of state.
    fn send_all(&mut self, message: &[u8], is_receiver: impl Fn(&Connection) -> bool) {
        let waiting_max = 2 * self.config.output_bytes_max;
        for connection in self.connections.values_mut().filter(|c| is_receiver(c)) {
            if connection.output.waiting().len() > waiting_max {
                connection.close("the controller does not read its messages");
            } else {
                connection.output.push(message);
            }
        }
    }
}

fn is_receiver(connection: &Connection, mask: u32, bit: u32) -> bool {
    connection.stage == Stage::Open && mask & bit != 0
}

/// Bytes of the frame that the controller wants.
fn wanted_len(connection: &Connection, packet: &PacketIn) -> usize {
    let max_len = match packet.reason {
        PacketInReason::InvalidTtl => connection.miss_len,
        PacketInReason::NoMatch | PacketInReason::Action => packet.max_len,
    };
    if max_len == port::NO_BUFFER { usize::MAX } else { max_len.into() }
}
