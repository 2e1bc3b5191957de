//! What the agent does with each request.

use warpswitch_rules::openflow::{FlowAction, port};

use super::{Agent, ConnectionId, Datapath};
use crate::{
    AsyncConfig, ErrorCode, ExperimenterMessage, Features, FlowModMessage, Message, NO_BUFFER,
    PacketOut, PortMod, Role, RoleMessage, SwitchConfig, TableMod, capability,
};

/// Bits of a table's setting that OpenFlow 1.3 reserves without a meaning.
const RESERVED_TABLE_BITS: u32 = 3;

/// Generation id in replies before the first election of a master.
const NO_GENERATION: u64 = u64::MAX;

impl Agent {
    /// Processes a request, and queues its reply.
    pub(super) fn request(
        &mut self,
        id: ConnectionId,
        xid: u32,
        message: Message,
        now_ns: u64,
        datapath: &mut dyn Datapath,
    ) -> Result<(), ErrorCode> {
        if is_write(&message) {
            self.check_writer(id)?;
        }
        match message {
            Message::EchoRequest(data) => self.reply(id, xid, &Message::EchoReply(data)),
            Message::EchoReply(_) | Message::Hello(_) | Message::Error(_) => {}
            Message::FeaturesRequest => {
                let features = self.features(datapath);
                self.reply(id, xid, &Message::FeaturesReply(features));
            }
            Message::GetConfigRequest => {
                let miss_len = self.connections.get(&id).map_or(0, |c| c.miss_len);
                let config = SwitchConfig { fragments: self.fragments, miss_len };
                self.reply(id, xid, &Message::GetConfigReply(config));
            }
            Message::SetConfig(config) => self.set_config(id, config, datapath)?,
            Message::FlowMod(message) => self.flow_mod(&message, now_ns, datapath)?,
            Message::GroupMod(change) => datapath.group_mod(&change, now_ns)?,
            Message::MeterMod(change) => datapath.meter_mod(&change, now_ns)?,
            Message::PortMod(change) => {
                check_port_mod(&change, datapath)?;
                datapath.port_mod(&change);
            }
            Message::TableMod(change) => check_table_mod(change, datapath)?,
            Message::PacketOut(packet) => self.packet_out(packet, now_ns, datapath)?,
            Message::BarrierRequest => {
                datapath.barrier();
                self.reply(id, xid, &Message::BarrierReply);
            }
            Message::RoleRequest(request) => {
                let reply = self.set_role(id, request)?;
                self.reply(id, xid, &Message::RoleReply(reply));
            }
            Message::GetAsyncRequest => {
                let config = self.connections.get(&id).map(|c| c.asynchronous);
                let reply = Message::GetAsyncReply(config.unwrap_or_default());
                self.reply(id, xid, &reply);
            }
            Message::SetAsync(config) => self.set_async(id, config),
            Message::QueueGetConfigRequest(number) => {
                let reply = queue_config(number, now_ns, datapath)?;
                self.reply(id, xid, &reply);
            }
            Message::MultipartRequest(request) => {
                let reply = self.answer(&request, now_ns, datapath)?;
                self.reply(id, xid, &Message::MultipartReply(reply));
            }
            Message::Experimenter(message) => {
                self.experimenter(id, xid, message, now_ns, datapath)?;
            }
            _ => return Err(ErrorCode::REQUEST_BAD_TYPE),
        }
        Ok(())
    }

