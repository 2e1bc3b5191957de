//! Handlers that elements call when a count is reached or at the end: `COUNT_CALL`, `END_CALL` and
//! similar arguments.

use warpswitch_graph::language::nearest;
use warpswitch_graph::{Context, HandlerSpec};

/// What to do where there are `STOP true` and `END_CALL`.
pub const STOP_OR_CALL: &str =
    "leave one of them out: END_CALL stop ends the run as STOP true does";

/// A handler that is called once a count is reached.
#[derive(Debug)]
pub struct Due {
    /// The count.
    pub at: u64,
    /// `HANDLER [VALUE]`
    pub call: String,
}

impl Due {
    /// Reads `N HANDLER [VALUE]`; none of an empty text.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        let words = text.trim().split_once(char::is_whitespace);
        let (at, call) = words.ok_or("expected 'N HANDLER [VALUE]', as in 1000 stop")?;
        let at = at
            .parse()
            .map_err(|_| format!("invalid number of packets or bytes '{at}', as in 1000 stop"))?;
        Ok(Some(Self { at, call: call.trim().to_owned() }))
    }
}

/// What is wrong with the handler of `call`, `HANDLER [VALUE]`, that the element of `cx` has as
/// `keyword`, if it calls any: it is not there, or cannot be written. `own` are the handlers of the
/// element itself, which is at work.
pub fn wrong_call(
    cx: &Context<'_>,
    keyword: &str,
    call: &str,
    own: &[HandlerSpec],
) -> Option<String> {
    let word = call.split_whitespace().next()?;
    // Who takes configurations has one handler more.
    if word == "hotconfig" {
        return None;
    }
    let problem = match cx.find_handler(word) {
        Ok((element, name)) => {
            let is_own = element == Some(cx.element());
            let known = own.iter().find(|spec| is_own && spec.name == name).copied();
            let spec = known.or_else(|| cx.handler_spec(element, name).ok());
            if spec.is_some_and(|spec| spec.write) {
                return None;
            }
            format!("no '{word}' write handler")
        }
        Err(error) => error.to_string(),
    };
    let meant = meant(cx, word, true, |element| if element.is_some() { own } else { &[] });
    let meant = meant.map_or(String::new(), |meant| format!(": did you mean '{meant}'?"));
    Some(format!("{keyword}: {problem}{meant}"))
}

/// Returns the handler that `word` probably means. `more` returns additional handlers of the
/// element of `cx` itself and, for `None`, handlers that belong to no element.
pub fn meant<'h>(
    cx: &Context<'_>,
    word: &str,
    is_write: bool,
    more: impl Fn(Option<usize>) -> &'h [HandlerSpec],
) -> Option<String> {
    let (path, name) = word.rsplit_once('.').unwrap_or(("", word));
    let Ok((element, _)) = cx.find_handler(word) else {
        // As the element would name them: those of its own compound are named as they stand.
        let scope = cx.name().rfind('/').map_or("", |at| &cx.name()[..=at]);
        let elements = cx.graph().elements.iter().map(|element| element.name.as_str());
        let known = elements.map(|name| name.strip_prefix(scope).unwrap_or(name));
        return nearest(path, known).map(|near| format!("{near}.{name}"));
    };
    let mut known = cx.handler_specs(element);
    if element.is_none() || element == Some(cx.element()) {
        known.extend(more(element));
    }
    let fits = known.iter().filter(|spec| if is_write { spec.write } else { spec.read });
    let near = nearest(name, fits.map(|spec| spec.name)).filter(|near| *near != name)?;
    let dot = if path.is_empty() { "" } else { "." };
    Some(format!("{path}{dot}{near}"))
}
