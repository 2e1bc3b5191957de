//! Changes of a table, for who keeps a copy of it.

use crate::{NextHop, Prefix};

/// One change of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteChange<A> {
    /// Inserts a route, in place of one of the same prefix.
    Insert(Prefix<A>, NextHop),
    /// Removes a route, if there is one.
    Remove(Prefix<A>),
}
