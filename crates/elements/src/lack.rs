//! Something that packets lack and an element goes by: told once, if none of the first packets has
//! it. That is how a configuration shows that lacks an element before this one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use warpswitch_graph::Context;

/// Packets that lack it after which that is told before the run ends.
const PACKETS_MAX: u64 = 1000;

/// Packets so far, as long as none had what the element goes by. Copies of it tell once together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lack {
    /// None once a packet had it, or where nothing is asked for.
    packets: Option<u64>,
    /// Whether it, or a copy, has told. Swapped by copies: who finds it false tells.
    is_told: Arc<AtomicBool>,
}

impl Lack {
    /// Of an element that goes by something, or does not.
    pub(crate) fn of(is_asked: bool) -> Self {
        Self { packets: is_asked.then_some(0), is_told: Arc::default() }
    }

    /// Whether packets are still to be looked at.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.packets.is_some()
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
            self.packets = None;
        } else if let Some(sum) = &mut self.packets {
            *sum += packets as u64;
            self.tell(cx, PACKETS_MAX, lacking);
        }
    }

    /// Takes in what a copy saw.
    pub(crate) fn absorb(&mut self, copy: &Self) {
        self.packets = self.packets.zip(copy.packets).map(|(own, more)| own + more);
    }

    /// Tells at the end of a run, however few packets there were.
    pub(crate) fn end(&mut self, cx: &mut Context<'_>, lacking: &Lacking) {
        self.tell(cx, 1, lacking);
    }

    fn tell(&mut self, cx: &mut Context<'_>, packets_min: u64, lacking: &Lacking) {
        let Some(packets) = self.packets.take_if(|packets| *packets >= packets_min) else { return };
        if self.is_told.swap(true, Ordering::Relaxed) {
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

/// What is said of a lack.
#[derive(Debug)]
pub(crate) struct Lacking {
    /// What comes of it.
    pub(crate) so: &'static str,
    /// What packets do not have.
    pub(crate) what: &'static str,
    /// What would help.
    pub(crate) remedy: &'static str,
}
