//! Runs the check `flow_text` on what libFuzzer makes up.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| warpswitch_fuzz_checks::check("flow_text", data));
