//! A pool of host threads that works as a card does: slots, work that ends in any order, answers
//! later. So everything above is tested, and can be used, without a card.
//!
//! A batch is one job; jobs run side by side on as many threads as the pool was given. Threads are
//! handed in: whoever makes a pool starts them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::error::{ErrorKind, GpuError};
use crate::work::{Form, Lookup};
use warpswitch_classify::parts::SeedStream;

/// What a thread of the pool runs until the pool is dropped.
pub type Worker = Box<dyn FnOnce() + Send>;

/// What goes wrong on purpose, so that it can be tried what happens then: drawn for each batch from
/// the seed and its number, so the same each time. Chances are between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultPlan {
    /// Of the draws.
    pub seed: u64,
    /// Batches before this one are spared.
    pub first_batch: u64,
    /// How likely a batch takes longer.
    pub delay_chance: f64,
    /// By so much at most.
    pub delay_max: Duration,
    /// How likely it is never answered.
    pub hang_chance: f64,
    /// How likely it ends with an error.
    pub error_chance: f64,
}

impl Default for FaultPlan {
    fn default() -> Self {
        Self {
            seed: 0,
            first_batch: 0,
            delay_chance: 0.0,
            delay_max: Duration::ZERO,
            hang_chance: 0.0,
            error_chance: 0.0,
        }
    }
}

/// What goes wrong with one batch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Delay(Duration),
    Hang,
    Error,
}

impl FaultPlan {
    /// The fault of batch `number`, if any.
    fn fault(&self, number: u64) -> Option<Fault> {
        if number < self.first_batch {
            return None;
        }
        let mut seeds = SeedStream::new(self.seed, number);
        let mut draw = || (seeds.next() >> 11) as f64 / (1u64 << 53) as f64;
        if draw() < self.hang_chance {
            return Some(Fault::Hang);
        }
        if draw() < self.error_chance {
            return Some(Fault::Error);
        }
        (draw() < self.delay_chance).then(|| Fault::Delay(self.delay_max.mul_f64(draw())))
    }
}

/// Something for a thread of the pool to do.
enum Task {
    Batch(Job),
    /// Runs until it has no more to do.
    Long(Worker),
}

/// A batch on its way: everything that is needed to answer it.
struct Job {
    /// The slot has them too, and leaves them alone meanwhile.
    keys: Arc<Vec<u32>>,
    answers: Answers,
    work: Arc<dyn Lookup>,
    form: Form,
    done: Arc<Done>,
    fault: Option<Fault>,
}

/// Answers of a slot. They travel with the job and come back.
#[derive(Debug, Default)]
struct Answers {
    words: Vec<u32>,
    len: usize,
}

/// Where a job's answers come back to.
#[derive(Debug, Default)]
struct Done {
    answers: Mutex<Option<Result<Answers, GpuError>>>,
    ready: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Task>,
    is_closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
    faults: Option<FaultPlan>,
    /// Batches so far.
    batches: AtomicU64,
    /// Those that hang: kept, as a card would hold on to them.
    hung: Mutex<Vec<Job>>,
}

/// Locks hold plain data that no panic leaves half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The pool. Dropping it lets its threads end once the jobs that wait are done.
pub struct HostPool {
    shared: Arc<Shared>,
    threads: usize,
}

impl std::fmt::Debug for HostPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostPool").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl HostPool {
    /// A pool of `threads` threads, at least one; `start` is called for each and has to run what it
    /// is given on a thread of its own.
    pub fn new(threads: usize, start: &mut dyn FnMut(Worker)) -> Self {
        Self::with_faults(threads, None, start)
    }

    /// The same, with what goes wrong on purpose.
    pub fn with_faults(
        threads: usize,
        faults: Option<FaultPlan>,
        start: &mut dyn FnMut(Worker),
    ) -> Self {
        let shared = Arc::new(Shared { faults, ..Shared::default() });
        let threads = threads.max(1);
        for _ in 0..threads {
            let shared = shared.clone();
            start(Box::new(move || work(&shared)));
        }
        Self { shared, threads }
    }

    /// How many threads it was given.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// For those who have something to do for long.
    pub(crate) fn runs(&self) -> Runs {
        Runs(self.shared.clone())
    }

    /// A slot for batches of up to `keys_max` keys.
    pub(crate) fn slot(&self, form: Form, keys_max: usize) -> HostSlot {
        HostSlot {
            shared: self.shared.clone(),
            form,
            keys_max,
            keys: Arc::new(vec![0; form.keys_len(keys_max)]),
            answers: Some(Answers { words: vec![0; form.answers_len(keys_max)], len: 0 }),
            done: Arc::default(),
        }
    }
}

