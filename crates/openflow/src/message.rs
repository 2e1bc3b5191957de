//! All messages, decoded and encoded.

use warpswitch_rules::openflow::{FlowRemoved, GroupMod, MeterMod};

use crate::bytes::{Append, Reader};
use crate::header::{finish, message_type, start};
use crate::ports::write_queue_config;
use crate::{
    AsyncConfig, ErrorCode, ErrorMessage, ExperimenterMessage, Features, FlowModMessage,
    HEADER_BYTES, Header, Hello, MultipartReply, MultipartRequest, PacketInMessage, PacketOut,
    PortMod, PortStatus, QueueStats, RoleMessage, SwitchConfig, TableMod, flows, groups, meters,
};

/// A message of OpenFlow 1.3.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the specification")]
pub enum Message {
    Hello(Hello),
    Error(ErrorMessage),
    EchoRequest(Vec<u8>),
    EchoReply(Vec<u8>),
    Experimenter(ExperimenterMessage),
    FeaturesRequest,
    FeaturesReply(Features),
    GetConfigRequest,
    GetConfigReply(SwitchConfig),
    SetConfig(SwitchConfig),
    PacketIn(PacketInMessage),
    FlowRemoved(FlowRemoved),
    PortStatus(PortStatus),
    PacketOut(PacketOut),
    FlowMod(FlowModMessage),
    GroupMod(GroupMod),
    PortMod(PortMod),
    TableMod(TableMod),
    MultipartRequest(MultipartRequest),
    MultipartReply(MultipartReply),
    BarrierRequest,
    BarrierReply,
    QueueGetConfigRequest(u32),
    QueueGetConfigReply { port: u32, queues: Vec<QueueStats> },
    RoleRequest(RoleMessage),
    RoleReply(RoleMessage),
    GetAsyncRequest,
    GetAsyncReply(AsyncConfig),
    SetAsync(AsyncConfig),
    MeterMod(MeterMod),
}

impl Message {
    /// Reads a message with its header, whose length must be that of `bytes`. The version is not
    /// checked.
    ///
    /// # Errors
    /// The error that the sender has to get.
    pub fn decode(bytes: &[u8]) -> Result<Self, ErrorCode> {
        let header = Header::read(bytes).ok_or(ErrorCode::REQUEST_BAD_LEN)?;
        if usize::from(header.len) != bytes.len() {
            return Err(ErrorCode::REQUEST_BAD_LEN);
        }
        let body = Reader::new(&bytes[HEADER_BYTES..], ErrorCode::REQUEST_BAD_LEN);
        Self::read(header, body)
    }

    fn read(header: Header, mut body: Reader<'_>) -> Result<Self, ErrorCode> {
        use message_type as kind;
        let message = match header.kind {
            kind::HELLO => return Ok(Self::Hello(Hello::read(header.version, body))),
            kind::ERROR => return ErrorMessage::read(body).map(Self::Error),
            kind::ECHO_REQUEST => return Ok(Self::EchoRequest(body.rest().to_vec())),
            kind::ECHO_REPLY => return Ok(Self::EchoReply(body.rest().to_vec())),
            kind::EXPERIMENTER => return ExperimenterMessage::read(body).map(Self::Experimenter),
            kind::FEATURES_REQUEST => Self::FeaturesRequest,
            kind::FEATURES_REPLY => return Features::read(body).map(Self::FeaturesReply),
            kind::GET_CONFIG_REQUEST => Self::GetConfigRequest,
            kind::GET_CONFIG_REPLY => return SwitchConfig::read(body).map(Self::GetConfigReply),
            kind::SET_CONFIG => return SwitchConfig::read(body).map(Self::SetConfig),
            kind::PACKET_IN => return PacketInMessage::read(body).map(Self::PacketIn),
            kind::FLOW_REMOVED => return flows::read_removed(body).map(Self::FlowRemoved),
            kind::PORT_STATUS => return PortStatus::read(body).map(Self::PortStatus),
            kind::PACKET_OUT => return PacketOut::read(body).map(Self::PacketOut),
            kind::FLOW_MOD => return FlowModMessage::read(body).map(Self::FlowMod),
            kind::GROUP_MOD => return groups::read_mod(body).map(Self::GroupMod),
            kind::PORT_MOD => return PortMod::read(body).map(Self::PortMod),
            kind::TABLE_MOD => return TableMod::read(body).map(Self::TableMod),
            kind::MULTIPART_REQUEST => {
                return MultipartRequest::read(body).map(Self::MultipartRequest);
            }
            kind::MULTIPART_REPLY => return MultipartReply::read(body).map(Self::MultipartReply),
            kind::BARRIER_REQUEST => Self::BarrierRequest,
            kind::BARRIER_REPLY => Self::BarrierReply,
            kind::QUEUE_GET_CONFIG_REQUEST => {
                let port = body.u32()?;
                body.skip(4)?;
                Self::QueueGetConfigRequest(port)
            }
            kind::ROLE_REQUEST => return RoleMessage::read(body).map(Self::RoleRequest),
            kind::ROLE_REPLY => return RoleMessage::read(body).map(Self::RoleReply),
            kind::GET_ASYNC_REQUEST => Self::GetAsyncRequest,
            kind::GET_ASYNC_REPLY => return AsyncConfig::read(body).map(Self::GetAsyncReply),
            kind::SET_ASYNC => return AsyncConfig::read(body).map(Self::SetAsync),
            kind::METER_MOD => return meters::read_mod(body).map(Self::MeterMod),
            _ => return Err(ErrorCode::REQUEST_BAD_TYPE),
        };
        body.finish()?;
        Ok(message)
    }

