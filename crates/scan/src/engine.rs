//! What finds occurrences: the filter, by one of its kernels, or the automaton alone.

use std::fmt;

use crate::arch::Kernel;

/// One way to search. All of them find the same.
#[derive(Clone, Copy)]
pub struct Engine(pub(crate) Option<Kernel>);

impl Engine {
    /// The automaton alone: slower, and as slow whatever it reads.
    pub const AUTOMATON: Self = Self(None);

    /// Those that this machine has, the fastest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Kernel::available().map(|kernel| Self(Some(kernel))).chain([Self::AUTOMATON])
    }

    /// The fastest of this machine.
    pub fn fastest() -> Self {
        Self(Kernel::available().next())
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0.map_or("automaton", Kernel::name)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
