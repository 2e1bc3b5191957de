//! Signals: they set a flag and wake who sleeps; all else happens between tasks.
//!
//! INT, TERM and HUP stop the run; sent once more before it stopped they end the process. HUP stays
//! ignored in a process that was started so, by `nohup` for instance. Signals that
//! a configuration watches write a handler, once: it is watched again when the configuration says
//! so, and until then does what it does to any process.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts;
use signal_hook::{flag, low_level};

use crate::interrupt::is_ignored;

const NAMES: [(&str, i32); 11] = [
    ("ABRT", consts::SIGABRT),
    ("ALRM", consts::SIGALRM),
    ("HUP", consts::SIGHUP),
    ("INT", consts::SIGINT),
    ("IO", consts::SIGIO),
    ("PIPE", consts::SIGPIPE),
    ("QUIT", consts::SIGQUIT),
    ("TERM", consts::SIGTERM),
    ("TSTP", consts::SIGTSTP),
    ("USR1", consts::SIGUSR1),
    ("USR2", consts::SIGUSR2),
];

/// Those that stop a run.
const STOPS: [i32; 3] = [consts::SIGINT, consts::SIGTERM, consts::SIGHUP];

/// The signals of the process.
pub struct Signals {
    /// Readable once a signal came.
    pub wake: UnixStream,
    waker: UnixStream,
    watched: Vec<Watched>,
}

struct Watched {
    signal: i32,
    /// Whether it came.
    came: Arc<AtomicBool>,
    /// Whether it does to the process what it does by default.
    acts: Arc<AtomicBool>,
    /// Handlers to write.
    handlers: Vec<String>,
}

/// A signal that came.
pub enum Came {
    /// One that ends the run.
    Stop,
    /// One that the configuration watched: handlers to write, and the signal to give back then.
    Handlers(Vec<String>, i32),
}

impl Signals {
    /// INT, TERM and HUP are awaited from now on.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new() -> io::Result<Self> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let mut signals = Self { wake, waker, watched: Vec::new() };
        for signal in STOPS {
            if signal != consts::SIGHUP || !is_ignored(signal) {
                signals.register(signal, Arc::default(), Arc::default())?;
            }
        }
        Ok(signals)
    }

    fn register(
        &mut self,
        signal: i32,
        came: Arc<AtomicBool>,
        acts: Arc<AtomicBool>,
    ) -> io::Result<usize> {
        flag::register_conditional_default(signal, acts.clone())?;
        if is_stop(signal) {
            // The next one acts, even if nobody looks meanwhile.
            flag::register(signal, acts.clone())?;
        }
        flag::register(signal, came.clone())?;
        low_level::pipe::register(signal, self.waker.try_clone()?)?;
        self.watched.push(Watched { signal, came, acts, handlers: Vec::new() });
        Ok(self.watched.len() - 1)
    }

    /// Writes `handler` when the signal called `name` comes, once.
    ///
    /// # Errors
    /// If there is no such signal, or it cannot be watched.
    pub fn watch(&mut self, name: &str, handler: &str) -> Result<(), String> {
        let signal = number(name).ok_or("bad signal number")?;
        if consts::FORBIDDEN.contains(&signal) {
            return Err(format!("signal {name} cannot be watched"));
        }
        let known = self.watched.iter().position(|watched| watched.signal == signal);
        let at = match known {
            Some(at) => at,
            None => self
                .register(signal, Arc::default(), Arc::default())
                .map_err(|error| format!("signal {name}: {error}"))?,
        };
        let watched = &mut self.watched[at];
        if !is_stop(signal) {
            watched.acts.store(false, Ordering::SeqCst);
        }
        if !watched.handlers.iter().any(|known| known == handler) {
            watched.handlers.push(handler.to_owned());
        }
        Ok(())
    }

    /// Whether the configuration waits for a signal.
    pub fn is_watching(&self) -> bool {
        self.watched.iter().any(|watched| !watched.handlers.is_empty())
    }

    /// A signal that came, if one did.
    pub fn next(&mut self) -> Option<Came> {
        for watched in &mut self.watched {
            if !watched.came.swap(false, Ordering::SeqCst) {
                continue;
            }
            let handlers = std::mem::take(&mut watched.handlers);
            if !handlers.is_empty() {
                watched.acts.store(false, Ordering::SeqCst);
                return Some(Came::Handlers(handlers, watched.signal));
            }
            if is_stop(watched.signal) {
                return Some(Came::Stop);
            }
        }
        let mut waste = [0; 64];
        while matches!((&self.wake).read(&mut waste), Ok(1..)) {}
        None
    }

    /// The handlers of `signal` were written: unless it is watched again it acts by default.
    pub fn give_back(&mut self, signal: i32) {
        let mut watched = self.watched.iter().filter(|watched| watched.signal == signal);
        if let Some(watched) = watched.next()
            && watched.handlers.is_empty()
        {
            watched.acts.store(true, Ordering::SeqCst);
        }
    }
}

