//! Documentation of an element class, as programs print it.

/// The documentation of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementDoc {
    /// The folder that it is in.
    pub area: &'static str,
    /// The whole text, Markdown.
    pub text: &'static str,
}

impl ElementDoc {
    /// Its first sentence: what the elements do.
    pub fn summary(&self) -> String {
        let lines = self.text.lines().take_while(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join(" ")
    }
}
