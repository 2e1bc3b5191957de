//! Messages between workers, and the knowledge that all of them have come to rest.
//!
//! ```text
//! worker 0 ◄─ inbox 0 ◄─┐      at work: 1 each        active = workers at work + messages that
//! worker 1 ◄─ inbox 1 ◄─┼─ send            │                   nobody took yet
//! worker 2 ◄─ inbox 2 ◄─┘      resting: 0  ▼          active = 0: all is quiet, worker 0 is woken
//! ```
//! A worker takes all that lies in its inbox at once, so the cost of the lock is shared by what
//! came meanwhile. An inbox has no bound of its own: who sends asks [`Handoff::load`] first, and
//! makes no new work while that is too much.
//!
//! # Invariants
//! - H1: a message counts in `active` from before it lies in an inbox until its receiver, who is
//!   counted as at work, has taken it. Only workers at work send. So once `active` is 0 nothing
//!   waits anywhere, and that stays so unless a worker's own time-out ends its rest.
//! - H2: a worker sleeps only if its inbox was empty and no stop was asked for while it held the
//!   inbox's lock; who changes either takes that lock and wakes it. No wake-up is lost.
//! - H3: a worker that sleeps by other means has set `is_listening` while it held that lock; who
//!   wakes it reads this with the lock held, and rings its bell.

use std::sync::PoisonError;
use std::time::Duration;

use super::primitives::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, pause};

/// Looks at an empty inbox before a worker goes to sleep: some microseconds, which is what waking
/// up would cost.
const LOOKS: usize = if cfg!(loom) { 0 } else { 256 };

/// Wakes a worker that sleeps by its own means, see [`Handoff::rest_until_rung`]. It must also end
/// the sleep of a worker that is about to begin it.
pub type Bell = Box<dyn Fn() + Send + Sync>;

/// Inboxes of workers. See the module.
#[derive(Debug)]
pub struct Handoff<T> {
    inboxes: Box<[Inbox<T>]>,
    active: AtomicUsize,
    /// Not 0 once a stop was asked for.
    stop: AtomicUsize,
}

/// On cache lines of its own (two, for cores that fetch pairs).
#[repr(align(128))]
struct Inbox<T> {
    /// Messages in it; read without the lock.
    waiting: AtomicUsize,
    /// Their weight; read without the lock.
    load: AtomicUsize,
    content: Mutex<Content<T>>,
    changed: Condvar,
    bell: Option<Bell>,
}

impl<T> std::fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

struct Content<T> {
    messages: Vec<T>,
    /// Whether the worker sleeps until its bell rings.
    is_listening: bool,
}

/// Why a rest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rested {
    /// There is a message, or a stop was asked for, or the time is over.
    Woken,
    /// All workers rested and no message waited. Told to worker 0 alone.
    Quiet,
}

impl<T> Handoff<T> {
    /// Inboxes for so many workers, who all count as at work.
    pub fn new(workers: usize) -> Self {
        Self::with_bells((0..workers).map(|_| None).collect())
    }

    /// Inboxes for workers of whom some have a bell.
    pub fn with_bells(bells: Vec<Option<Bell>>) -> Self {
        let workers = bells.len();
        let inbox = |bell| Inbox {
            waiting: AtomicUsize::new(0),
            load: AtomicUsize::new(0),
            content: Mutex::new(Content { messages: Vec::new(), is_listening: false }),
            changed: Condvar::new(),
            bell,
        };
        Self {
            inboxes: bells.into_iter().map(inbox).collect(),
            active: AtomicUsize::new(workers),
            stop: AtomicUsize::new(0),
        }
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.inboxes.len()
    }

    /// Takes back a stop: all workers count as at work again. For when none of them runs.
    pub fn begin(&self) {
        let waiting: usize = self.inboxes.iter().map(|i| i.waiting.load(Ordering::Acquire)).sum();
        self.active.store(self.workers() + waiting, Ordering::Release);
        self.stop.store(0, Ordering::Release);
    }

    /// Puts `message` into the inbox of worker `to`. The sender is a worker at work.
    ///
    /// Cost: one lock that is seldom held, and a system call if the receiver sleeps.
    pub fn send(&self, to: usize, message: T, weight: usize) {
        let inbox = &self.inboxes[to];
        self.active.fetch_add(1, Ordering::AcqRel);
        let mut content = inbox.lock();
        content.messages.push(message);
        inbox.waiting.store(content.messages.len(), Ordering::Release);
        inbox.load.fetch_add(weight, Ordering::Relaxed);
        inbox.wake(content);
    }

