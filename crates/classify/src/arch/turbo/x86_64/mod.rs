//! The steps for AVX2 with BMI2, and for AVX-512. Each type proves that the machine has its
//! instructions: it cannot be made otherwise.

mod cuts;
mod hash;
mod lanes;
mod scan;

use warpswitch_rules::RuleId;

use super::{All, Answers, Column, HashTable, List, Scratch, View};
use scan::{Masked, Prefix, avx2, large, small};

/// Proof that the machine has BMI1, BMI2 and POPCNT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bmi2(());

/// Proof that the machine has AVX2 and what [`Bmi2`] says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(Bmi2);

/// Proof that the machine has AVX-512 F, BW, CD, DQ and VL, and what [`Bmi2`] says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(Bmi2);

impl Bmi2 {
    fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt");
        has.then_some(Self(()))
    }

    pub(super) fn cut_all<const W: usize>(
        self,
        all: &All<'_, W>,
        keys: &[[u32; W]],
        scratch: &mut Scratch,
    ) {
        if all.order_min > 0 {
            // SAFETY: `self` proves that the machine has BMI2.
            unsafe { cuts::cut_all::<W, true>(all, keys, scratch) }
        } else {
            // SAFETY: `self` proves that the machine has BMI2.
            unsafe { cuts::cut_all::<W, false>(all, keys, scratch) }
        }
    }

    pub(super) fn cut_step<const W: usize>(
        self,
        view: View<'_>,
        keys: &[[u32; W]],
        cuts: &List,
        smalls: &mut List,
        others: &mut List,
    ) {
        // SAFETY: `self` proves that the machine has BMI2.
        unsafe { cuts::cut_step(view, keys, cuts, smalls, others) }
    }
}

impl Avx2 {
    pub(super) fn new() -> Option<Self> {
        is_x86_feature_detected!("avx2").then(Bmi2::new).flatten().map(Self)
    }

    pub(super) fn bits(self) -> Bmi2 {
        self.0
    }

    pub(super) fn scan<const W: usize>(
        self,
        view: View<'_>,
        keys: &[[u32; W]],
        list: &List,
        answers: &mut Answers<'_>,
    ) {
        match masked(view) {
            // SAFETY: `self` proves that the machine has AVX2.
            None => unsafe { avx2::scan(view, Prefix, keys, list, answers) },
            // SAFETY: as above.
            Some(format) => unsafe { avx2::scan(view, format, keys, list, answers) },
        }
    }
}

impl Avx512 {
    pub(super) fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        has.then(Bmi2::new).flatten().map(Self)
    }

    pub(super) fn bits(self) -> Bmi2 {
        self.0
    }

    pub(super) fn columns(self, keys: &[u32], columns: &mut [Column; 16]) {
        // SAFETY: `self` proves that the machine has the features.
        unsafe { hash::columns(keys, columns) }
    }

    pub(super) fn hash_step(
        self,
        view: View<'_>,
        table: &HashTable,
        keys: usize,
        scratch: &mut Scratch,
    ) {
        // SAFETY: `self` proves that the machine has the features.
        unsafe { hash::hash_step(view, table, keys, scratch) }
    }

    /// Answers every key, given that all rules are below `reference`, in leaves of lanes.
    pub(super) fn walk_lanes(
        self,
        view: View<'_>,
        reference: u32,
        keys: &[[u32; 4]],
        scratch: &mut Scratch,
        out: &mut [RuleId],
    ) {
        // SAFETY: `self` proves that the machine has the features.
        unsafe { lanes::walk(view, reference, keys, scratch, out) }
    }

    /// Scans leaves, most of which have up to eight rules.
    pub(super) fn scan_small<const W: usize>(
        self,
        view: View<'_>,
        keys: &[[u32; W]],
        list: &List,
        answers: &mut Answers<'_>,
    ) {
        match masked(view) {
            // SAFETY: `self` proves that the machine has the features.
            None => unsafe { small::scan(view, Prefix, keys, list, answers) },
            // SAFETY: as above.
            Some(format) => unsafe { small::scan(view, format, keys, list, answers) },
        }
    }

    /// Scans leaves, most of which have more.
    pub(super) fn scan_large<const W: usize>(
        self,
        view: View<'_>,
        keys: &[[u32; W]],
        list: &List,
        answers: &mut Answers<'_>,
    ) {
        match masked(view) {
            // SAFETY: `self` proves that the machine has the features.
            None => unsafe { large::scan(view, Prefix, keys, list, answers) },
            // SAFETY: as above.
            Some(format) => unsafe { large::scan(view, format, keys, list, answers) },
        }
    }
}

/// What scans need of the masked format; `None` for the prefix format.
fn masked(view: View<'_>) -> Option<Masked<'_>> {
    let words = view.format.masked.as_deref()?;
    Some(Masked { words, ports_word: view.format.ports_word })
}
