//! Arguments, folders, variables and names of files that are not UTF-8, on their way to a task and back.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use crate::cli::plain::shell;
use crate::cli::sandbox::Sandbox;

const STRANGE: &[u8] = b"a\xff\xfe";

/// The bytes on stdout of a line for sh, in which `$x` is [`STRANGE`].
#[track_caller]
fn bytes(sandbox: &Sandbox, line: &str) -> Vec<u8> {
    let said = shell(sandbox, &format!("x=$(printf 'a\\377\\376'); {{ {line}\n}} > got"));
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{line}");
    fs::read(sandbox.path("got")).expect("written")
}

fn up() -> Sandbox {
    Sandbox::serving(1, &[("told", r#"printf '%s|' "$PARAM_x"; sed -n 's/^x=//p' ../task.info"#)])
}

#[test]
fn arguments_variables_and_folders_arrive_as_they_are() {
    let sandbox = up();
    for line in [
        r#"$LLTS run -- printf %s "$x""#,
        r#"$LLTS run --sh "printf %s '$x'""#,
        r#"$LLTS submit -- printf %s "$x" >id; $LLTS wait last >ended; $LLTS logs last"#,
        r#"A=$x; export A; $LLTS run --env A --sh 'printf %s "$A"'"#,
        r#"A=$x; export A; $LLTS run --env-all --sh 'printf %s "$A"'"#,
        r#"$LLTS run --env "A=$x" --sh 'printf %s "$A"'"#,
        r#"mkdir "$x"; $LLTS run --cwd "$x" --sh 'printf %s "${PWD##*/}"'"#,
        r#"home=$PWD; cd "$x"; $LLTS --home "$home" run --sh 'printf %s "${PWD##*/}"'"#,
    ] {
        assert_eq!(bytes(&sandbox, line), STRANGE, "{line}");
    }
    let told = bytes(&sandbox, r#"$LLTS run told "x=$x""#);
    assert_eq!(told, [STRANGE, b"|", STRANGE, b"\n"].concat());
    let listed = sandbox.ok("list all").out;
    assert!(listed.contains(r"printf %s a\xff\xfe"), "{listed}");
}

#[test]
fn lines_of_a_map_are_bytes() {
    let sandbox = up();
    for (line, expected) in [
        (
            r#"printf 'd/%s.y\n' "$x" | $LLTS map --tag -- printf '%s|%s' {.} {/}"#,
            &b"d/a\xff\xfe.y\td/a\xff\xfe|a\xff\xfe.y"[..],
        ),
        (r#"printf '%s\n' "$x" | $LLTS map --sh 'printf %s "{}"'"#, STRANGE),
        (r#"$LLTS map -- printf %s {1}{2} ::: "$x" ::: "$x""#, b"a\xff\xfea\xff\xfe"),
        (r#"printf '1f%s\n' "$x" | $LLTS map -C f -- printf %s {2}"#, STRANGE),
        (r#"printf '%s\n' "$x" | $LLTS map --dry-run -- wc"#, b"wc 'a\xff\xfe'\n"),
        (r#"$LLTS map --results r -- printf %s ::: "$x" >out; cat r/1/command"#, b"printf %s 'a\xff\xfe'\n"),
    ] {
        assert_eq!(bytes(&sandbox, line), expected, "{line}");
    }
}

#[test]
fn files_travel_under_their_names() {
    let sandbox = up();
    fs::write(sandbox.path("x").with_file_name(OsStr::from_bytes(STRANGE)), "content").expect("written");
    let got = bytes(
        &sandbox,
        r#"$LLTS submit --in "$x" --out "o$x" --sh 'cat * >"o$(ls)"' >id
        $LLTS wait last >ended; $LLTS get last -o back; $LLTS get last -o back --output wire; ls back; cat "back/o$x""#,
    );
    let text = got.escape_ascii().to_string();
    for part in [
        r"back/oa\\xff\\xfe 7 bytes\n",
        r#"\"name\":\"oa\\u0000ff\\u0000fe\""#,
        r#"\"path\":\"back/oa\\u0000ff\\u0000fe\""#,
        r"\noa\xff\xfe\ncontent",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let run = bytes(&sandbox, r#"$LLTS run --in "y$x=$x" --out '*' --sh 'cp y* z"$(ls)"' >out; cat "zy$x""#);
    assert_eq!(run, b"content");
}
