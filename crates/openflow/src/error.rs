//! Error types and codes (specification 1.3.5, section 7.4.4), and the code of each refusal.

use warpswitch_rules::openflow::{Oxm, Refusal};

/// Why a message is refused, as an error message reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode {
    /// The error type; [`ErrorCode::EXPERIMENTER`] for errors of experimenters.
    pub kind: u16,
    /// The code; for errors of experimenters their own error type.
    pub code: u16,
    /// The experimenter; 0 for errors of OpenFlow.
    pub experimenter: u32,
}

macro_rules! codes {
    ($($kind:literal { $($name:ident = $code:literal),+ $(,)? })+) => {
        #[allow(missing_docs, reason = "the names are those of the specification")]
        impl ErrorCode {
            $($(pub const $name: ErrorCode = ErrorCode::new($kind, $code);)+)+

            /// The name of a code of OpenFlow, as the constants of this type have it.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $($(Self::$name => Some(stringify!($name)),)+)+
                    _ => None,
                }
            }
        }
    };
}

codes! {
    0 { HELLO_INCOMPATIBLE = 0, HELLO_EPERM = 1 }
    1 {
        REQUEST_BAD_VERSION = 0, REQUEST_BAD_TYPE = 1, REQUEST_BAD_MULTIPART = 2,
        REQUEST_BAD_EXPERIMENTER = 3, REQUEST_BAD_EXP_TYPE = 4, REQUEST_EPERM = 5,
        REQUEST_BAD_LEN = 6, REQUEST_BUFFER_EMPTY = 7, REQUEST_BUFFER_UNKNOWN = 8,
        REQUEST_BAD_TABLE_ID = 9, REQUEST_IS_SLAVE = 10, REQUEST_BAD_PORT = 11,
        REQUEST_BAD_PACKET = 12, REQUEST_MULTIPART_BUFFER_OVERFLOW = 13,
    }
    2 {
        ACTION_BAD_TYPE = 0, ACTION_BAD_LEN = 1, ACTION_BAD_EXPERIMENTER = 2,
        ACTION_BAD_EXP_TYPE = 3, ACTION_BAD_OUT_PORT = 4, ACTION_BAD_ARGUMENT = 5,
        ACTION_EPERM = 6, ACTION_TOO_MANY = 7, ACTION_BAD_QUEUE = 8, ACTION_BAD_OUT_GROUP = 9,
        ACTION_MATCH_INCONSISTENT = 10, ACTION_UNSUPPORTED_ORDER = 11, ACTION_BAD_TAG = 12,
        ACTION_BAD_SET_TYPE = 13, ACTION_BAD_SET_LEN = 14, ACTION_BAD_SET_ARGUMENT = 15,
    }
    3 {
        INSTRUCTION_UNKNOWN = 0, INSTRUCTION_UNSUPPORTED = 1, INSTRUCTION_BAD_TABLE_ID = 2,
        INSTRUCTION_UNSUPPORTED_METADATA = 3, INSTRUCTION_UNSUPPORTED_METADATA_MASK = 4,
        INSTRUCTION_BAD_EXPERIMENTER = 5, INSTRUCTION_BAD_EXP_TYPE = 6, INSTRUCTION_BAD_LEN = 7,
        INSTRUCTION_EPERM = 8,
    }
    4 {
        MATCH_BAD_TYPE = 0, MATCH_BAD_LEN = 1, MATCH_BAD_TAG = 2, MATCH_BAD_DL_ADDR_MASK = 3,
        MATCH_BAD_NW_ADDR_MASK = 4, MATCH_BAD_WILDCARDS = 5, MATCH_BAD_FIELD = 6,
        MATCH_BAD_VALUE = 7, MATCH_BAD_MASK = 8, MATCH_BAD_PREREQ = 9, MATCH_DUP_FIELD = 10,
        MATCH_EPERM = 11,
    }
    5 {
        FLOW_UNKNOWN = 0, FLOW_TABLE_FULL = 1, FLOW_BAD_TABLE_ID = 2, FLOW_OVERLAP = 3,
        FLOW_EPERM = 4, FLOW_BAD_TIMEOUT = 5, FLOW_BAD_COMMAND = 6, FLOW_BAD_FLAGS = 7,
    }
    6 {
        GROUP_EXISTS = 0, GROUP_INVALID = 1, GROUP_WEIGHT_UNSUPPORTED = 2, GROUP_OUT_OF_GROUPS = 3,
        GROUP_OUT_OF_BUCKETS = 4, GROUP_CHAINING_UNSUPPORTED = 5, GROUP_WATCH_UNSUPPORTED = 6,
        GROUP_LOOP = 7, GROUP_UNKNOWN = 8, GROUP_CHAINED = 9, GROUP_BAD_TYPE = 10,
        GROUP_BAD_COMMAND = 11, GROUP_BAD_BUCKET = 12, GROUP_BAD_WATCH = 13, GROUP_EPERM = 14,
    }
    7 {
        PORT_BAD_PORT = 0, PORT_BAD_HW_ADDR = 1, PORT_BAD_CONFIG = 2, PORT_BAD_ADVERTISE = 3,
        PORT_EPERM = 4,
    }
    8 { TABLE_BAD_TABLE = 0, TABLE_BAD_CONFIG = 1, TABLE_EPERM = 2 }
    9 { QUEUE_BAD_PORT = 0, QUEUE_BAD_QUEUE = 1, QUEUE_EPERM = 2 }
    10 { CONFIG_BAD_FLAGS = 0, CONFIG_BAD_LEN = 1, CONFIG_EPERM = 2 }
    11 { ROLE_STALE = 0, ROLE_UNSUPPORTED = 1, ROLE_BAD_ROLE = 2 }
    12 {
        METER_UNKNOWN_REASON = 0, METER_EXISTS = 1, METER_INVALID = 2, METER_UNKNOWN = 3,
        METER_BAD_COMMAND = 4, METER_BAD_FLAGS = 5, METER_BAD_RATE = 6, METER_BAD_BURST = 7,
        METER_BAD_BAND = 8, METER_BAD_BAND_VALUE = 9, METER_OUT_OF_METERS = 10,
        METER_OUT_OF_BANDS = 11,
    }
    13 {
        FEATURES_BAD_TABLE = 0, FEATURES_BAD_METADATA = 1, FEATURES_BAD_TYPE = 2,
        FEATURES_BAD_LEN = 3, FEATURES_BAD_ARGUMENT = 4, FEATURES_EPERM = 5,
    }
}

