//! Originals and ours in one namespace.

use super::Place;
use super::original::Order;

#[test]
fn each_side_goes_on_with_what_the_other_has_begun() {
    let mut place = Place::new();
    // Theirs opens, ours claims, theirs judges.
    let first = place.original.open(&Order::default());
    let fence = place.claim_one("ours");
    place.execute(&fence, "out", "");
    place.original.assert_readable(first);
    assert!(place.original.r#move(first, "executed", "succeeded", 0, &[]));
    assert!(place.original.r#move(first, "succeeded", "archived", 0, &[]));
    // Theirs claims, ours judges.
    let second = place.original.open(&Order { max_fails: "1", ..Order::default() });
    assert_eq!(place.original.claim("theirs"), Some((second, 0)));
    assert!(place.original.report(second, 0, "", "bad"));
    place.rounds(1);
    assert_eq!((place.sets(first), place.sets(second)), (vec!["archived"], vec!["open"]));
    // And theirs takes the next round.
    assert_eq!(place.original.claim("theirs"), Some((second, 1)));
    assert!(place.original.report(second, 1, "good", ""));
    place.rounds(1);
    assert_eq!((place.sets(second), place.get(second, "state").unwrap()), (vec!["succeeded"], "succeeded".to_owned()));
}
