//! Requests of the embedding program to the thread that runs its configuration.
//!
//! ```text
//! RunHandle ─Request─► channel ─┐
//!           ─one byte─► wake ───┴─► RequestQueue, polled by the host ─reply─► RunHandle
//! ```

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};

use warpswitch_graph::HandlerError;
use warpswitch_graph::control::Controlled;

use crate::stats::RunEnd;

/// The result of a handler.
pub(crate) type HandlerResult = Result<String, HandlerError>;

/// One request.
pub(crate) enum Request {
    /// Reads a handler with a parameter.
    Read(String, String, Sender<HandlerResult>),
    /// Writes a handler.
    Write(String, String, Sender<HandlerResult>),
    /// Replies when the run has ended.
    AwaitEnd(Sender<RunEnd>),
    /// Stops the run, and the queue after it.
    Stop,
}

/// The side of the embedding program.
pub(crate) struct RequestSender {
    requests: Sender<Request>,
    waker: UnixStream,
}

/// The side of the running thread.
pub(crate) struct RequestQueue {
    requests: Receiver<Request>,
    wake: UnixStream,
    /// Callers that wait for the end of the run.
    waiters: Vec<Sender<RunEnd>>,
    end: Option<RunEnd>,
    is_stopped: bool,
}

/// A connected pair.
pub(crate) fn request_channel() -> io::Result<(RequestSender, RequestQueue)> {
    let (wake, waker) = UnixStream::pair()?;
    wake.set_nonblocking(true)?;
    waker.set_nonblocking(true)?;
    let (sender, requests) = channel();
    let (waiters, end, is_stopped) = (Vec::new(), None, false);
    let queue = RequestQueue { requests, wake, waiters, end, is_stopped };
    Ok((RequestSender { requests: sender, waker }, queue))
}

impl RequestSender {
    /// Sends a request; returns whether the run still serves requests.
    pub(crate) fn send(&self, request: Request) -> bool {
        let is_sent = self.requests.send(request).is_ok();
        // A full socket already wakes the queue.
        _ = (&self.waker).write(&[0]);
        is_sent
    }
}

impl RequestQueue {
    /// Readable while requests may be pending.
    pub(crate) fn wake_fd(&self) -> &UnixStream {
        &self.wake
    }

    /// Whether the embedding program requested the stop, or dropped its handle.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Serves all pending requests.
    pub(crate) fn serve(&mut self, target: &mut dyn Controlled) {
        let mut bytes = [0; 64];
        // Before the requests: a byte that arrives later wakes the queue again. The end of the
        // stream means that the handle was dropped.
        loop {
            match self.wake.read(&mut bytes) {
                Ok(0) => {
                    self.is_stopped = true;
                    break;
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        while let Ok(request) = self.requests.try_recv() {
            self.serve_one(request, target);
        }
    }

    fn serve_one(&mut self, request: Request, target: &mut dyn Controlled) {
        // A caller that stopped waiting needs no reply, so failed sends are ignored.
        match request {
            Request::Read(name, param, reply) => {
                _ = reply.send(target.read(&name, &param));
            }
            Request::Write(name, value, reply) => _ = reply.send(target.write(&name, &value)),
            Request::AwaitEnd(reply) => match self.end {
                Some(end) => _ = reply.send(end),
                None => self.waiters.push(reply),
            },
            Request::Stop => self.is_stopped = true,
        }
    }

    /// Records the end of the run, and replies to all callers that wait for it.
    pub(crate) fn finish(&mut self, end: RunEnd) {
        self.end = Some(end);
        self.waiters.drain(..).for_each(|waiter| _ = waiter.send(end));
    }

    /// Blocks until a request is pending; returns whether the queue still serves requests.
    pub(crate) fn wait(&mut self) -> bool {
        if !self.is_stopped {
            let mut fds = [rustix::event::PollFd::new(&self.wake, rustix::event::PollFlags::IN)];
            _ = rustix::event::poll(&mut fds, None);
        }
        !self.is_stopped
    }
}