    /// Weight of what waits for worker `to`, as of a moment ago.
    #[inline]
    pub fn load(&self, to: usize) -> usize {
        self.inboxes[to].load.load(Ordering::Relaxed)
    }

    /// Moves all that waits for `worker` to `into`, which is empty, in the order in which it came.
    /// Tells whether there was something.
    #[inline]
    pub fn take(&self, worker: usize, into: &mut Vec<T>) -> bool {
        let inbox = &self.inboxes[worker];
        if inbox.waiting.load(Ordering::Acquire) == 0 {
            return false;
        }
        debug_assert!(into.is_empty(), "messages would be mixed");
        let mut content = inbox.lock();
        std::mem::swap(&mut content.messages, into);
        inbox.waiting.store(0, Ordering::Release);
        inbox.load.store(0, Ordering::Relaxed);
        drop(content);
        self.active.fetch_sub(into.len(), Ordering::AcqRel);
        !into.is_empty()
    }

    /// Rests until there is a message, a stop is asked for or `timeout` is over; worker 0 also
    /// until all is quiet. May end early. `worker` has nothing to do.
    pub fn rest(&self, worker: usize, timeout: Option<Duration>) -> Rested {
        self.rest_by(worker, |inbox, content| inbox.sleep(content, timeout))
    }

    /// As [`Handoff::rest`], for a worker with a bell: `sleep` sleeps until it rings, or until
    /// anything else that it waits for.
    ///
    /// Cost: waking it is a call of its bell.
    pub fn rest_until_rung(&self, worker: usize, sleep: impl FnOnce()) -> Rested {
        debug_assert!(self.inboxes[worker].bell.is_some(), "nothing would wake it");
        self.rest_by(worker, |inbox, mut content| {
            content.is_listening = true;
            drop(content);
            sleep();
            inbox.lock().is_listening = false;
        })
    }

    fn rest_by<'a>(
        &'a self,
        worker: usize,
        sleep: impl FnOnce(&'a Inbox<T>, MutexGuard<'a, Content<T>>),
    ) -> Rested {
        let inbox = &self.inboxes[worker];
        for _ in 0..LOOKS {
            if inbox.waiting.load(Ordering::Acquire) > 0 || self.is_stopped() {
                return Rested::Woken;
            }
            pause();
        }
        if self.active.fetch_sub(1, Ordering::AcqRel) == 1 && worker != 0 {
            // Worker 0 looks at `active` with its lock held, so it is asleep or has yet to look.
            self.inboxes[0].wake(self.inboxes[0].lock());
        }
        let mut rested = Rested::Woken;
        let content = inbox.lock();
        if content.messages.is_empty() && !self.is_stopped() {
            if worker == 0 && self.active.load(Ordering::Acquire) == 0 {
                rested = Rested::Quiet;
            } else {
                sleep(inbox, content);
            }
        }
        self.active.fetch_add(1, Ordering::AcqRel);
        rested
    }

    /// Asks all workers to stop, and wakes those that rest.
    pub fn stop(&self) {
        self.stop.store(1, Ordering::Release);
        self.inboxes.iter().for_each(|inbox| inbox.wake(inbox.lock()));
    }

    /// Whether a stop was asked for.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire) != 0
    }
}

impl<T> Inbox<T> {
    /// A worker that panicked with the lock held left the messages whole.
    fn lock(&self) -> MutexGuard<'_, Content<T>> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the lock back and wakes the worker.
    fn wake(&self, content: MutexGuard<'_, Content<T>>) {
        let is_listening = content.is_listening;
        drop(content);
        self.changed.notify_one();
        if let Some(bell) = self.bell.as_ref().filter(|_| is_listening) {
            bell();
        }
    }

