use super::*;

/// A row as programs before machines were in the history have written it, twice.
#[test]
fn a_block_of_format_1_is_read() {
    let id = TaskId::new(Wall::from_micros(0), [1; 5]);
    let texts = [2, 1, b't', 3, b'a', b'-', b'1'];
    let row = [&[IS_LAST, 0][..], &id.letters(), &[0, 0, 1, 0, 0, 0, 2, 0, 0, 0]].concat();
    let bytes = [&texts[..], &row, &row].concat();
    let found = rounds(&bytes, 1).unwrap();
    assert_eq!(found.len(), 2);
    for row in found {
        assert_eq!((row.task, &*row.tool, &*row.agent, &*row.host), (id, "t", "a-1", ""));
    }
    assert!(rounds(&bytes, 2).is_none(), "a row of format 2 has a text more");
}

/// The checksums exclude such bytes, unless they were made by hand.
#[test]
fn bytes_that_are_no_rows_end_with_none() {
    for len in 0..40 {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let _ = rounds(&vec![byte; len], 2);
            let _ = incidents(&vec![byte; len]);
            assert!(decompressed(&vec![byte; len], 100).is_none());
        }
    }
    assert!(
        rounds(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], 2).is_none(),
        "as many texts as numbers"
    );
}
