//! Messages of experimenters: bundles as the ONF added them to OpenFlow 1.3 (extension 230), and
//! one of Open vSwitch.

use warpswitch_rules::openflow::Oxm;

use crate::ErrorCode;
use crate::bytes::{Append, Reader};
use crate::nicira::NICIRA;

const BUNDLE_CONTROL: u32 = 2300;
const BUNDLE_ADD_MESSAGE: u32 = 2301;
const SET_PACKET_IN_FORMAT: u32 = 16;
const SET_CONTROLLER_ID: u32 = 20;

/// The error for a message of an experimenter that is not supported.
pub(crate) fn unknown_experimenter(experimenter: u32) -> ErrorCode {
    match experimenter {
        Oxm::ONF_EXPERIMENTER | NICIRA => ErrorCode::REQUEST_BAD_EXP_TYPE,
        _ => ErrorCode::REQUEST_BAD_EXPERIMENTER,
    }
}

/// The step of a bundle's life that a bundle control message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundleStep {
    /// It is opened.
    Open,
    /// It gets no more messages.
    Close,
    /// Its messages are applied, all or none.
    Commit,
    /// It is dropped.
    Discard,
}

/// A bundle control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleControl {
    /// The bundle.
    pub bundle: u32,
    /// The step.
    pub step: BundleStep,
    /// Whether the message is the reply.
    pub is_reply: bool,
    /// Bit 0: atomic, bit 1: ordered.
    pub flags: u16,
}

/// A message of an experimenter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExperimenterMessage {
    /// Changes the state of a bundle.
    BundleControl(BundleControl),
    /// Adds a message to a bundle.
    BundleAdd {
        /// The bundle.
        bundle: u32,
        /// The flags of the bundle.
        flags: u16,
        /// The message, with its header.
        message: Vec<u8>,
    },
    /// Selects the layout of packet-in messages (Open vSwitch); 0 is that of OpenFlow.
    SetPacketInFormat(u32),
    /// Gives the controller the number that `controller` actions refer to (Open vSwitch).
    SetControllerId(u16),
}

impl ExperimenterMessage {
    pub(crate) fn read(mut body: Reader<'_>) -> Result<Self, ErrorCode> {
        let (experimenter, kind) = (body.u32()?, body.u32()?);
        let message = match (experimenter, kind) {
            (Oxm::ONF_EXPERIMENTER, BUNDLE_CONTROL) => {
                let (bundle, step, flags) = (body.u32()?, body.u16()?, body.u16()?);
                let is_reply = step & 1 != 0;
                let step = match step / 2 {
                    0 => BundleStep::Open,
                    1 => BundleStep::Close,
                    2 => BundleStep::Commit,
                    3 => BundleStep::Discard,
                    _ => return Err(ErrorCode::BUNDLE_BAD_TYPE),
                };
                return Ok(Self::BundleControl(BundleControl { bundle, step, is_reply, flags }));
            }
            (Oxm::ONF_EXPERIMENTER, BUNDLE_ADD_MESSAGE) => {
                let bundle = body.u32()?;
                body.skip(2)?;
                let flags = body.u16()?;
                return Ok(Self::BundleAdd { bundle, flags, message: body.rest().to_vec() });
            }
            (NICIRA, SET_PACKET_IN_FORMAT) => Self::SetPacketInFormat(body.u32()?),
            (NICIRA, SET_CONTROLLER_ID) => {
                body.skip(6)?;
                Self::SetControllerId(body.u16()?)
            }
            _ => return Err(unknown_experimenter(experimenter)),
        };
        body.finish()?;
        Ok(message)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::BundleControl(control) => {
                out.u32(Oxm::ONF_EXPERIMENTER).u32(BUNDLE_CONTROL).u32(control.bundle);
                out.u16(control.step as u16 * 2 + u16::from(control.is_reply)).u16(control.flags);
            }
            Self::BundleAdd { bundle, flags, message } => {
                out.u32(Oxm::ONF_EXPERIMENTER).u32(BUNDLE_ADD_MESSAGE).u32(*bundle);
                out.zeros(2).u16(*flags).bytes(message);
            }
            Self::SetPacketInFormat(format) => {
                out.u32(NICIRA).u32(SET_PACKET_IN_FORMAT).u32(*format);
            }
            Self::SetControllerId(id) => {
                out.u32(NICIRA).u32(SET_CONTROLLER_ID).zeros(6).u16(*id);
            }
        }
    }
}
