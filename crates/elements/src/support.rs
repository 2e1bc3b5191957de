//! Items that elements of other crates use: files, link types, annotations and error texts.

pub use crate::anno::Anno;
pub use crate::capture::{Output, has_ethernet, link_name, link_of, look, reason};
pub use crate::outputs::expected as expected_output;
