//! Packets from a source through N workers to an output, in order and in bounded memory.
//!
//! ```text
//!            ┌─► channel 0 ─► worker 0 ─► channel 0 ─┐
//!   reader ──┼─► channel 1 ─► worker 1 ─► channel 1 ─┼─► writer ─► output
//!      ▲     └─► …                                   ┘      │
//!      └───────────────────── empty batches ────────────────┘
//! ```
//! Batch `i` goes through worker `i mod N` and the writer takes its turns in the same order, so no
//! batch waits for one that comes later and nothing has to be put in order. A fixed number of
//! batches goes round; a slow end holds the others back.
//!
//! Workers parse lines or frames, look keys up and print the answers; the reader only cuts the
//! input and the writer only copies. Bad lines do not end the run, so that all of them are
//! reported, but nothing is looked up or written any more. Any other error does end it: the thread
//! that meets it leaves, the channels close behind it, and the others follow.
//!
//! [`roles`] has the form in which some workers run the cache and others the engine.

pub mod roles;

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use warpswitch_classify::Classifier;
use warpswitch_flow::Misses;
use warpswitch_rules::diagnostic::Diagnostics;
use warpswitch_rules::{RuleId, Schema};

use crate::digest::Digest;
use crate::live;
use crate::output::Output;
use crate::packets::{Batch, Source};
use crate::tally::Tally;
use crate::threads;
use crate::trace_blocks::add_errors;

/// Batches that wait before each worker, and as many behind it.
const BATCHES_QUEUED: usize = 2;

/// What was written waits so long for more to be written with it.
const FLUSH: Duration = Duration::from_millis(50);

/// Longest text of an answer: ten digits and a line end.
const ANSWER_BYTES_MAX: usize = 11;

/// A batch and the text of its answers, or what is wrong with it.
struct Job {
    /// Its place in the input.
    turn: usize,
    batch: Batch,
    text: Vec<u8>,
    errors: Option<Diagnostics>,
    /// Keys that the cache did not answer, between two workers.
    misses: Misses,
}

impl Job {
    fn new(schema: &'static Schema) -> Self {
        let (text, misses) = (Vec::new(), Misses::default());
        Self { turn: 0, batch: Batch::new(schema), text, errors: None, misses }
    }

    /// Empty jobs, as many as go round.
    fn channel(schema: &'static Schema, jobs: usize) -> (Sender<Self>, Receiver<Self>) {
        let (sender, receiver) = channel();
        for _ in 0..jobs {
            sender.send(Self::new(schema)).expect("the receiver is held below");
        }
        (sender, receiver)
    }
}

/// Finished jobs in the order of the input.
trait Finished {
    /// The next job; none after the last one.
    ///
    /// # Errors
    /// If it does not come in time, if a time is given.
    fn next(&mut self, wait: Option<Duration>) -> Result<Option<Job>, Late>;
}

/// A job did not come in time.
struct Late;

/// Workers that take turns.
struct InTurns {
    from_workers: Vec<Receiver<Job>>,
    turn: usize,
}

impl Finished for InTurns {
    fn next(&mut self, wait: Option<Duration>) -> Result<Option<Job>, Late> {
        let from_worker = &self.from_workers[self.turn % self.from_workers.len()];
        let job = match wait {
            None => from_worker.recv().ok(),
            Some(wait) => match from_worker.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => return Err(Late),
                // The worker whose turn it is has nothing more: neither have those behind it.
                job => job.ok(),
            },
        };
        self.turn += 1;
        Ok(job)
    }
}

/// What a run found.
pub struct RunResult {
    /// Counts of all workers.
    pub tally: Tally,
    /// Fingerprint of the answers.
    pub digest: Digest,
}