    /// Sleeps until something changes or `timeout` is over.
    fn sleep(&self, content: MutexGuard<'_, Content<T>>, timeout: Option<Duration>) {
        match timeout {
            Some(timeout) => drop(self.changed.wait_timeout(content, timeout)),
            None => drop(self.changed.wait(content)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_taken_in_order() {
        let handoff = Handoff::new(2);
        let mut taken = Vec::new();
        assert!(!handoff.take(1, &mut taken));
        for n in 0..5 {
            handoff.send(1, n, 10);
        }
        assert_eq!(handoff.load(1), 50);
        assert!(handoff.take(1, &mut taken));
        assert_eq!((taken, handoff.load(1)), (vec![0, 1, 2, 3, 4], 0));
        assert_eq!(handoff.rest(1, Some(Duration::from_millis(1))), Rested::Woken, "the time");
        handoff.stop();
        assert_eq!(handoff.rest(1, None), Rested::Woken, "a stop");
        handoff.begin();
        assert!(!handoff.is_stopped());
    }

    /// Workers pass messages on to each other until these have made all their hops: quiet comes
    /// after the last one, and not before.
    #[test]
    fn quiet_comes_when_all_is_done() {
        const WORKERS: usize = 3;
        let handoff = Handoff::new(WORKERS);
        let hops = AtomicUsize::new(0);
        let work = |me: usize| {
            let mut taken = Vec::new();
            loop {
                handoff.take(me, &mut taken);
                for left in taken.drain(..) {
                    hops.fetch_add(1, Ordering::Relaxed);
                    if left > 0 {
                        handoff.send((me + left) % WORKERS, left - 1, 1);
                    }
                }
                if handoff.rest(me, None) == Rested::Quiet {
                    assert_eq!(hops.load(Ordering::Relaxed), 100 * 51);
                    return handoff.stop();
                }
                if handoff.is_stopped() {
                    return;
                }
            }
        };
        for n in 0..100 {
            handoff.send(n % WORKERS, 50, 1);
        }
        std::thread::scope(|scope| {
            for me in 1..WORKERS {
                scope.spawn(move || work(me));
            }
            work(0);
        });
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;

    /// Worker 1 sends and rests; worker 0 hears that all is quiet only after it took what was sent,
    /// and in every order of steps both come to an end.
    #[test]
    fn no_message_is_overlooked() {
        loom::model(|| {
            let handoff = Arc::new(Handoff::new(2));
            let other = {
                let handoff = handoff.clone();
                loom::thread::spawn(move || {
                    handoff.send(0, 7, 1);
                    while !handoff.is_stopped() {
                        handoff.rest(1, None);
                    }
                })
            };
            let (mut taken, mut got) = (Vec::new(), 0);
            loop {
                handoff.take(0, &mut taken);
                got += taken.drain(..).count();
                if handoff.rest(0, None) == Rested::Quiet {
                    break;
                }
            }
            assert_eq!(got, 1);
            handoff.stop();
            other.join().expect("worker 1");
        });
    }

    /// The same where each worker sleeps by its own means until its bell rings.
    #[test]
    fn no_bell_is_missed() {
        /// Whether it has rung since the last sleep.
        #[derive(Default)]
        struct Gong(Mutex<bool>, Condvar);

        impl Gong {
            fn ring(&self) {
                *self.0.lock().unwrap() = true;
                self.1.notify_one();
            }

            fn sleep(&self) {
                let mut has_rung = self.0.lock().unwrap();
                while !*has_rung {
                    has_rung = self.1.wait(has_rung).unwrap();
                }
                *has_rung = false;
            }
        }

        loom::model(|| {
            let gongs = [Arc::new(Gong::default()), Arc::new(Gong::default())];
            let bell = |gong: &Arc<Gong>| {
                let gong = gong.clone();
                Some(Box::new(move || gong.ring()) as Bell)
            };
            let handoff = Arc::new(Handoff::with_bells(gongs.iter().map(bell).collect()));
            let other = {
                let (handoff, gong) = (handoff.clone(), gongs[1].clone());
                loom::thread::spawn(move || {
                    handoff.send(0, 7, 1);
                    while !handoff.is_stopped() {
                        handoff.rest_until_rung(1, || gong.sleep());
                    }
                })
            };
            let (mut taken, mut got) = (Vec::new(), 0);
            loop {
                handoff.take(0, &mut taken);
                got += taken.drain(..).count();
                if handoff.rest_until_rung(0, || gongs[0].sleep()) == Rested::Quiet {
                    break;
                }
            }
            assert_eq!(got, 1);
            handoff.stop();
            other.join().expect("worker 1");
        });
    }
}
