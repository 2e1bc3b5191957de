//! Signals: a handler sets a flag and wakes the run loop, which acts between two tasks.
//!
//! INT, TERM and HUP stop the run; a second one ends the process. A HUP that the process ignores
//! from its start, as under `nohup`, stays ignored. A signal that a configuration watches writes
//! its handlers once. Until it is watched again, it then has its default effect.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts;
use signal_hook::{flag, low_level};

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

/// Signals that stop a run.
const STOPS: [i32; 3] = [consts::SIGINT, consts::SIGTERM, consts::SIGHUP];

/// Whether a run handles INT, TERM and HUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignals {
    /// They stop the run in order.
    Handle,
    /// They are the program's own: the run installs no handler for them.
    Leave,
}

/// The signals that a run handles.
pub(crate) struct Signals {
    /// Readable after a signal.
    pub wake: UnixStream,
    waker: UnixStream,
    watched: Vec<WatchedSignal>,
}

struct WatchedSignal {
    signal: i32,
    /// Set by the signal handler.
    is_pending: Arc<AtomicBool>,
    /// Whether the signal has its default effect on the process.
    is_default: Arc<AtomicBool>,
    /// Handlers to write.
    handlers: Vec<String>,
}

/// A pending signal.
pub(crate) enum SignalEvent {
    /// A signal that ends the run.
    Stop,
    /// A signal that the configuration watches: the handlers to write, and the signal to
    /// [`Signals::release`] afterwards.
    Handlers(Vec<String>, i32),
}

impl Signals {
    /// Installs the handlers of `stops`.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(stops: StopSignals) -> io::Result<Self> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let mut signals = Self { wake, waker, watched: Vec::new() };
        for signal in STOPS.into_iter().filter(|_| stops == StopSignals::Handle) {
            if signal != consts::SIGHUP || !is_ignored(signal) {
                signals.register(signal, Arc::default(), Arc::default())?;
            }
        }
        Ok(signals)
    }

    fn register(
        &mut self,
        signal: i32,
        is_pending: Arc<AtomicBool>,
        is_default: Arc<AtomicBool>,
    ) -> io::Result<usize> {
        flag::register_conditional_default(signal, is_default.clone())?;
        if is_stop(signal) {
            // The next one ends the process even if the run loop is stuck.
            flag::register(signal, is_default.clone())?;
        }
        flag::register(signal, is_pending.clone())?;
        low_level::pipe::register(signal, self.waker.try_clone()?)?;
        self.watched.push(WatchedSignal { signal, is_pending, is_default, handlers: Vec::new() });
        Ok(self.watched.len() - 1)
    }

    /// Writes `handler` once when the signal called `name` arrives.
    ///
    /// # Errors
    /// If no such signal exists, or it cannot be watched.
    pub fn watch(&mut self, name: &str, handler: &str) -> Result<(), String> {
        let signal = number(name).ok_or("bad signal number")?;
        if consts::FORBIDDEN.contains(&signal) {
            return Err(format!("signal {name} cannot be watched"));
        }
        let position = self.watched.iter().position(|watched| watched.signal == signal);
        let idx = match position {
            Some(idx) => idx,
            None => self
                .register(signal, Arc::default(), Arc::default())
                .map_err(|error| format!("signal {name}: {error}"))?,
        };
        let watched = &mut self.watched[idx];
        if !is_stop(signal) {
            watched.is_default.store(false, Ordering::SeqCst);
        }
        if !watched.handlers.iter().any(|other| other == handler) {
            watched.handlers.push(handler.to_owned());
        }
        Ok(())
    }

    /// Whether the configuration watches a signal.
    pub fn is_watching(&self) -> bool {
        self.watched.iter().any(|watched| !watched.handlers.is_empty())
    }

    /// The next pending signal.
    pub fn next(&mut self) -> Option<SignalEvent> {
        for watched in &mut self.watched {
            if !watched.is_pending.swap(false, Ordering::SeqCst) {
                continue;
            }
            let handlers = std::mem::take(&mut watched.handlers);
            if !handlers.is_empty() {
                watched.is_default.store(false, Ordering::SeqCst);
                return Some(SignalEvent::Handlers(handlers, watched.signal));
            }
            if is_stop(watched.signal) {
                return Some(SignalEvent::Stop);
            }
        }
        let mut bytes = [0; 64];
        while matches!((&self.wake).read(&mut bytes), Ok(1..)) {}
        None
    }

    /// Restores the default effect of `signal` after its handlers were written, unless they watch
    /// it again.
    pub fn release(&mut self, signal: i32) {
        let mut watched = self.watched.iter().filter(|watched| watched.signal == signal);
        if let Some(watched) = watched.next()
            && watched.handlers.is_empty()
        {
            watched.is_default.store(true, Ordering::SeqCst);
        }
    }
}

