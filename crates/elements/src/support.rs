//! What elements of other crates use of this one: files, links, annotations and texts of errors.

pub use crate::anno::Anno;
pub use crate::capture::{Output, has_ethernet, link_name, link_of, look, reason};
pub use crate::outputs::expected as expected_output;
