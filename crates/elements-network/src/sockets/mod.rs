//! Elements that exchange packets with other programs.

mod mcast_socket;
mod raw_socket;
mod socket;
mod traffic;

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] =
    &[&socket::CLASS, &mcast_socket::CLASS, &raw_socket::CLASS];
