//! Feeds `bodies::quantities` with what libFuzzer finds interesting.
#![no_main]

#[path = "../bodies.rs"]
#[allow(dead_code, reason = "each target runs one of the bodies")]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::quantities(data));
