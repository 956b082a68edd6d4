//! A task that prints more than is kept: its disk stays bounded while it runs, and nothing that was dropped passes for output.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;

use crate::outputs::sandbox::eventually;
use crate::outputs::{configured, errors, output};

/// Bytes that are kept of each output.
const KEPT: usize = 1_000_000;
/// Bytes that the task prints: more than what is kept and what a reader may be behind.
const PRINTED: usize = 170_000_000;
/// The task prints it again and again, so each byte shows its place.
const LINE: &[u8] = b"0123456789abcdef\n";

/// Whether these are the bytes that the task has printed from the offset on.
fn are_printed(bytes: &[u8], offset: usize) -> bool {
    bytes.iter().enumerate().all(|(at, byte)| *byte == LINE[(offset + at) % LINE.len()])
}

#[test]
fn the_disk_holds_the_beginning_and_the_end_of_an_endless_output() {
    let sandbox = configured(&format!("OUTPUT_KEEP_BYTES = {KEPT}"));
    sandbox.tool(
        "endless",
        &format!(
            "yes 0123456789abcdef | head -c {PRINTED}; touch $PLACE/printed
while [ ! -e $PLACE/end ]; do sleep 0.05; done; echo end"
        ),
    );
    sandbox.ok("up 1");
    let id = sandbox.ok("submit endless").line().to_owned();
    let file = sandbox.path("work").join(&id).join("stdout");
    eventually("it has printed all", || sandbox.path("printed").exists());
    let on_disk = || fs::metadata(&file).expect("it is there").blocks() * 512;
    eventually("its middle is gone", || on_disk() < (PRINTED / 2) as u64);
    assert_eq!(fs::metadata(&file).expect("it is there").len(), PRINTED as u64, "the task sees the whole");

    // A reader that comes late gets the beginning, a note, and then the bytes that are still there.
    let mut reader = sandbox.start(&format!("logs {id} -f --stdout"));
    let mut head = vec![0; 3 * KEPT];
    reader.stdout.as_mut().expect("a pipe").read_exact(&mut head).expect("bytes");
    let (kept, followed) = head.split_at(KEPT);
    assert!(are_printed(kept, 0), "the beginning");
    let from =
        (0..LINE.len()).find(|offset| are_printed(followed, *offset)).expect("bytes of the task, not of the hole");
    drop(reader.stdout.take());
    let said = reader.said();
    let missing = said.err.split(' ').find_map(|word| word.parse::<usize>().ok()).expect("how many are missing");
    assert!(said.err.contains(&format!("from byte {KEPT} on are missing")), "{said:?}");
    assert!(said.err.contains("OUTPUT_KEEP_BYTES") && (KEPT + missing) % LINE.len() == from, "{said:?}");

    fs::write(sandbox.path("end"), "").expect("written");
    let end = sandbox.ok(&format!("wait {id} --output wire")).json();
    assert!(end.to_string().contains(&format!("\"__STDOUT_BYTES__\":{}", PRINTED + 4)), "{end}");
    let logs = output(&sandbox, &format!("logs {id} --stdout"));
    assert!(logs.status.code() == Some(1) && errors(&logs).contains("keeps only the first 1000000 bytes"), "{logs:?}");
    assert!(are_printed(&logs.stdout[..KEPT], 0) && logs.stdout.ends_with(b"abcdef\nend\n"), "{}", logs.stdout.len());
    assert!(logs.stdout.len() < 2 * KEPT, "{}", logs.stdout.len());
}