fn is_stop(signal: i32) -> bool {
    STOPS.contains(&signal)
}

/// Whether the process was started with `signal` ignored, as by `nohup`; `false` if the system does
/// not report it.
pub fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (signal - 1) != 0)
}

/// The number of the signal called `name`; a number names itself.
fn number(name: &str) -> Option<i32> {
    let named = NAMES.iter().find(|(signal, _)| *signal == name).map(|(_, number)| *number);
    named.or_else(|| name.parse().ok().filter(|number| (1..=32).contains(number)))
}

/// Sends a signal to a process.
///
/// # Errors
/// If the signal or process does not exist, or the process may not be signalled.
pub(crate) fn send(name: &str, process: u32) -> Result<(), String> {
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

    /// All tests of a process share its signals.
    static ALONE: Mutex<()> = Mutex::new(());

    /// The next signal. Another thread than the sender may handle it a moment later.
    fn await_next(signals: &mut Signals) -> SignalEvent {
        let start = std::time::Instant::now();
        loop {
            match signals.next() {
                Some(event) => return event,
                None if start.elapsed().as_secs() > 20 => panic!("no signal arrives"),
                None => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn reports_a_signal_once_per_watch() {
        let _alone = ALONE.lock();
        let mut signals = Signals::new(StopSignals::Handle).unwrap();
        assert!(!signals.is_watching());
        signals.watch("USR2", "s.run").unwrap();
        signals.watch("USR2", "t.run").unwrap();
        send("USR2", std::process::id()).unwrap();
        let SignalEvent::Handlers(handlers, signal) = await_next(&mut signals) else {
            panic!("not INT")
        };
        assert_eq!(handlers, ["s.run", "t.run"]);
        signals.watch("USR2", "s.run").unwrap();
        signals.release(signal);
        assert!(signals.next().is_none() && signals.is_watching());
        send(&signal.to_string(), std::process::id()).unwrap();
        assert!(matches!(await_next(&mut signals), SignalEvent::Handlers(..)));
        // Stays watched: it must not end the test process.
        signals.watch("USR2", "s.run").unwrap();
    }

    #[test]
    fn second_stop_has_its_default_effect_before_a_poll() {
        let _alone = ALONE.lock();
        let mut signals = Signals::new(StopSignals::Handle).unwrap();
        let is_default = |signals: &Signals, name: &str| {
            let signal = number(name).unwrap();
            let mut all = signals.watched.iter();
            all.find(|watched| watched.signal == signal).unwrap().is_default.load(Ordering::SeqCst)
        };
        assert!(!is_default(&signals, "TERM"));
        low_level::raise(consts::SIGTERM).unwrap();
        assert!(is_default(&signals, "TERM") && !is_default(&signals, "INT"));
        assert!(matches!(signals.next(), Some(SignalEvent::Stop)));
        assert!(is_default(&signals, "TERM"));
        // A watched signal regains its default effect afterwards, unless it is watched again.
        signals.watch("INT", "s.run").unwrap();
        low_level::raise(consts::SIGINT).unwrap();
        let Some(SignalEvent::Handlers(_, signal)) = signals.next() else {
            panic!("INT is pending")
        };
        signals.watch("INT", "s.run").unwrap();
        signals.release(signal);
        assert!(!is_default(&signals, "INT"));
    }

    #[test]
    fn rejects_unknown_signals_and_processes() {
        let mut signals = Signals::new(StopSignals::Handle).unwrap();
        assert_eq!(signals.watch("NONE", "s.run"), Err("bad signal number".into()));
        assert_eq!(signals.watch("9", "s.run"), Err("signal 9 cannot be watched".into()));
        assert_eq!(send("USR1", 0), Err("bad PID".into()));
        assert_eq!(send("NONE", 1), Err("bad SIGNO".into()));
    }

    #[test]
    fn leaves_stop_signals_to_the_program() {
        let signals = Signals::new(StopSignals::Leave).unwrap();
        assert!(signals.watched.is_empty());
    }
}