/// Errors that the ONF extensions add to OpenFlow 1.3: bundles, and errors of later versions.
#[allow(missing_docs, reason = "the names are those of the extension")]
impl ErrorCode {
    pub const BUNDLE_UNKNOWN: ErrorCode = Self::onf(2300);
    pub const BUNDLE_BAD_ID: ErrorCode = Self::onf(2302);
    pub const BUNDLE_EXISTS: ErrorCode = Self::onf(2303);
    pub const BUNDLE_CLOSED: ErrorCode = Self::onf(2304);
    pub const BUNDLE_OUT_OF_BUNDLES: ErrorCode = Self::onf(2305);
    pub const BUNDLE_BAD_TYPE: ErrorCode = Self::onf(2306);
    pub const BUNDLE_BAD_FLAGS: ErrorCode = Self::onf(2307);
    pub const BUNDLE_MESSAGE_BAD_LEN: ErrorCode = Self::onf(2308);
    pub const BUNDLE_MESSAGE_BAD_XID: ErrorCode = Self::onf(2309);
    pub const BUNDLE_MESSAGE_UNSUPPORTED: ErrorCode = Self::onf(2310);
    pub const BUNDLE_MESSAGE_TOO_MANY: ErrorCode = Self::onf(2312);
    pub const BUNDLE_MESSAGE_FAILED: ErrorCode = Self::onf(2313);
    pub const INSTRUCTION_DUPLICATE: ErrorCode = Self::onf(2600);
    pub const ACTION_BAD_SET_MASK: ErrorCode = Self::onf(4250);
}

