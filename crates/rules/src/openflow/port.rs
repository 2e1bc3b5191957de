//! Reserved numbers of ports, groups and tables in OpenFlow 1.3 (specification 1.3.5, section
//! 7.2.1 and 7.3.4).

/// The largest number of a real port.
pub const MAX: u32 = 0xffff_ff00;
/// In actions of an action set that was not given a port (Open vSwitch).
pub const UNSET: u32 = 0xffff_fff7;
/// The port that the packet came in on.
pub const IN_PORT: u32 = 0xffff_fff8;
/// Back to the first table of the pipeline; in packet-out messages only.
pub const TABLE: u32 = 0xffff_fff9;
/// Forwarding as a learning switch.
pub const NORMAL: u32 = 0xffff_fffa;
/// All ports that take part in flooding, except the one the packet came in on.
pub const FLOOD: u32 = 0xffff_fffb;
/// All ports except the one that the packet came in on.
pub const ALL: u32 = 0xffff_fffc;
/// The controllers.
pub const CONTROLLER: u32 = 0xffff_fffd;
/// The switch's own port.
pub const LOCAL: u32 = 0xffff_fffe;
/// Any port, in requests; no port elsewhere.
pub const ANY: u32 = 0xffff_ffff;

/// `max_len` of an output to the controller that sends the whole packet.
pub const NO_BUFFER: u16 = 0xffff;

/// The largest number of a real group.
pub const GROUP_MAX: u32 = 0xffff_ff00;
/// Any group, in requests.
pub const GROUP_ANY: u32 = 0xffff_ffff;
/// All groups, in deletions.
pub const GROUP_ALL: u32 = 0xffff_fffc;

/// The last table that flows can be in.
pub const TABLE_MAX: u8 = 0xfe;
/// All tables, in requests and deletions.
pub const TABLE_ALL: u8 = 0xff;
