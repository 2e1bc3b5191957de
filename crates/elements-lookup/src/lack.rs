//! Warns once if none of the first packets has a property that an element requires, such as an
//! annotation. This detects that an element is missing upstream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use warpswitch_graph::Context;

/// Packets without the property after which the warning is printed before the run ends.
const PACKETS_MAX: u64 = 1000;

/// Packets so far, as long as none had what the element goes by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lack {
    /// Whether packets are still to be looked at.
    is_open: bool,
    /// State shared by all copies of the element.
    known: Arc<Known>,
}

#[derive(Debug, Default)]
struct Known {
    packets: AtomicU64,
    /// Whether a packet had it, or the warning was printed. Swapped, so that only one copy warns.
    is_settled: AtomicBool,
}

impl Lack {
    /// Of an element that goes by something, or does not.
    pub(crate) fn of(is_asked: bool) -> Self {
        Self { is_open: is_asked, known: Arc::default() }
    }

    /// Whether packets are still to be looked at.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Notes that one of so many packets has it, or none.
    #[cold]
    pub(crate) fn note(
        &mut self,
        cx: &mut Context<'_>,
        has: bool,
        packets: usize,
        lacking: &Lacking,
    ) {
        if has {
            self.known.is_settled.store(true, Ordering::Relaxed);
        }
        let before = self.known.packets.fetch_add(packets as u64, Ordering::Relaxed);
        if before + packets as u64 >= PACKETS_MAX {
            self.end(cx, lacking);
        }
        self.is_open = !self.known.is_settled.load(Ordering::Relaxed);
    }

    /// Warns at the end of a run, however few packets there were.
    pub(crate) fn end(&mut self, cx: &mut Context<'_>, lacking: &Lacking) {
        let packets = self.known.packets.load(Ordering::Relaxed);
        if packets == 0 || self.known.is_settled.swap(true, Ordering::Relaxed) {
            return;
        }
        let (name, Lacking { so, what, remedy }) = (cx.declaration(), lacking);
        let found = match packets {
            1 => format!("the only packet does not have {what}"),
            packets => format!("none of the first {packets} packets has {what}"),
        };
        cx.say(&format!("{name}: {so}: {found}: {remedy}"));
    }
}

/// The parts of the warning.
#[derive(Debug)]
pub(crate) struct Lacking {
    /// What comes of it.
    pub(crate) so: &'static str,
    /// What packets do not have.
    pub(crate) what: &'static str,
    /// What would help.
    pub(crate) remedy: &'static str,
}
