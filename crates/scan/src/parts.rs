//! What a search on another device shares with the one here: which bytes of a pattern to look for.

pub use crate::filter::Common;
