//! Runs the check `tunnel` on what libFuzzer makes up.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| warpswitch_fuzz_checks::check("tunnel", data));
