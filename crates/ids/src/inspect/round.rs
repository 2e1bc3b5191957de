//! What waits for a search: packets that were taken apart, and the texts that they gave.
//!
//! Payloads are searched where they lie, in the frames that [`inspect`](super::Inspector::inspect)
//! was given; only what no frame has in one piece is in the round's own memory: older bytes of
//! streams at their seams with new ones, and segments that had to wait.

use std::num::NonZeroU32;
use std::ops::Range;

use warpswitch_packet::packet::LINE_BYTES;
use warpswitch_packet::pages;
use warpswitch_scan::PatternId;

use super::messages::MessageText;
use crate::decode::{Carried, Decoded};
use crate::engine::FlowFacts;
use crate::flows::Address;
use crate::stream::Arrived;

/// A packet, or what stands for one where a stream gives a text without a packet of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'p> {
    pub decoded: Decoded<'p>,
    /// The packet of the batch, if it is one.
    pub packet: Option<u32>,
    /// The number of the packet in the run, from 1, that brought it about.
    pub number: u64,
    pub timestamp_ns: u64,
    /// What a search of its payload found before.
    pub found: Option<&'p [PatternId]>,
}

impl Head<'_> {
    /// Asks for the last line of a segment's payload, which its stream will keep: where a device
    /// searches payloads, nobody else reads it.
    pub(super) fn prefetch_end(&self) {
        let payload = self.decoded.payload;
        if self.decoded.carried == Carried::Tcp && payload.len() > LINE_BYTES {
            pages::prefetch(payload, payload.len() - 1);
        }
    }
}

/// A packet that is to be taken next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub address: Address,
    /// The time of the latest packet up to this one.
    pub now_ns: u64,
    /// Where its flow seems to be.
    pub hint: u32,
}

/// Which head a job has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadOf {
    Packet(u32),
    Stray(u32),
}

/// Where the older bytes of a text are whose new ones are its packet's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Older {
    /// They are the window of the stream, which moves on when the text was looked at.
    Window,
    /// In the round's memory.
    Copied(Range<usize>),
}

/// A text of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StreamText {
    /// All of it in the round's memory, from this place on.
    Whole(usize),
    /// The older bytes are somewhere, the new ones the payload.
    InPlace(Older),
}

/// What a text is confirmed with.
#[derive(Debug)]
pub(super) struct Job<'p> {
    pub head: HeadOf,
    pub flow: FlowFacts,
    pub flow_id: u64,
    pub place: u32,
    /// The packet's payload.
    pub payload: Option<&'p [u8]>,
    /// Whether what occurs in the payload is to be known: it is searched where it lies, unless that
    /// was done before.
    pub searches_payload: bool,
    /// What was found in it then.
    pub found: Option<&'p [PatternId]>,
    /// What else is searched, in the round's memory.
    pub searched: Range<usize>,
    pub stream: Option<(StreamText, Arrived)>,
    /// Whether no text of the stream has the payload: rules of streams are looked for in it alone.
    pub is_aside: bool,
    /// The part of a message that it is, by its number in the round, from 1; it has no other text
    /// then.
    pub message: Option<NonZeroU32>,
}

impl<'p> Job<'p> {
    /// What is searched for it, in order.
    pub(super) fn texts<'a>(&self, arena: &'a [u8]) -> impl Iterator<Item = &'a [u8]>
    where
        'p: 'a,
    {
        let payload = self.payload.filter(|_| self.searches_payload && self.found.is_none());
        let texts = [payload.unwrap_or(&[]), &arena[self.searched.clone()]];
        texts.into_iter().filter(|text| !text.is_empty())
    }
}

/// What waits.
#[derive(Debug, Default)]
pub(super) struct Round<'p> {
    pub jobs: Vec<Job<'p>>,
    pub arena: Vec<u8>,
    /// Heads of what has no packet.
    pub strays: Vec<Head<'static>>,
    /// Parts of messages.
    pub messages: Vec<MessageText>,
    /// Bytes of all texts.
    pub bytes: usize,
}

impl<'p> Round<'p> {
    /// The head of a job.
    pub(super) fn head<'a>(&'a self, heads: &'a [Head<'p>], of: HeadOf) -> &'a Head<'a> {
        match of {
            HeadOf::Packet(idx) => &heads[idx as usize],
            HeadOf::Stray(idx) => &self.strays[idx as usize],
        }
    }

    pub(super) fn clear(&mut self) {
        self.jobs.clear();
        self.arena.clear();
        self.strays.clear();
        self.messages.clear();
        self.bytes = 0;
    }

    /// An empty round for other frames, in the same memory.
    pub(super) fn renew<'q>(mut self) -> Round<'q> {
        self.clear();
        let Self { jobs, arena, strays, messages, bytes } = self;
        Round { jobs: renew(jobs), arena, strays, messages, bytes }
    }
}

/// An empty list for items that may live for another time, in the memory of one that is emptied.
pub(crate) fn renew<A, B>(mut list: Vec<A>) -> Vec<B> {
    list.clear();
    // Items of one size: the standard library collects them where they lie.
    list.into_iter().map(|_| unreachable!("the list is empty")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_list_is_used_again() {
        let list: Vec<Head<'static>> = Vec::with_capacity(100);
        let at = list.as_ptr() as usize;
        let list: Vec<Head<'_>> = renew(list);
        assert_eq!((list.as_ptr() as usize, list.capacity(), list.len()), (at, 100, 0));
    }
}
