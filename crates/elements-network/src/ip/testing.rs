//! Packets that the tests of this area share.

pub(super) use crate::testing::{Shown, errors, hex, ipv4, registry, run, source, through, unhex};
