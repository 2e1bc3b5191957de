//! Handlers that elements call when something happened: `END_CALL`, `COUNT_CALL` and their like.

use warpswitch_graph::Context;

/// Writes `call`, `handler [value]`, as seen from the element; what goes wrong is said.
pub(crate) fn write(cx: &mut Context<'_>, call: &str) {
    let (handler, value) = call.trim().split_once(char::is_whitespace).unwrap_or((call.trim(), ""));
    let found = cx.find_handler(handler);
    let called = found.and_then(|(element, name)| cx.write_handler(element, name, value.trim()));
    if let Err(error) = called {
        cx.say(&format!("{}: {handler}: {error}", cx.declaration()));
    }
}
