//! Sources of frames: replayed from memory, or read from a capture in the page cache.

/// Where frames come from while a configuration is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Held in memory and shared with packets.
    Memory,
    /// Read from a capture by `FromDump`, again from its start after its end.
    Capture,
}

/// The values of `--source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Sources {
    /// Frames replayed from memory
    Memory,
    /// Frames read from a capture in the page cache
    Capture,
    /// Each case from memory, then from a capture
    Both,
}

impl Sources {
    /// The sources to measure.
    pub fn list(self) -> &'static [Source] {
        match self {
            Sources::Memory => &[Source::Memory],
            Sources::Capture => &[Source::Capture],
            Sources::Both => &[Source::Memory, Source::Capture],
        }
    }
}

impl Source {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Source::Memory => "memory",
            Source::Capture => "capture",
        }
    }

    /// The handler that starts over.
    pub fn restart(self) -> &'static str {
        match self {
            Source::Memory => "reset",
            Source::Capture => "rewind",
        }
    }
}

/// An element of a configuration that delivers frames.
#[derive(Clone, Debug)]
pub struct Feed {
    /// Name of the element.
    pub name: &'static str,
    /// Variable with the name of the capture.
    pub variable: &'static str,
    /// Declaration of an element that generates frames without end; none if frames are replayed.
    pub generator: Option<String>,
}

impl Feed {
    /// One that replays a capture.
    pub fn new(name: &'static str, variable: &'static str) -> Self {
        Self { name, variable, generator: None }
    }

    /// Stands for the element in the text of a case.
    fn placeholder(&self) -> String {
        format!("<{}>", self.name)
    }

    /// Variable with the handler that is called at the end of the capture.
    pub fn end_variable(&self) -> String {
        format!("{}_END", self.name)
    }

    /// `config` with the element in the place of its placeholder.
    pub fn fill(&self, config: &str, source: Source) -> String {
        let Self { name, variable, generator } = self;
        let element = match (source, generator) {
            (Source::Memory, Some(generator)) => format!("{name} :: {generator}"),
            (Source::Memory, None) => {
                format!("FromDump(${variable}) -> {name} :: ReplayUnqueue(STOP $STOP)")
            }
            (Source::Capture, _) => {
                format!("{name} :: FromDump(${variable}, END_CALL ${})", self.end_variable())
            }
        };
        config.replace(&self.placeholder(), &element)
    }

    /// Variables of one pass over the frames, or of passes without end.
    pub fn variables(&self, source: Source, is_endless: bool) -> [(String, String); 1] {
        match source {
            Source::Memory => [("STOP".to_owned(), if is_endless { "-1" } else { "1" }.to_owned())],
            Source::Capture if is_endless => {
                [(self.end_variable(), format!("{}.rewind", self.name))]
            }
            Source::Capture => [(self.end_variable(), "stop".to_owned())],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_in_one_element_for_each_source() {
        let feed = Feed::new("replay", "IN");
        assert_eq!(
            feed.fill("<replay> -> Discard;", Source::Memory),
            "FromDump($IN) -> replay :: ReplayUnqueue(STOP $STOP) -> Discard;"
        );
        assert_eq!(
            feed.fill("<replay> -> Discard;", Source::Capture),
            "replay :: FromDump($IN, END_CALL $replay_END) -> Discard;"
        );
        let endless = feed.variables(Source::Capture, true);
        assert_eq!(endless, [("replay_END".to_owned(), "replay.rewind".to_owned())]);
    }
}
