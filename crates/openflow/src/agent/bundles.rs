//! Bundles: changes that are made together or not at all.

use std::collections::BTreeMap;

use super::requests::check_port_mod;
use super::{Agent, Change, ConnectionId, Datapath};
use crate::{
    BundleControl, BundleStep, ErrorCode, ExperimenterMessage, Header, Message, NO_BUFFER,
    PacketOut, PortMod, VERSION,
};

/// Bytes that a message in a bundle costs beside those of the wire.
const MESSAGE_COST_BYTES: usize = size_of::<Vec<u8>>();

/// A decoded message. Bundles keep the bytes, because a list of actions needs eight times as many
/// when it is decoded.
#[allow(clippy::large_enum_variant, reason = "nearly all messages of bundles are of flows")]
enum Item {
    Change(Change),
    Port(PortMod),
    Packet(PacketOut),
}

struct Bundle {
    flags: u16,
    is_closed: bool,
    messages: Vec<Vec<u8>>,
    bytes: usize,
}

/// The open bundles of a connection.
#[derive(Default)]
pub(super) struct Bundles(BTreeMap<u32, Bundle>);

impl Bundles {
    fn open(&mut self, id: u32, flags: u16, bundles_max: usize) -> Result<&mut Bundle, ErrorCode> {
        if self.0.contains_key(&id) {
            return Err(ErrorCode::BUNDLE_EXISTS);
        }
        if self.0.len() >= bundles_max {
            return Err(ErrorCode::BUNDLE_OUT_OF_BUNDLES);
        }
        let bundle = Bundle { flags, is_closed: false, messages: Vec::new(), bytes: 0 };
        Ok(self.0.entry(id).or_insert(bundle))
    }

    /// The bundle, if it has these flags.
    fn find(&mut self, id: u32, flags: u16) -> Result<&mut Bundle, ErrorCode> {
        let bundle = self.0.get_mut(&id).ok_or(ErrorCode::BUNDLE_BAD_ID)?;
        if bundle.flags == flags { Ok(bundle) } else { Err(ErrorCode::BUNDLE_BAD_FLAGS) }
    }

    fn bytes(&self) -> usize {
        self.0.values().map(|bundle| bundle.bytes).sum()
    }
}

impl Agent {
    pub(super) fn bundle_control(
        &mut self,
        id: ConnectionId,
        xid: u32,
        control: BundleControl,
        now_ns: u64,
        datapath: &mut dyn Datapath,
    ) -> Result<(), ErrorCode> {
        let bundles_max = self.config.bundles_max;
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let bundles = &mut connection.bundles;
        let BundleControl { bundle, step, is_reply, flags } = control;
        if is_reply {
            return Err(ErrorCode::BUNDLE_BAD_TYPE);
        }
        match step {
            BundleStep::Open => {
                bundles.open(bundle, flags, bundles_max)?;
            }
            BundleStep::Close => {
                let bundle = bundles.find(bundle, flags)?;
                if std::mem::replace(&mut bundle.is_closed, true) {
                    return Err(ErrorCode::BUNDLE_CLOSED);
                }
            }
            BundleStep::Commit => {
                let flags_match = bundles.find(bundle, flags).map(|_| ());
                let messages = bundles.0.remove(&bundle).map(|bundle| bundle.messages);
                flags_match?;
                self.commit(id, messages.unwrap_or_default(), now_ns, datapath)?;
            }
            BundleStep::Discard => {
                bundles.0.remove(&bundle).ok_or(ErrorCode::BUNDLE_BAD_ID)?;
            }
        }
        let reply = BundleControl { is_reply: true, ..control };
        let reply = Message::Experimenter(ExperimenterMessage::BundleControl(reply));
        self.reply(id, xid, &reply);
        Ok(())
    }

