//! `top` on a terminal.
//!
//! The thread that owns the terminal waits for nobody: another asks the router, so that keys work
//! however slow that is. However it ends, the terminal is as it was.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use signal_hook::consts;

use super::app::{App, Ask, Told};
use super::client::{Client, Stream, reason};
use super::detail::{Detail, Values, questions};
use super::draw::{Theme, draw};
use super::read_stats;
use crate::exit::Outcome;

/// How long keys may wait.
const LOOK: Duration = Duration::from_millis(50);
/// The most bytes of an answer that are shown.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Signals that end a program; they come where the terminal sends no key, or from elsewhere.
const SIGNALS: [i32; 3] = [consts::SIGINT, consts::SIGTERM, consts::SIGHUP];

/// Shows `app` until somebody quits, or after so many refreshes.
///
/// # Errors
/// The connection is lost; the terminal refuses.
pub fn run(
    client: Client<Box<dyn Stream>>,
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
        .name("asks".to_owned())
        .spawn(move || serve(client, &to_ask, &answers))
        .context("threads")?;
    // Undone by `restore`, also when this panics or fails half way.
    let shown = ratatui::try_init().and_then(|mut terminal| {
        let mut screen = Screen { asks, told, ends, count };
        screen.show(&mut terminal, &mut app, theme)
    });
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
    /// Shows the app until it is over; why, if nobody asked for it.
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
            if event::poll(LOOK)? {
                match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => app.press(key),
                    _ => {}
                }
                is_new = true;
            }
        }
    }
}

/// Asks the router what it is told to, until the connection or the other thread is gone.
fn serve(
    mut client: Client<Box<dyn Stream>>,
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

fn answer(client: &mut Client<Box<dyn Stream>>, ask: Ask) -> Result<Vec<Told>, String> {
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
            let answers = client.ask_all(&questions(&name), ANSWER_BYTES_MAX);
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

/// What handlers of an element say now.
fn values(
    client: &mut Client<Box<dyn Stream>>,
    element: &str,
    handlers: Vec<String>,
) -> Result<Values, String> {
    let names: Vec<String> = handlers.iter().map(|name| format!("{element}.{name}")).collect();
    let answers = client.ask_all(&names, ANSWER_BYTES_MAX).map_err(|error| reason(&error))?;
    let answers = answers.into_iter().map(|answer| answer.map_err(|refusal| refusal.to_string()));
    Ok(handlers.into_iter().zip(answers).collect())
}