impl Drop for HostPool {
    fn drop(&mut self) {
        lock(&self.shared.queue).is_closed = true;
        self.shared.ready.notify_all();
    }
}

/// Gives threads of a pool something to do for long; batches go to the others meanwhile.
pub(crate) struct Runs(Arc<Shared>);

impl Runs {
    /// Runs `task` on a thread of the pool, once one is free.
    pub(crate) fn run(&self, task: Worker) {
        lock(&self.0.queue).jobs.push_back(Task::Long(task));
        self.0.ready.notify_one();
    }
}

/// Runs jobs until the pool is closed and none is left.
fn work(shared: &Shared) {
    loop {
        let mut queue = lock(&shared.queue);
        let job = loop {
            if let Some(job) = queue.jobs.pop_front() {
                break job;
            }
            if queue.is_closed {
                return;
            }
            let waited = shared.ready.wait(queue);
            queue = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        };
        drop(queue);
        match job {
            Task::Batch(job) => job.run(shared),
            Task::Long(run) => run(),
        }
    }
}

impl Job {
    fn run(mut self, shared: &Shared) {
        let result = match self.fault {
            Some(Fault::Hang) => return lock(&shared.hung).push(self),
            Some(Fault::Error) => {
                Err(GpuError::new(ErrorKind::Call, "an error that was asked for"))
            }
            fault => {
                if let Some(Fault::Delay(time)) = fault {
                    std::thread::sleep(time);
                }
                let Answers { words, len } = &mut self.answers;
                let (keys, out) = (self.form.keys_len(*len), self.form.answers_len(*len));
                self.work.answer(&self.keys[..keys], &mut words[..out]);
                Ok(())
            }
        };
        // Before the slot hears of it: then the keys are its own again, and the image free.
        drop((self.keys, self.work));
        *lock(&self.done.answers) = Some(result.map(|()| self.answers));
        self.done.ready.notify_all();
    }
}

/// A slot of a pool.
pub(crate) struct HostSlot {
    shared: Arc<Shared>,
    form: Form,
    keys_max: usize,
    keys: Arc<Vec<u32>>,
    /// `None` while a batch is under way, and for good after an error.
    answers: Option<Answers>,
    done: Arc<Done>,
}

impl HostSlot {
    pub(crate) fn keys_mut(&mut self) -> &mut [u32] {
        Arc::get_mut(&mut self.keys).expect("the slot is in use")
    }

    /// The keys, of a batch under way too.
    pub(crate) fn keys(&self) -> &[u32] {
        &self.keys
    }

    pub(crate) fn start(&mut self, work: Arc<dyn Lookup>, len: usize) {
        let mut answers = self.answers.take().expect("the slot is in use");
        assert!(len <= self.keys_max, "{len} keys are more than the slot holds");
        answers.len = len;
        // Nothing is handed over with the number.
        let number = self.shared.batches.fetch_add(1, Ordering::Relaxed);
        let fault = self.shared.faults.and_then(|faults| faults.fault(number));
        let (keys, done) = (self.keys.clone(), self.done.clone());
        let job = Job { keys, answers, work, form: self.form, done, fault };
        lock(&self.shared.queue).jobs.push_back(Task::Batch(job));
        self.shared.ready.notify_one();
    }

    pub(crate) fn poll(&mut self) -> Result<bool, GpuError> {
        if self.answers.is_none()
            && let Some(result) = lock(&self.done.answers).take()
        {
            self.answers = Some(result?);
        }
        Ok(self.answers.is_some())
    }

    /// Waits until there are answers or an error, for `longest` at most. Should the pool be gone,
    /// the job still runs: its threads end only when none is left.
    pub(crate) fn wait(&mut self, longest: Option<Duration>) {
        if self.answers.is_some() {
            return;
        }
        let mut back = lock(&self.done.answers);
        while back.is_none() {
            match longest {
                None => {
                    let waited = self.done.ready.wait(back);
                    back = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
                }
                Some(longest) => {
                    // Woken for nothing or not, the caller looks again.
                    _ = self.done.ready.wait_timeout(back, longest);
                    return;
                }
            }
        }
    }

    pub(crate) fn answers(&self) -> &[u32] {
        let answers = self.answers.as_ref().expect("the slot is in use");
        &answers.words[..self.form.answers_len(answers.len)]
    }
}
