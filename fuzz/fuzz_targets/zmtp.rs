//! Any bytes against the engine of ZMTP, guided by coverage; the checks are those of `tests/it/zmtp_fuzz`.
#![no_main]

#[path = "../../tests/it/zmtp_fuzz/drive.rs"]
#[allow(dead_code, reason = "the recorded conversations of the test use more of it")]
mod drive;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    drive::drive(input);
});