    pub(super) fn reply(&mut self, id: ConnectionId, xid: u32, message: &Message) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.send(xid, message);
        }
    }

    /// An error for controllers that may only read.
    pub(super) fn check_writer(&self, id: ConnectionId) -> Result<(), ErrorCode> {
        match self.connections.get(&id) {
            Some(connection) if connection.role == Role::Slave => Err(ErrorCode::REQUEST_IS_SLAVE),
            _ => Ok(()),
        }
    }

    fn features(&self, datapath: &dyn Datapath) -> Features {
        Features {
            datapath_id: self.config.datapath_id,
            buffers: self.config.buffers,
            tables: datapath.tables_len(),
            auxiliary: 0,
            capabilities: capability::FLOW_STATS
                | capability::TABLE_STATS
                | capability::PORT_STATS
                | capability::GROUP_STATS
                | capability::QUEUE_STATS,
        }
    }

    fn set_config(
        &mut self,
        id: ConnectionId,
        config: SwitchConfig,
        datapath: &mut dyn Datapath,
    ) -> Result<(), ErrorCode> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        // The limit belongs to the controller, but fragments are state of the switch.
        if connection.role != Role::Slave {
            let is_same = config.fragments == self.fragments;
            if !is_same && !datapath.set_fragments(config.fragments) {
                return Err(ErrorCode::CONFIG_BAD_FLAGS);
            }
            self.fragments = config.fragments;
        }
        connection.miss_len = config.miss_len;
        Ok(())
    }

    fn set_async(&mut self, id: ConnectionId, config: AsyncConfig) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.asynchronous = config;
        }
    }

    fn flow_mod(
        &mut self,
        message: &FlowModMessage,
        now_ns: u64,
        datapath: &mut dyn Datapath,
    ) -> Result<(), ErrorCode> {
        datapath.flow_mod(&message.change, now_ns)?;
        // Deletions have no packet.
        if message.buffer_id == NO_BUFFER || message.change.command.is_deletion() {
            return Ok(());
        }
        let (in_port, frame) = self.buffers.take(message.buffer_id, now_ns)?;
        let to_table = FlowAction::Output { port: port::TABLE, max_len: port::NO_BUFFER };
        Ok(datapath.packet_out(in_port, &[to_table], &frame, now_ns)?)
    }

    pub(super) fn packet_out(
        &mut self,
        packet: PacketOut,
        now_ns: u64,
        datapath: &mut dyn Datapath,
    ) -> Result<(), ErrorCode> {
        let frame = match packet.buffer_id {
            NO_BUFFER => packet.data,
            id => self.buffers.take(id, now_ns)?.1,
        };
        Ok(datapath.packet_out(packet.in_port, &packet.actions, &frame, now_ns)?)
    }

    fn set_role(
        &mut self,
        id: ConnectionId,
        request: RoleMessage,
    ) -> Result<RoleMessage, ErrorCode> {
        if matches!(request.role, Role::Master | Role::Slave) {
            let is_stale = self.generation.is_some_and(|generation| {
                // Generation ids wrap around.
                (request.generation_id.wrapping_sub(generation) as i64) < 0
            });
            if is_stale {
                return Err(ErrorCode::ROLE_STALE);
            }
            self.generation = Some(request.generation_id);
        }
        for (&other, connection) in &mut self.connections {
            if other == id && request.role != Role::NoChange {
                connection.role = request.role;
            } else if request.role == Role::Master && connection.role == Role::Master {
                connection.role = Role::Slave;
            }
        }
        let role = self.connections.get(&id).map_or(request.role, |connection| connection.role);
        Ok(RoleMessage { role, generation_id: self.generation.unwrap_or(NO_GENERATION) })
    }

    fn experimenter(
        &mut self,
        id: ConnectionId,
        xid: u32,
        message: ExperimenterMessage,
        now_ns: u64,
        datapath: &mut dyn Datapath,
    ) -> Result<(), ErrorCode> {
        match message {
            ExperimenterMessage::BundleControl(control) => {
                self.bundle_control(id, xid, control, now_ns, datapath)
            }
            ExperimenterMessage::BundleAdd { bundle, flags, message } => {
                self.bundle_add(id, xid, bundle, flags, message)
            }
            ExperimenterMessage::SetPacketInFormat(0) => Ok(()),
            // Packets are sent to every controller, in the layout of OpenFlow.
            ExperimenterMessage::SetPacketInFormat(_) | ExperimenterMessage::SetControllerId(_) => {
                Err(ErrorCode::REQUEST_BAD_EXP_TYPE)
            }
        }
    }
}

/// Whether a message changes the state of the switch, which a slave may not.
fn is_write(message: &Message) -> bool {
    matches!(
        message,
        Message::PacketOut(_)
            | Message::FlowMod(_)
            | Message::GroupMod(_)
            | Message::MeterMod(_)
            | Message::PortMod(_)
            | Message::TableMod(_)
            | Message::MultipartRequest(crate::MultipartRequest::SetTableFeatures)
    )
}

/// Checks that a port-mod names a port and its address.
pub(super) fn check_port_mod(change: &PortMod, datapath: &dyn Datapath) -> Result<(), ErrorCode> {
    let ports = datapath.ports();
    let port = ports.iter().find(|port| port.number == change.number);
    let port = port.ok_or(ErrorCode::PORT_BAD_PORT)?;
    if port.mac != change.mac {
        return Err(ErrorCode::PORT_BAD_HW_ADDR);
    }
    if change.advertise & !port.supported != 0 {
        return Err(ErrorCode::PORT_BAD_ADVERTISE);
    }
    Ok(())
}

fn check_table_mod(change: TableMod, datapath: &dyn Datapath) -> Result<(), ErrorCode> {
    if change.table != port::TABLE_ALL && change.table >= datapath.tables_len() {
        return Err(ErrorCode::TABLE_BAD_TABLE);
    }
    if change.config & !RESERVED_TABLE_BITS != 0 {
        return Err(ErrorCode::TABLE_BAD_CONFIG);
    }
    Ok(())
}

fn queue_config(number: u32, now_ns: u64, datapath: &dyn Datapath) -> Result<Message, ErrorCode> {
    let exists = datapath.ports().iter().any(|port| port.number == number);
    if number != port::ANY && !exists {
        return Err(ErrorCode::QUEUE_BAD_PORT);
    }
    let mut queues = datapath.queues(now_ns);
    queues.retain(|queue| number == port::ANY || queue.port == number);
    Ok(Message::QueueGetConfigReply { port: number, queues })
}
