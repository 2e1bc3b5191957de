//! Messages about the switch and a connection: hello, errors, features, configuration, roles and
//! asynchronous messages (specification 1.3.5, sections 7.3.1, 7.3.2, 7.3.9, 7.3.10, 7.4.4, 7.5.1).

use crate::ErrorCode;
use crate::bytes::{Append, Reader};

/// Type of the hello element with a bitmap of versions.
const VERSION_BITMAP: u16 = 1;

/// A hello message: the versions that the sender supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Version in the header: the largest supported version.
    pub version: u8,
    /// One bit for each supported version, for the versions below 32.
    pub bitmap: Option<u32>,
}

impl Hello {
    /// Reads the elements. Unknown elements are skipped, and so are incomplete ones.
    pub(crate) fn read(version: u8, body: Reader<'_>) -> Self {
        let mut rest = body.rest();
        let mut bitmap = None;
        while let Some(&[kind0, kind1, len0, len1]) = rest.first_chunk() {
            let len = usize::from(u16::from_be_bytes([len0, len1]));
            let Some(element) = rest.get(4..len) else { break };
            if u16::from_be_bytes([kind0, kind1]) == VERSION_BITMAP {
                bitmap = element.first_chunk().map(|&word| u32::from_be_bytes(word)).or(bitmap);
            }
            rest = rest.get(len.next_multiple_of(8)..).unwrap_or_default();
        }
        Self { version, bitmap }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        if let Some(bitmap) = self.bitmap {
            out.u16(VERSION_BITMAP).u16(8).u32(bitmap);
        }
    }
}

/// An error message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// Type and code.
    pub error: ErrorCode,
    /// The beginning of the message that failed; text after a failed hello.
    pub data: Vec<u8>,
}

impl ErrorMessage {
    pub(crate) fn read(mut body: Reader<'_>) -> Result<Self, ErrorCode> {
        let (kind, code) = (body.u16()?, body.u16()?);
        let experimenter = if kind == ErrorCode::EXPERIMENTER { body.u32()? } else { 0 };
        let error = ErrorCode { kind, code, experimenter };
        Ok(Self { error, data: body.rest().to_vec() })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u16(self.error.kind).u16(self.error.code);
        if self.error.kind == ErrorCode::EXPERIMENTER {
            out.u32(self.error.experimenter);
        }
        out.bytes(&self.data);
    }
}

/// A features reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// The switch's identity.
    pub datapath_id: u64,
    /// Packets that it buffers.
    pub buffers: u32,
    /// Number of its tables.
    pub tables: u8,
    /// Number of an auxiliary connection; 0 for the main connection.
    pub auxiliary: u8,
    /// Bits of [`capability`].
    pub capabilities: u32,
}

/// Bits of the capabilities of a switch.
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod capability {
    pub const FLOW_STATS: u32 = 1 << 0;
    pub const TABLE_STATS: u32 = 1 << 1;
    pub const PORT_STATS: u32 = 1 << 2;
    pub const GROUP_STATS: u32 = 1 << 3;
    pub const IP_REASSEMBLY: u32 = 1 << 5;
    pub const QUEUE_STATS: u32 = 1 << 6;
    pub const PORT_BLOCKED: u32 = 1 << 8;
}

impl Features {
    pub(crate) fn read(mut body: Reader<'_>) -> Result<Self, ErrorCode> {
        let (datapath_id, buffers) = (body.u64()?, body.u32()?);
        let (tables, auxiliary) = (body.u8()?, body.u8()?);
        body.skip(2)?;
        let capabilities = body.u32()?;
        body.skip(4)?;
        body.finish()?;
        Ok(Self { datapath_id, buffers, tables, auxiliary, capabilities })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u64(self.datapath_id).u32(self.buffers).u8(self.tables).u8(self.auxiliary).zeros(2);
        out.u32(self.capabilities).zeros(4);
    }
}

/// What happens to IP fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FragmentPolicy {
    /// The pipeline processes them like other packets.
    #[default]
    Normal,
    /// They are dropped.
    Drop,
    /// They are reassembled.
    Reassemble,
}

/// The configuration that controllers get and set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// What happens to IP fragments.
    pub fragments: FragmentPolicy,
    /// Bytes of packets that are sent to the controller for another reason than an output action.
    pub miss_len: u16,
}

impl SwitchConfig {
    pub(crate) fn read(mut body: Reader<'_>) -> Result<Self, ErrorCode> {
        let fragments = match body.u16()? {
            0 => FragmentPolicy::Normal,
            1 => FragmentPolicy::Drop,
            2 => FragmentPolicy::Reassemble,
            _ => return Err(ErrorCode::CONFIG_BAD_FLAGS),
        };
        let miss_len = body.u16()?;
        body.finish()?;
        Ok(Self { fragments, miss_len })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u16(self.fragments as u16).u16(self.miss_len);
    }
}

/// The role of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// In requests: leaves the role as it is.
    NoChange,
    /// Full access, together with others.
    #[default]
    Equal,
    /// Full access; every other master becomes a slave.
    Master,
    /// Reads only.
    Slave,
}

/// A role request or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleMessage {
    /// The role.
    pub role: Role,
    /// Grows with every election of a master; all ones in replies if there was none.
    pub generation_id: u64,
}

impl RoleMessage {
    pub(crate) fn read(mut body: Reader<'_>) -> Result<Self, ErrorCode> {
        let role = match body.u32()? {
            0 => Role::NoChange,
            1 => Role::Equal,
            2 => Role::Master,
            3 => Role::Slave,
            _ => return Err(ErrorCode::ROLE_BAD_ROLE),
        };
        body.skip(4)?;
        let generation_id = body.u64()?;
        body.finish()?;
        Ok(Self { role, generation_id })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u32(self.role as u32).zeros(4).u64(self.generation_id);
    }
}

/// One bit for each reason for which a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncMasks {
    /// Packet-in messages.
    pub packet_in: u32,
    /// Port-status messages.
    pub port_status: u32,
    /// Flow-removed messages.
    pub flow_removed: u32,
}

/// Which asynchronous messages a controller gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncConfig {
    /// In the roles master and equal.
    pub master: AsyncMasks,
    /// In the role slave.
    pub slave: AsyncMasks,
}

impl Default for AsyncConfig {
    /// Everything; a slave gets port-status messages only.
    fn default() -> Self {
        Self {
            master: AsyncMasks { packet_in: 0b111, port_status: 0b111, flow_removed: 0b1111 },
            slave: AsyncMasks { packet_in: 0, port_status: 0b111, flow_removed: 0 },
        }
    }
}

impl AsyncConfig {
    pub(crate) fn read(mut body: Reader<'_>) -> Result<Self, ErrorCode> {
        let packet_in = [body.u32()?, body.u32()?];
        let port_status = [body.u32()?, body.u32()?];
        let flow_removed = [body.u32()?, body.u32()?];
        body.finish()?;
        let [master, slave] = [0, 1].map(|role| AsyncMasks {
            packet_in: packet_in[role],
            port_status: port_status[role],
            flow_removed: flow_removed[role],
        });
        Ok(Self { master, slave })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let Self { master, slave } = self;
        out.u32(master.packet_in).u32(slave.packet_in);
        out.u32(master.port_status).u32(slave.port_status);
        out.u32(master.flow_removed).u32(slave.flow_removed);
    }
}