    pub(super) fn bundle_add(
        &mut self,
        id: ConnectionId,
        xid: u32,
        bundle: u32,
        flags: u16,
        message: Vec<u8>,
    ) -> Result<(), ErrorCode> {
        self.check_writer(id)?;
        let (bundles_max, bytes_max) = (self.config.bundles_max, self.config.bundle_bytes_max);
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let bundles = &mut connection.bundles;
        let cost = message.len() + MESSAGE_COST_BYTES;
        let is_full = bundles.bytes() + cost > bytes_max;
        let bundle = match bundles.0.contains_key(&bundle) {
            true => bundles.find(bundle, flags)?,
            false => bundles.open(bundle, flags, bundles_max)?,
        };
        if bundle.is_closed {
            return Err(ErrorCode::BUNDLE_CLOSED);
        }
        if is_full {
            return Err(ErrorCode::BUNDLE_MESSAGE_TOO_MANY);
        }
        read_item(xid, &message)?;
        bundle.messages.push(message);
        bundle.bytes += cost;
        Ok(())
    }

    /// Makes all changes of a bundle, then those that cannot fail.
    fn commit(
        &mut self,
        id: ConnectionId,
        messages: Vec<Vec<u8>>,
        now_ns: u64,
        datapath: &mut dyn Datapath,
    ) -> Result<(), ErrorCode> {
        if !messages.is_empty() {
            self.check_writer(id)?;
        }
        let xid = |message: &[u8]| Header::read(message).map_or(0, |header| header.xid);
        let packets = match try_commit(&messages, now_ns, datapath) {
            Ok(packets) => packets,
            Err((index, error)) => {
                let message = &messages[index];
                self.refuse(id, xid(message), error, message);
                return Err(ErrorCode::BUNDLE_MESSAGE_FAILED);
            }
        };
        for (index, packet) in packets {
            if let Err(error) = self.packet_out(packet, now_ns, datapath) {
                let message = &messages[index];
                self.refuse(id, xid(message), error, message);
            }
        }
        Ok(())
    }
}

/// Makes the changes of a bundle; on failure none, with the number of the failed message. Returns
/// the packets to be sent, with the numbers of their messages.
fn try_commit(
    messages: &[Vec<u8>],
    now_ns: u64,
    datapath: &mut dyn Datapath,
) -> Result<Vec<(usize, PacketOut)>, (usize, ErrorCode)> {
    let (mut changes, mut places) = (Vec::new(), Vec::new());
    let (mut ports, mut packets) = (Vec::new(), Vec::new());
    for (index, message) in messages.iter().enumerate() {
        let header = Header::read(message).ok_or((index, ErrorCode::BUNDLE_MESSAGE_BAD_LEN))?;
        match read_item(header.xid, message).map_err(|error| (index, error))? {
            Item::Change(change) => {
                changes.push(change);
                places.push(index);
            }
            Item::Port(change) => {
                check_port_mod(&change, datapath).map_err(|error| (index, error))?;
                ports.push(change);
            }
            Item::Packet(packet) => packets.push((index, packet)),
        }
    }
    if let Err(failed) = datapath.commit(&changes, now_ns) {
        return Err((places.get(failed.index).copied().unwrap_or(0), failed.refusal.into()));
    }
    ports.iter().for_each(|change| datapath.port_mod(change));
    Ok(packets)
}

/// Decodes a message of a bundle.
fn read_item(xid: u32, message: &[u8]) -> Result<Item, ErrorCode> {
    let header = Header::read(message).ok_or(ErrorCode::BUNDLE_MESSAGE_BAD_LEN)?;
    let len = usize::from(header.len);
    let message = message.get(..len).ok_or(ErrorCode::BUNDLE_MESSAGE_BAD_LEN)?;
    if header.xid != xid {
        return Err(ErrorCode::BUNDLE_MESSAGE_BAD_XID);
    }
    if header.version != VERSION {
        return Err(ErrorCode::REQUEST_BAD_VERSION);
    }
    Ok(match Message::decode(message)? {
        Message::FlowMod(message) if message.buffer_id == NO_BUFFER => {
            Item::Change(Change::Flow(message.change))
        }
        Message::GroupMod(change) => Item::Change(Change::Group(change)),
        Message::MeterMod(change) => Item::Change(Change::Meter(change)),
        Message::PortMod(change) => Item::Port(change),
        Message::PacketOut(packet) => Item::Packet(packet),
        _ => return Err(ErrorCode::BUNDLE_MESSAGE_UNSUPPORTED),
    })
}
