use super::*;

/// The places of the values in a line, written as `@`.
fn places(line: &str) -> Result<Vec<Place>, Misplaced> {
    let mut parts = Vec::new();
    for (index, text) in line.split('@').enumerate() {
        if index > 0 {
            parts.push(LinePart::Value);
        }
        parts.push(LinePart::Text(text));
    }
    Place::all(parts).map_err(|(_, why)| why)
}

#[test]
fn a_value_has_the_place_that_the_text_around_it_makes() {
    use Place::{Apart, Arithmetic, Bare, Double, Single};
    for (line, expected) in [
        ("@", vec![Apart]),
        ("wc @ \t@\n@", vec![Apart; 3]),
        ("wc x@ @x @@ @>f <@ $x@ ~@ a=@ (@) {@;}", vec![Bare; 11]),
        ("wc '@' \"@\" 'a\"@' \"a'@\" \"\\\"@\" 'a\\'@", vec![Single, Double, Single, Double, Double, Bare]),
        ("a \"$(b @ \"@\" '@')\" $(c \"@\")@", vec![Apart, Double, Single, Double, Bare]),
        ("echo $((@ + 1)) $[@] \"$((@))\"; ((x = @)); a[@]=@", [vec![Arithmetic; 5], vec![Bare]].concat()),
        ("[[ @ -eq 1 && $x -gt \"@\" ]] && [[ @ == x ]]", vec![Arithmetic, Arithmetic, Apart]),
        ("echo a # b\nwc @", vec![Apart]),
        ("echo a#@ $#@ ${#x}@ $$@ \\#@", vec![Bare; 5]),
        ("cat <<A <<-'B'; wc x@\n'\nA\n`\n\tB\nwc @", vec![Bare, Apart]),
        ("cat <<<@ <<<\"@\"", vec![Bare, Double]),
        ("echo \"$@\" `date \\`x\\`` $'a\\n' ${x:-'}'} \"${x%.*}\" @", vec![Double, Apart]),
        ("eval @; eval \"@\"; sh -c @; bash -ec '@' x \"y\"; su -c @", vec![Bare, Double, Bare, Single, Apart]),
        ("sh -c 'echo $1' _ @; sh x.sh \"a @\"; echo eval; wc '@x'", vec![Bare, Double, Single]),
        ("a \\\n @ b\\\n@", vec![Apart, Bare]),
    ] {
        assert_eq!(places(line), Ok(expected), "{line}");
    }
}

#[test]
fn a_value_without_a_safe_place_is_refused_with_the_reason() {
    for (line, expected) in [
        ("wc `ls @`", "in backticks"),
        ("wc \"`ls '@'`\"", "in backticks"),
        ("echo $'a@'", "in $'…'"),
        ("echo ${x:-@}", "in ${…}"),
        ("echo \"${x:-$(wc @)}\"", "in ${…}"),
        ("echo # @", "in a comment"),
        ("(#@\n)", "in a comment"),
        ("cat <<E\n@\nE", "in a here-document"),
        ("cat <<'E'\n@\nE", "in a here-document"),
        ("cat <<@\n", "in a here-document"),
        ("echo \\@", "after a backslash"),
        ("echo \"\\@\"", "after a backslash"),
        ("echo $@", "after a $"),
        ("echo $\\\n@", "after a $"),
        ("sh -c \"echo @\"", "that sh reads as a script"),
        ("timeout 5 /bin/bash -o pipefail -c 'echo @'", "that /bin/bash reads as a script"),
        ("bash >f -c \"echo @\"", "that bash reads as a script"),
        ("$SHELL -c \"echo @\"", "that $SHELL reads as a script"),
        ("s=sh; $s -c 'echo @'", "that $s reads as a script"),
        ("su root -c 'echo @'", "that su reads as a script"),
        ("su - --command='echo @' root", "that su reads as a script"),
        ("flock file -c 'echo @'", "that flock reads as a script"),
        ("script -qc 'echo @' /dev/null", "that script reads as a script"),
        ("env -i -S 'sh -c \"echo @\"'", "a script for env"),
        ("if eval echo @; then", "that eval reads as a script"),
        ("trap 'rm @' EXIT", "that trap reads as a script"),
        ("let x=@", "that let reads as a script"),
        ("fish -c \"echo @\"", "a script for fish"),
        ("x=\"$(case $y in a) echo @;; esac)\"", "after `case`"),
        ("echo $'\\'' @", "after \\' in $'…'"),
        ("$((echo a); (echo b)) @", "after two subshells"),
        ("x=$(cat <<E\na\nE\n) @", "after a here-document in $(…)"),
        ("$\\\n(x) @", "after a continued line"),
    ] {
        let refused = places(line).expect_err(line).sentence("{}");
        assert!(refused.contains(expected), "{line}: {refused}");
    }
}

#[test]
fn a_deep_line_is_refused_without_harm() {
    for open in ["$(", "\"$(", "( ", "${x:-\"", "$((", "${x:-${"] {
        let line = format!("{}@", open.repeat(100_000));
        assert!(places(&line).is_err(), "{open}");
    }
}

#[test]
fn values_are_put_as_their_place_asks() {
    let put = |place: Place, values: &[&str]| {
        let mut line = String::new();
        place.put(values.iter().copied(), &mut line).map(|()| line)
    };
    assert_eq!(put(Place::Apart, &["a.b", "if", "a=b", "", "it's"]).unwrap(), r"a.b 'if' 'a=b' '' 'it'\''s'");
    assert_eq!(put(Place::Bare, &["2", "x"]).unwrap(), "'2' 'x'");
    assert_eq!(put(Place::Single, &["a'b", "c"]).unwrap(), r"a'\''b c");
    assert_eq!(put(Place::Double, &["a'b", "$c"]).unwrap(), r#""'a'\''b $c'""#);
    assert_eq!(put(Place::Arithmetic, &["-5"]).unwrap(), " -5");
    assert_eq!(put(Place::Raw, &["$(a)", "b"]).unwrap(), "$(a) b");
    for value in ["", "a", "1 2", "a[$(id)]", "0x1", "1234567890123456789", "-", "--1", "٣"] {
        let refused = put(Place::Arithmetic, &[value]).unwrap_err().to_string();
        assert!(refused.contains("is not a whole number"), "{refused}");
    }
}
