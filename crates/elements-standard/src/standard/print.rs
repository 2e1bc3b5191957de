//! Prints one line per packet.
//!
//! # Synopsis
//! `Print([LABEL, MAXLENGTH], CONTENTS, TIMESTAMP, PRINTANNO, ACTIVE, HEADROOM, CPU)`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! - `LABEL`: text at the start of the line, followed by a colon
//! - `MAXLENGTH`: maximum number of data bytes to print, -1 for all; default: 24
//! - `CONTENTS`: `NONE` (or false), `HEX` (or true) or `ASCII`; default: `HEX`
//! - `TIMESTAMP`: whether to print the timestamp; default: false
//! - `PRINTANNO`: whether to print the annotations; default: false
//! - `ACTIVE`: whether to print; default: true
//! - `HEADROOM`: whether to print headroom and tailroom; default: false
//! - `CPU`: whether to print a CPU number, which is always 0; default: false
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `active` | read, write | true or false |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! InfiniteSource(DATA \<0102030405>, LIMIT 1) -> Print(x) -> Discard;   // x:    5 | 01020304 05
//! ```

use std::fmt::Write as _;

use warpswitch_graph::language::args::{Args, ArgsError, Bytes, FromArg, NoNames, Word};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::{Batch, Packet};

use warpswitch_elements_support::format;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Print", "1/1", "a/a", || Box::new(Print::default()));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents {
    None,
    Hex,
    Ascii,
}

/// See the module.
#[derive(Debug)]
pub struct Print {
    label: String,
    bytes_max: i32,
    contents: Contents,
    has_timestamp: bool,
    has_annotations: bool,
    has_room: bool,
    has_cpu: bool,
    active: bool,
    line: String,
}

impl Default for Print {
    fn default() -> Self {
        Self {
            label: String::new(),
            bytes_max: 24,
            contents: Contents::Hex,
            has_timestamp: false,
            has_annotations: false,
            has_room: false,
            has_cpu: false,
            active: true,
            line: String::new(),
        }
    }
}

/// Writing to a string cannot fail.
macro_rules! put {
    ($line:expr, $($format:tt)*) => {
        let _ = write!($line, $($format)*);
    };
}

impl Print {
    /// Makes the line about `packet`.
    fn describe(&mut self, packet: &Packet) {
        let line = &mut self.line;
        line.clear();
        line.push_str(&self.label);
        let mut separator = if self.label.is_empty() { "" } else { ": " };
        if self.has_cpu {
            line.push_str("(0)");
            separator = ": ";
        }
        if self.has_timestamp {
            put!(line, "{separator}{}", format::timestamp(packet.timestamp_ns()));
            separator = ": ";
        }
        put!(line, "{separator}{:4}", packet.len());
        if self.has_room {
            put!(line, " (h{} t{})", packet.headroom(), packet.tailroom());
        }
        if self.has_annotations {
            line.push_str(" | ");
            for byte in packet.annotations() {
                put!(line, "{byte:02x}");
            }
        }
        let bytes_max = usize::try_from(self.bytes_max).unwrap_or(usize::MAX);
        let data = &packet.data()[..packet.len().min(bytes_max)];
        if data.is_empty() || self.contents == Contents::None {
            return;
        }
        line.push_str(" | ");
        for (at, &byte) in data.iter().enumerate() {
            if self.contents == Contents::Hex {
                line.push_str(if at > 0 && at % 4 == 0 { " " } else { "" });
                put!(line, "{byte:02x}");
            } else {
                line.push_str(if at % 8 == 0 { " " } else { "" });
                line.push(if matches!(byte, 32..=126) { byte.into() } else { '.' });
            }
        }
    }
}

impl Element for Print {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut label, mut contents) = (Bytes::default(), Word("HEX".to_owned()));
        args.read_p("LABEL", &mut label)
            .read_p("MAXLENGTH", &mut self.bytes_max)
            .read("LENGTH", &mut self.bytes_max)
            .read("NBYTES", &mut self.bytes_max)
            .read("CONTENTS", &mut contents)
            .read("TIMESTAMP", &mut self.has_timestamp)
            .read("PRINTANNO", &mut self.has_annotations)
            .read("ACTIVE", &mut self.active)
            .read("HEADROOM", &mut self.has_room)
            .read("CPU", &mut self.has_cpu);
        args.complete()?;
        self.label = String::from_utf8_lossy(&label.0).into_owned();
        let upper = contents.0.to_ascii_uppercase();
        self.contents = match (bool::from_arg(&contents.0, &NoNames), &upper[..]) {
            (Ok(true), _) | (_, "HEX") => Contents::Hex,
            (Ok(false), _) | (_, "NONE") => Contents::None,
            (_, "ASCII") => Contents::Ascii,
            _ => {
                let rest = "should be 'NONE', 'HEX', or 'ASCII'";
                args.error_at("", &format!("bad contents value '{upper}'; {rest}"));
                Contents::None
            }
        };
        args.consume()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        if !self.active {
            return;
        }
        for packet in batch.iter() {
            self.describe(packet);
            cx.say(&self.line);
        }
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::both("active")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.active.to_string())
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.active = format::parse(value)?;
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    fn said(data: &str, arguments: &str) -> String {
        let config =
            format!("InfiniteSource(DATA {data}, LIMIT 1) -> Print({arguments}) -> Discard;");
        run(&config, &crate::registry()).1.said()
    }

    #[test]
    fn lines_look_as_in_click() {
        let nothing = "0".repeat(96);
        for (data, arguments, line) in [
            (r"\<0102030405>", "", "   5 | 01020304 05"),
            (r"\<01020304 05060708>", "x, 6", "x:    8 | 01020304 0506"),
            ("abcdefghij", "\"a: \", CONTENTS ascii", "a: :   10 |  abcdefgh ij"),
            (r"\<00417f>", "CONTENTS ASCII, MAXLENGTH 2", "   3 |  .A"),
            ("abc", "l, CONTENTS false", "l:    3"),
            ("abc", "CONTENTS none, TIMESTAMP true", "1000000000.000000:    3"),
            ("abc", "l, 0, TIMESTAMP true", "l: 1000000000.000000:    3"),
            ("abc", "HEADROOM true, MAXLENGTH 1", "   3 (h64 t1981) | 61"),
            ("abc", "a, -1, PRINTANNO true", &format!("a:    3 | {nothing} | 616263")),
            ("\"\"", "a", "a:    0"),
        ] {
            assert_eq!(said(data, arguments), format!("{line}\n"), "{arguments}");
        }
        assert_eq!(said("a", "ACTIVE false"), "");
        let long = said("\"\", LENGTH 12345", "");
        assert!(long.starts_with("12345") || long.starts_with("   0"), "{long}");
    }

    #[test]
    fn unknown_contents_are_an_error() {
        let config = "Idle -> Print(CONTENTS oct) -> Discard;";
        let errors = router(config, &crate::registry()).err().expect("it is wrong");
        let expected = "bad contents value 'OCT'; should be 'NONE', 'HEX', or 'ASCII'";
        assert!(errors.to_click().contains(expected), "{}", errors.to_click());
    }
}