    /// Appends the message with its header; a multipart reply as several messages if needed.
    pub fn encode(&self, xid: u32) -> Vec<u8> {
        if let Self::MultipartReply(reply) = self {
            return reply.encode(xid);
        }
        let mut out = start(self.kind(), xid);
        match self {
            Self::Hello(hello) => {
                out[0] = hello.version;
                hello.write(&mut out);
            }
            Self::Error(error) => error.write(&mut out),
            Self::EchoRequest(data) | Self::EchoReply(data) => {
                out.bytes(data);
            }
            Self::Experimenter(message) => message.write(&mut out),
            Self::FeaturesReply(features) => features.write(&mut out),
            Self::GetConfigReply(config) | Self::SetConfig(config) => config.write(&mut out),
            Self::PacketIn(packet) => packet.write(&mut out),
            Self::FlowRemoved(removed) => flows::write_removed(&mut out, removed),
            Self::PortStatus(status) => status.write(&mut out),
            Self::PacketOut(packet) => packet.write(&mut out),
            Self::FlowMod(change) => change.write(&mut out),
            Self::GroupMod(change) => groups::write_mod(&mut out, change),
            Self::PortMod(change) => change.write(&mut out),
            Self::TableMod(change) => change.write(&mut out),
            Self::MultipartRequest(request) => request.write(&mut out),
            Self::QueueGetConfigRequest(port) => {
                out.u32(*port).zeros(4);
            }
            Self::QueueGetConfigReply { port, queues } => {
                out.u32(*port).zeros(4);
                queues.iter().for_each(|queue| write_queue_config(&mut out, queue));
            }
            Self::RoleRequest(role) | Self::RoleReply(role) => role.write(&mut out),
            Self::GetAsyncReply(config) | Self::SetAsync(config) => config.write(&mut out),
            Self::MeterMod(change) => meters::write_mod(&mut out, change),
            Self::FeaturesRequest
            | Self::GetConfigRequest
            | Self::BarrierRequest
            | Self::BarrierReply
            | Self::GetAsyncRequest
            | Self::MultipartReply(_) => {}
        }
        finish(out)
    }

    fn kind(&self) -> u8 {
        use message_type as kind;
        match self {
            Self::Hello(_) => kind::HELLO,
            Self::Error(_) => kind::ERROR,
            Self::EchoRequest(_) => kind::ECHO_REQUEST,
            Self::EchoReply(_) => kind::ECHO_REPLY,
            Self::Experimenter(_) => kind::EXPERIMENTER,
            Self::FeaturesRequest => kind::FEATURES_REQUEST,
            Self::FeaturesReply(_) => kind::FEATURES_REPLY,
            Self::GetConfigRequest => kind::GET_CONFIG_REQUEST,
            Self::GetConfigReply(_) => kind::GET_CONFIG_REPLY,
            Self::SetConfig(_) => kind::SET_CONFIG,
            Self::PacketIn(_) => kind::PACKET_IN,
            Self::FlowRemoved(_) => kind::FLOW_REMOVED,
            Self::PortStatus(_) => kind::PORT_STATUS,
            Self::PacketOut(_) => kind::PACKET_OUT,
            Self::FlowMod(_) => kind::FLOW_MOD,
            Self::GroupMod(_) => kind::GROUP_MOD,
            Self::PortMod(_) => kind::PORT_MOD,
            Self::TableMod(_) => kind::TABLE_MOD,
            Self::MultipartRequest(_) => kind::MULTIPART_REQUEST,
            Self::MultipartReply(_) => kind::MULTIPART_REPLY,
            Self::BarrierRequest => kind::BARRIER_REQUEST,
            Self::BarrierReply => kind::BARRIER_REPLY,
            Self::QueueGetConfigRequest(_) => kind::QUEUE_GET_CONFIG_REQUEST,
            Self::QueueGetConfigReply { .. } => kind::QUEUE_GET_CONFIG_REPLY,
            Self::RoleRequest(_) => kind::ROLE_REQUEST,
            Self::RoleReply(_) => kind::ROLE_REPLY,
            Self::GetAsyncRequest => kind::GET_ASYNC_REQUEST,
            Self::GetAsyncReply(_) => kind::GET_ASYNC_REPLY,
            Self::SetAsync(_) => kind::SET_ASYNC,
            Self::MeterMod(_) => kind::METER_MOD,
        }
    }
}