/// Classifies everything from `source` with `threads` workers and writes an answer a line;
/// `progress` receives the number of packets written so far.
///
/// # Errors
/// Of the source (bad input) and of the output; whatever was written by then is to be discarded.
pub fn run(
    classifier: &dyn Classifier,
    source: &mut Source,
    output: &mut Output,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> anyhow::Result<RunResult> {
    let jobs = threads * (2 * BATCHES_QUEUED + 1) + 2;
    let (empty_in, empty_out) = Job::channel(classifier.schema(), jobs);
    let with_text = output.is_somewhere();
    let name = source.name().to_owned();
    thread::scope(|scope| {
        let mut to_workers = Vec::new();
        let mut from_workers = Vec::new();
        let mut workers = Vec::new();
        for idx in 0..threads {
            let (in_tx, in_rx) = sync_channel(BATCHES_QUEUED);
            let (out_tx, out_rx) = sync_channel(BATCHES_QUEUED);
            to_workers.push(in_tx);
            from_workers.push(out_rx);
            let worker = Worker { classifier, name: name.clone(), with_text };
            workers.push(scope.spawn(move || {
                threads::pin(idx);
                worker.work(in_rx, out_tx)
            }));
        }
        let finished = InTurns { from_workers, turn: 0 };
        let writer = scope.spawn(move || write(output, finished, empty_in, progress));
        let read = read(source, empty_out, |job| {
            let to = &to_workers[job.turn % to_workers.len()];
            to.send(job).is_ok()
        });
        drop(to_workers);
        let written = writer.join().map_err(|_| anyhow!("the writer thread failed"))?;
        let mut tally = Tally::new(classifier.len());
        for worker in workers {
            tally.add(&worker.join().map_err(|_| anyhow!("a worker thread failed"))?);
        }
        // An error of the writer is the cause where the reader only found the channels closed.
        let digest = written?;
        read?;
        Ok(RunResult { tally, digest })
    })
}

/// Hands batches to `send`, until the source ends or nobody takes them.
fn read(
    source: &mut Source,
    empty: Receiver<Job>,
    mut send: impl FnMut(Job) -> bool,
) -> anyhow::Result<()> {
    for turn in 0.. {
        let Ok(mut job) = empty.recv() else { return Ok(()) };
        job.turn = turn;
        job.batch.clear();
        source.fill(&mut job.batch)?;
        if job.batch.is_unfilled() || !send(job) {
            return Ok(());
        }
    }
    Ok(())
}

/// A worker that looks up whole batches.
struct Worker<'a> {
    classifier: &'a dyn Classifier,
    /// Of the source.
    name: String,
    with_text: bool,
}

impl Worker<'_> {
    /// Classifies batch after batch.
    fn work(&self, jobs: Receiver<Job>, done: SyncSender<Job>) -> Tally {
        let mut tally = Tally::new(self.classifier.len());
        let mut is_good = true;
        for mut job in jobs {
            job.errors = job.batch.make_keys(&self.name).err();
            job.text.clear();
            is_good &= job.errors.is_none();
            if is_good {
                self.answer(&mut job, &mut tally);
            }
            if done.send(job).is_err() {
                break;
            }
        }
        tally
    }

    fn answer(&self, job: &mut Job, tally: &mut Tally) {
        let batch = &mut job.batch;
        batch.winners.resize(batch.keys.len(), RuleId::NONE);
        let start = Instant::now();
        self.classifier.classify(batch.keys.as_batch(), &mut batch.winners);
        tally.lookup_time += start.elapsed();
        tally.count_batch(batch);
        if self.with_text {
            print_answers(batch, &mut job.text);
        }
    }
}

/// Writes batch after batch in the order in which they were dealt.
fn write(
    output: &mut Output,
    mut finished: impl Finished,
    empty: Sender<Job>,
    progress: &(dyn Fn(u64) + Sync),
) -> anyhow::Result<Digest> {
    let mut digest = Digest::new();
    let mut packets = 0;
    let mut answers = Vec::new();
    let mut errors = Diagnostics::default();
    let mut flushed = Instant::now();
    loop {
        let job = match finished.next(Some(FLUSH)) {
            Ok(job) => job,
            // The source has nothing now: what there is goes out.
            Err(Late) => {
                output.flush().context("cannot write the results")?;
                finished.next(None).unwrap_or(None)
            }
        };
        let Some(mut job) = job else { break };
        if let Some(more) = job.errors.take() {
            add_errors(&mut errors, &more);
        }
        if errors.is_empty() {
            output.write_all(&job.text).context("cannot write the results")?;
            if flushed.elapsed() >= live::FLUSH {
                output.flush().context("cannot write the results")?;
                flushed = Instant::now();
            }
            answers.clear();
            answers.extend(job.batch.answers());
            digest.update(&answers);
        }
        packets += job.batch.len() as u64;
        progress(packets);
        // The reader may have left after the last batch.
        _ = empty.send(job);
    }
    Ok(errors.into_result(digest)?)
}

/// Appends one line for each packet of a batch.
fn print_answers(batch: &Batch, text: &mut Vec<u8>) {
    text.reserve(batch.len() * ANSWER_BYTES_MAX);
    let mut digits = itoa::Buffer::new();
    for answer in batch.answers() {
        if answer.is_some() {
            text.extend_from_slice(digits.format(answer.0).as_bytes());
        } else {
            text.extend_from_slice(b"-1");
        }
        text.push(b'\n');
    }
}