fn is_stop(signal: i32) -> bool {
    STOPS.contains(&signal)
}

/// The number of the signal called `name`, which may be its number.
fn number(name: &str) -> Option<i32> {
    let known = NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    known.or_else(|| name.parse().ok().filter(|number| (1..=32).contains(number)))
}

/// Sends a signal to a process.
///
/// # Errors
/// If there is no such signal or process, or it may not be sent one.
pub fn send(name: &str, process: u32) -> Result<(), String> {
    let number = number(name).ok_or("bad SIGNO")?;
    let signal = rustix::process::Signal::from_named_raw(number).ok_or("bad SIGNO")?;
    let process_id = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    let process_id = process_id.ok_or("bad PID")?;
    rustix::process::kill_process(process_id, signal)
        .map_err(|error| format!("kill({process}, {number}): {}", io::Error::from(error)))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// All tests of a process see the same signals.
    static ALONE: Mutex<()> = Mutex::new(());

    /// The next signal: another thread than the one that sent it may take it, a moment later.
    fn await_next(signals: &mut Signals) -> Came {
        let start = std::time::Instant::now();
        loop {
            match signals.next() {
                Some(came) => return came,
                None if start.elapsed().as_secs() > 20 => panic!("it does not come"),
                None => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn a_signal_is_seen_once_and_watched_again() {
        let _alone = ALONE.lock();
        let mut signals = Signals::new().unwrap();
        assert!(!signals.is_watching());
        signals.watch("USR2", "s.run").unwrap();
        signals.watch("USR2", "t.run").unwrap();
        send("USR2", std::process::id()).unwrap();
        let Came::Handlers(handlers, signal) = await_next(&mut signals) else { panic!("not INT") };
        assert_eq!(handlers, ["s.run", "t.run"]);
        signals.watch("USR2", "s.run").unwrap();
        signals.give_back(signal);
        assert!(signals.next().is_none() && signals.is_watching());
        send(&signal.to_string(), std::process::id()).unwrap();
        assert!(matches!(await_next(&mut signals), Came::Handlers(..)));
        // Watched for good: it must not end the process that tests.
        signals.watch("USR2", "s.run").unwrap();
    }

    #[test]
    fn a_second_stop_acts_though_nobody_looked_at_the_first() {
        let _alone = ALONE.lock();
        let mut signals = Signals::new().unwrap();
        let acts = |signals: &Signals, name: &str| {
            let signal = number(name).unwrap();
            let mut all = signals.watched.iter();
            all.find(|watched| watched.signal == signal).unwrap().acts.load(Ordering::SeqCst)
        };
        assert!(!acts(&signals, "TERM"));
        low_level::raise(consts::SIGTERM).unwrap();
        assert!(acts(&signals, "TERM") && !acts(&signals, "INT"));
        assert!(matches!(signals.next(), Some(Came::Stop)));
        assert!(acts(&signals, "TERM"));
        // One that is watched acts again once it was, unless it is watched anew.
        signals.watch("INT", "s.run").unwrap();
        low_level::raise(consts::SIGINT).unwrap();
        let Some(Came::Handlers(_, signal)) = signals.next() else { panic!("it came") };
        signals.watch("INT", "s.run").unwrap();
        signals.give_back(signal);
        assert!(!acts(&signals, "INT"));
    }

    #[test]
    fn what_cannot_be_is_told() {
        let mut signals = Signals::new().unwrap();
        assert_eq!(signals.watch("NONE", "s.run"), Err("bad signal number".into()));
        assert_eq!(signals.watch("9", "s.run"), Err("signal 9 cannot be watched".into()));
        assert_eq!(send("USR1", 0), Err("bad PID".into()));
        assert_eq!(send("NONE", 1), Err("bad SIGNO".into()));
    }
}