impl ErrorCode {
    /// The error type of experimenters.
    pub const EXPERIMENTER: u16 = 0xffff;

    const fn new(kind: u16, code: u16) -> Self {
        Self { kind, code, experimenter: 0 }
    }

    const fn onf(code: u16) -> Self {
        Self { kind: Self::EXPERIMENTER, code, experimenter: Oxm::ONF_EXPERIMENTER }
    }
}

impl From<Refusal> for ErrorCode {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::TableFull => Self::FLOW_TABLE_FULL,
            Refusal::NoSuchTable => Self::FLOW_BAD_TABLE_ID,
            Refusal::Overlap => Self::FLOW_OVERLAP,
            Refusal::BadGoto => Self::INSTRUCTION_BAD_TABLE_ID,
            Refusal::BadOutPort => Self::ACTION_BAD_OUT_PORT,
            Refusal::BadOutGroup => Self::ACTION_BAD_OUT_GROUP,
            Refusal::BadMeter | Refusal::UnknownMeter => Self::METER_UNKNOWN,
            Refusal::BadActionMatch => Self::ACTION_MATCH_INCONSISTENT,
            Refusal::BadActionArgument => Self::ACTION_BAD_ARGUMENT,
            Refusal::BadActionSet => Self::ACTION_BAD_TYPE,
            Refusal::BadSetField => Self::ACTION_BAD_SET_TYPE,
            Refusal::TooManyActions => Self::ACTION_TOO_MANY,
            Refusal::GroupExists => Self::GROUP_EXISTS,
            Refusal::UnknownGroup => Self::GROUP_UNKNOWN,
            Refusal::InvalidGroup => Self::GROUP_INVALID,
            Refusal::WeightUnsupported => Self::GROUP_WEIGHT_UNSUPPORTED,
            Refusal::OutOfGroups => Self::GROUP_OUT_OF_GROUPS,
            Refusal::OutOfBuckets => Self::GROUP_OUT_OF_BUCKETS,
            Refusal::GroupLoop => Self::GROUP_LOOP,
            Refusal::BadWatch => Self::GROUP_BAD_WATCH,
            Refusal::MeterExists => Self::METER_EXISTS,
            Refusal::InvalidMeter => Self::METER_INVALID,
            Refusal::BadRate => Self::METER_BAD_RATE,
            Refusal::BadBand => Self::METER_BAD_BAND_VALUE,
            Refusal::OutOfBands => Self::METER_OUT_OF_BANDS,
            Refusal::OutOfMeters => Self::METER_OUT_OF_METERS,
            _ => Self::FLOW_UNKNOWN,
        }
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None if self.experimenter != 0 => {
                write!(f, "experimenter {:#x} error {}", self.experimenter, self.code)
            }
            None => write!(f, "type {} code {}", self.kind, self.code),
        }
    }
}

impl std::error::Error for ErrorCode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_numbers_of_the_specification() {
        for (code, kind, number) in [
            (ErrorCode::REQUEST_IS_SLAVE, 1, 10),
            (ErrorCode::MATCH_DUP_FIELD, 4, 10),
            (ErrorCode::from(Refusal::GroupLoop), 6, 7),
            (ErrorCode::from(Refusal::BadMeter), 12, 3),
        ] {
            assert_eq!((code.kind, code.code, code.experimenter), (kind, number, 0));
        }
        assert_eq!(ErrorCode::MATCH_BAD_PREREQ.name(), Some("MATCH_BAD_PREREQ"));
        assert_eq!(ErrorCode::BUNDLE_BAD_ID.to_string(), "experimenter 0x4f4e4600 error 2302");
    }
}
