//! Writes of handlers, spread over a time.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use warpswitch_runtime::ControlAddress;
use warpswitch_runtime::client::{self, ControlClient, Stream};

use crate::exit::bad_input;

/// The longest text of a configuration that is replaced by itself.
const CONFIG_BYTES_MAX: usize = 16 << 20;

/// A connection to the configuration.
pub type Client = ControlClient<Box<dyn Stream>>;

/// A handler and the value to write.
pub type HandlerWrite = (String, String);

/// Connects to the control socket at `path`.
///
/// # Errors
/// If nobody answers there.
pub fn connect_to(path: &Path) -> anyhow::Result<Client> {
    Ok(client::connect(&ControlAddress::Unix(path.to_owned()))?)
}

/// Splits `HANDLER VALUE`.
///
/// # Errors
/// If there is no value.
pub fn parse(text: &str) -> anyhow::Result<HandlerWrite> {
    match text.trim().split_once(char::is_whitespace) {
        Some((handler, value)) => Ok((handler.to_owned(), value.trim().to_owned())),
        None => Err(bad_input(format!("'{text}': expected a handler and its value"))),
    }
}

/// The write that replaces a configuration by itself.
///
/// # Errors
/// If the configuration cannot be read.
pub fn replacement(client: &mut Client) -> anyhow::Result<HandlerWrite> {
    let read = client.read("flatconfig", CONFIG_BYTES_MAX).context("the connection is lost")?;
    match read {
        Ok(value) if !value.is_truncated => Ok(("hotconfig".to_owned(), value.text)),
        Ok(_) => Err(bad_input("the configuration is too long to be replaced")),
        Err(failure) => Err(anyhow!("flatconfig: {failure}")),
    }
}

/// Writes to do.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    /// Written in turns.
    pub texts: Vec<HandlerWrite>,
    /// How many.
    pub count: usize,
}

impl Writes {
    /// Does them at equal intervals over `time`, or until `is_ended`; returns how long each took
    /// until it was confirmed. A late write is done at once.
    ///
    /// # Errors
    /// The first write that fails.
    pub fn run(
        &self,
        client: &mut Client,
        time: Duration,
        is_ended: fn() -> bool,
    ) -> anyhow::Result<Vec<Duration>> {
        let start = Instant::now();
        let mut times = Vec::with_capacity(self.count);
        for (number, (handler, value)) in self.texts.iter().cycle().take(self.count).enumerate() {
            let due = due(number, self.count, time);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
            if is_ended() {
                break;
            }
            let written = Instant::now();
            let reply = client.write(handler, value).context("the connection is lost")?;
            if let Err(failure) = reply {
                return Err(bad_input(format!("{handler}: {failure}")));
            }
            times.push(written.elapsed());
        }
        Ok(times)
    }
}

/// When write `number` of `count` is due.
fn due(number: usize, count: usize, time: Duration) -> Duration {
    time.mul_f64((number as f64 + 0.5) / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_handler_and_value() {
        let parsed = parse(" routes.add 10.2.0.0/16 10.0.1.7 2 ").unwrap();
        assert_eq!(parsed, ("routes.add".to_owned(), "10.2.0.0/16 10.0.1.7 2".to_owned()));
        assert!(parse("routes.flush").is_err());
    }

    #[test]
    fn writes_are_spread_over_the_time() {
        let time = Duration::from_secs(1);
        let all: Vec<u128> = (0..4).map(|number| due(number, 4, time).as_millis()).collect();
        assert_eq!(all, [125, 375, 625, 875]);
    }
}
