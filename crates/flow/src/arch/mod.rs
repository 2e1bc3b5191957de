//! Code that is written per instruction set: the only place of this crate with `unsafe`.
//!
//! Policy: a type per instruction set whose value proves that the machine has it (`is_available`,
//! `new() -> Option`), a portable twin that defines the result, and one unsafe operation a block.

pub(crate) mod boxes;
