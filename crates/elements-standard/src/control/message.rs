//! Prints a message when the configuration is loaded.
//!
//! # Synopsis
//! `Message(MESSAGE [, TYPE])`
//!
//! # Ports
//! None.
//!
//! # Configuration
//! - `MESSAGE`: the text
//! - `TYPE`: `MESSAGE` (the default), `WARNING`, or `ERROR`, which fails the configuration
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None.
//!
//! # Threads
//! None.
//!
//! # Example
//! ```text
//! Message("not yet complete", WARNING);
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, Word};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Message", "0/0", "a/a", || Box::<Message>::default());

/// See the module.
#[derive(Debug, Default)]
pub struct Message {
    text: String,
}

impl Element for Message {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut kind = Word("MESSAGE".to_owned());
        args.read_mp("MESSAGE", &mut self.text).read_p("TYPE", &mut kind);
        match kind.0.as_str() {
            "MESSAGE" => {}
            "WARNING" => self.text.insert_str(0, "warning: "),
            "ERROR" => args.error_at("", &self.text.clone()),
            _ => args.error_at("", "unrecognized message type"),
        }
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let lines: Vec<String> = self.text.lines().map(str::to_owned).collect();
        let message = cx.graph().element_error("While configuring", cx.element(), &lines);
        cx.say(message.to_click().trim_end());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    #[test]
    fn it_says_what_it_is_told_to() {
        let config = "m :: Message(\"one\\ntwo\"); Message(three, WARNING)";
        let (_, transcript) = run(config, &crate::registry());
        assert_eq!(
            transcript.said(),
            "config:1: While configuring 'm :: Message':\n  one\n  two\n\
             config:1: While configuring 'Message@2 :: Message':\n  warning: three\n"
        );
    }

    #[test]
    fn an_error_is_one() {
        for (kind, told) in [("ERROR", "bad"), ("FATAL", "unrecognized message type")] {
            let errors = router(&format!("m :: Message(bad, {kind})"), &crate::registry());
            let errors = errors.err().expect("it fails").to_click();
            assert_eq!(errors, format!("config:1: While configuring 'm :: Message':\n  {told}\n"));
        }
    }
}
