//! `top` on a terminal.
//!
//! The thread that owns the terminal never waits: another reads from the router, so that keys work
//! however slow that is. However it ends, the terminal is as it was.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts;

use super::app::{App, Ask, Told};
use super::detail::{Detail, Values, questions};
use super::draw::{Theme, draw};
use super::read_stats;
use crate::exit::Outcome;
use warpswitch_runtime::client::{ControlClient, Stream, reason};

/// How long keys may wait.
const LOOK: Duration = Duration::from_millis(50);
/// The most bytes of an answer that are shown.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Signals that end a program; they come where the terminal sends no key, or from elsewhere.
const SIGNALS: [i32; 3] = [consts::SIGINT, consts::SIGTERM, consts::SIGHUP];

/// Shows `app` until the user quits, or after so many refreshes.
///
/// # Errors
/// The connection is lost; the terminal refuses.
pub fn run(
    client: ControlClient<Box<dyn Stream>>,
    mut app: App,
    theme: &Theme,
    count: Option<u64>,
) -> anyhow::Result<Outcome> {
    let ends = Arc::new(AtomicBool::new(false));
    for signal in SIGNALS {
        signal_hook::flag::register(signal, ends.clone()).context("signals")?;
    }
    let (asks, to_ask) = channel();
    let (answers, told) = channel();
    // It ends with the process, or when nobody asks any more.
    std::thread::Builder::new()
        .name("reads".to_owned())
        .spawn(move || serve(client, &to_ask, &answers))
        .context("threads")?;
    // Undone by `restore`, also when this panics or fails half way.
    let shown = ratatui::try_init().and_then(|mut terminal| {
        let mut screen = Screen { asks, told, ends, count };
        let shown = screen.show(&mut terminal, &mut app, theme);
        if shown.as_ref().is_err_and(is_lost) {
            // To put back what is gone fails, and to tell of that panics.
            std::mem::forget(terminal);
        }
        shown
    });
    if shown.as_ref().is_err_and(is_lost) {
        return Ok(Outcome::Done);
    }
    ratatui::restore();
    match shown.context("the terminal")? {
        None => Ok(Outcome::Done),
        Some(why) => Err(anyhow!("{}: {why}", app.place)),
    }
}

/// What a screen is shown with.
struct Screen {
    asks: Sender<Ask>,
    told: Receiver<Result<Told, String>>,
    ends: Arc<AtomicBool>,
    count: Option<u64>,
}

impl Screen {
    /// Shows the app until it is over; why, if not by the user.
    fn show(
        &mut self,
        terminal: &mut DefaultTerminal,
        app: &mut App,
        theme: &Theme,
    ) -> io::Result<Option<String>> {
        let interval = Duration::from_secs_f64(app.interval_s);
        let (mut next_at, mut is_waiting, mut is_new) = (Instant::now(), false, true);
        loop {
            while let Ok(told) = self.told.try_recv() {
                match told {
                    Ok(told) => {
                        is_waiting &= !matches!(told, Told::Reading(_));
                        app.hear(told);
                    }
                    Err(why) => return Ok(Some(why)),
                }
                is_new = true;
            }
            // A router that is slow is asked less often.
            if Instant::now() >= next_at && !is_waiting {
                is_waiting = self.asks.send(app.refresh()).is_ok();
                next_at = Instant::now() + interval;
            }
            for ask in app.take_asks() {
                // If it fails the reason is on its way.
                _ = self.asks.send(ask);
            }
            if std::mem::take(&mut is_new) {
                terminal.draw(|frame| draw(frame, app, theme))?;
            }
            let is_enough = self.count.is_some_and(|count| app.refreshes >= count);
            if app.quits || is_enough || self.ends.load(Ordering::SeqCst) {
                return Ok(None);
            }
            let is_over = match io::stdin().is_terminal() {
                true => is_gone(io::stdin(), LOOK)?,
                false => is_gone(io::stdout(), LOOK)?,
            };
            if is_over {
                return Err(Errno::IO.into());
            }
            while event::poll(Duration::ZERO)? {
                match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => app.press(key),
                    _ => {}
                }
                is_new = true;
            }
        }
    }
}

/// Whether an error is that of a terminal that was closed.
fn is_lost(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::IO.raw_os_error())
}

/// Waits for a key, at most so long; whether the terminal was closed meanwhile. Crossterm reads one
/// that was without end, so only what has come is taken.
fn is_gone(terminal: impl AsFd, at_most: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(&terminal, PollFlags::IN)];
    let at_most = Timespec { tv_sec: 0, tv_nsec: at_most.subsec_nanos().into() };
    match poll(&mut fds, Some(&at_most)) {
        Ok(_) => {}
        // A signal: the terminal may have another size.
        Err(Errno::INTR) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    Ok(fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL))
}

/// Sends requests to the router, until the connection or the other thread is gone.
fn serve(
    mut client: ControlClient<Box<dyn Stream>>,
    asks: &Receiver<Ask>,
    answers: &Sender<Result<Told, String>>,
) {
    while let Ok(ask) = asks.recv() {
        let told = answer(&mut client, ask);
        let is_over = told.is_err();
        for told in
            told.map_or_else(|why| vec![Err(why)], |told| told.into_iter().map(Ok).collect())
        {
            if answers.send(told).is_err() {
                return;
            }
        }
        if is_over {
            return;
        }
    }
}

fn answer(client: &mut ControlClient<Box<dyn Stream>>, ask: Ask) -> Result<Vec<Told>, String> {
    match ask {
        Ask::Refresh(element) => {
            let mut told = Vec::new();
            if let Some((element, handlers)) = element {
                told.push(Told::Values(element.clone(), values(client, &element, handlers)?));
            }
            told.push(Told::Reading(read_stats(client).map_err(|error| format!("{error:#}"))?));
            Ok(told)
        }
        Ask::Open(name) => {
            let answers = client.read_all(&questions(&name), ANSWER_BYTES_MAX);
            let detail = Detail::opened(&name, answers.map_err(|error| reason(&error))?);
            let watched = detail.as_ref().map(Detail::watched).unwrap_or_default();
            let values = values(client, &name, watched)?;
            Ok(vec![Told::Opened(name.clone(), detail), Told::Values(name, values)])
        }
        Ask::Read(element, handler) => {
            let values = values(client, &element, vec![handler])?;
            Ok(vec![Told::Values(element, values)])
        }
    }
}

/// The present texts of handlers of an element.
fn values(
    client: &mut ControlClient<Box<dyn Stream>>,
    element: &str,
    handlers: Vec<String>,
) -> Result<Values, String> {
    let names: Vec<String> = handlers.iter().map(|name| format!("{element}.{name}")).collect();
    let answers = client.read_all(&names, ANSWER_BYTES_MAX).map_err(|error| reason(&error))?;
    let answers = answers.into_iter().map(|answer| answer.map_err(|refusal| refusal.to_string()));
    Ok(handlers.into_iter().zip(answers).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_that_was_closed_is_noticed() {
        let (reader, writer) = io::pipe().expect("a pipe");
        assert!(!is_gone(&reader, Duration::from_millis(1)).expect("it can be waited for"));
        drop(writer);
        assert!(is_gone(&reader, Duration::from_secs(0)).expect("it can be waited for"));
    }
}
