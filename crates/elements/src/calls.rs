//! Handlers that elements call once a count is reached: `COUNT_CALL` and its like.

/// A handler that is called once a count is reached.
#[derive(Debug)]
pub(crate) struct Due {
    /// The count.
    pub(crate) at: u64,
    /// `HANDLER [VALUE]`
    pub(crate) call: String,
}

impl Due {
    /// Reads `N HANDLER [VALUE]`; none of an empty text.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, String> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        let words = text.trim().split_once(char::is_whitespace);
        let (at, call) = words.ok_or("expected 'N HANDLER [VALUE]'")?;
        let at = at.parse().map_err(|_| format!("'{at}' is no number of packets or bytes"))?;
        Ok(Some(Self { at, call: call.trim().to_owned() }))
    }
}
