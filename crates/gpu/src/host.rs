//! A pool of host threads that works as a card does: slots, work that ends in any order, answers
//! later. So everything above is tested, and can be used, without a card.
//!
//! A batch is one job; jobs run side by side on as many threads as the pool was given. Threads are
//! handed in: whoever makes a pool starts them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use warpswitch_rules::{KeyBatch, RuleId, Schema};

use crate::device::Loaded;

/// What a thread of the pool runs until the pool is dropped.
pub type Worker = Box<dyn FnOnce() + Send>;

/// Something for a thread of the pool to do.
enum Task {
    Batch(Job),
    /// Runs until it has no more to do.
    Long(Worker),
}

/// A batch on its way: everything that is needed to answer it.
struct Job {
    buffers: Buffers,
    loaded: Arc<Loaded>,
    schema: &'static Schema,
    done: Arc<Done>,
}

/// Keys and answers of a slot. They travel with the job and come back.
#[derive(Debug, Default)]
struct Buffers {
    keys: Vec<u32>,
    answers: Vec<RuleId>,
    len: usize,
}

/// Where a job's buffers come back to.
#[derive(Debug, Default)]
struct Done {
    buffers: Mutex<Option<Buffers>>,
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
        let shared = Arc::<Shared>::default();
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
    pub(crate) fn slot(&self, schema: &'static Schema, keys_max: usize) -> HostSlot {
        let keys = vec![0; keys_max * schema.words];
        let answers = vec![RuleId::NONE; keys_max];
        let buffers = Buffers { keys, answers, len: 0 };
        HostSlot {
            shared: self.shared.clone(),
            schema,
            buffers: Some(buffers),
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
            Task::Batch(job) => job.run(),
            Task::Long(run) => run(),
        }
    }
}

impl Job {
    fn run(mut self) {
        let Buffers { keys, answers, len } = &mut self.buffers;
        let keys = KeyBatch::new(self.schema, &keys[..*len * self.schema.words]);
        self.loaded.image().classify(keys, &mut answers[..*len]);
        *lock(&self.done.buffers) = Some(self.buffers);
        self.done.ready.notify_all();
    }
}

/// A slot of a pool.
pub(crate) struct HostSlot {
    shared: Arc<Shared>,
    schema: &'static Schema,
    /// `None` while a batch is under way.
    buffers: Option<Buffers>,
    done: Arc<Done>,
}

impl HostSlot {
    fn buffers(&mut self) -> &mut Buffers {
        self.buffers.as_mut().expect("the slot is in use")
    }

    pub(crate) fn keys_mut(&mut self) -> &mut [u32] {
        &mut self.buffers().keys
    }

    pub(crate) fn start(&mut self, loaded: &Arc<Loaded>, len: usize) {
        let mut buffers = self.buffers.take().expect("the slot is in use");
        assert!(len <= buffers.answers.len(), "{len} keys are more than the slot holds");
        buffers.len = len;
        let (loaded, done) = (loaded.clone(), self.done.clone());
        let job = Job { buffers, loaded, schema: self.schema, done };
        lock(&self.shared.queue).jobs.push_back(Task::Batch(job));
        self.shared.ready.notify_one();
    }

    pub(crate) fn poll(&mut self) -> bool {
        if self.buffers.is_none() {
            self.buffers = lock(&self.done.buffers).take();
        }
        self.buffers.is_some()
    }

    /// Waits for the answers. Should the pool be gone, the job still runs: its threads end only
    /// when none is left.
    pub(crate) fn wait(&mut self) {
        if self.buffers.is_some() {
            return;
        }
        let mut back = lock(&self.done.buffers);
        while back.is_none() {
            let waited = self.done.ready.wait(back);
            back = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        self.buffers = back.take();
    }

    pub(crate) fn answers(&self) -> &[RuleId] {
        let buffers = self.buffers.as_ref().expect("the slot is in use");
        &buffers.answers[..buffers.len]
    }
}
