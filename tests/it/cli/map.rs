//! `llts map` as its users see it: outputs, exit codes, interruptions, and the same job again.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::process::Stdio;

use rustix::process::Signal;

use crate::cli::sandbox::{Program, Said, Sandbox, Start as _, eventually, names, signal};

/// Starts `llts map` with these words; its input is still open.
fn start(sandbox: &Sandbox, words: &[&str]) -> Program {
    sandbox.command("map").args(words).stdin(Stdio::piped()).start()
}

/// Runs `llts map` with these words and this input.
fn map(sandbox: &Sandbox, words: &[&str], input: impl AsRef<[u8]>) -> Said {
    let mut child = start(sandbox, words);
    let mut stdin = child.stdin.take().expect("a pipe");
    // A map that refuses its arguments reads nothing.
    let _ = stdin.write_all(input.as_ref());
    drop(stdin);
    child.said()
}

fn lines(numbers: std::ops::RangeInclusive<u32>) -> String {
    numbers.map(|number| format!("{number}\n")).collect()
}

/// The lines of a file that tasks append to.
fn noted(sandbox: &Sandbox) -> Vec<String> {
    let text = fs::read_to_string(sandbox.path("noted")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// What users of GNU parallel and xargs write.
#[test]
fn what_others_write_is_done_or_refused() {
    let sandbox = Sandbox::up(1);
    map(&sandbox, &["-a", ".", "--", "echo"], "").failed(255, "cannot read the input: Is a directory");
    map(&sandbox, &["-C", ",", "--", "sh", "-c", "echo $# \"$1|$2|$3\"", "_", "{1}", "{2}", "end"], "a\n")
        .prints("3 a||end\n");
    for words in [&["--", "echo", ":::", "a", ":::+", "1"][..], &["--", "echo", "::::", "f"], &["--sh", "echo {-1}"]] {
        let said = map(&sandbox, words, "a\n");
        assert!(said.code == Some(255) && said.out.is_empty() && said.err.contains("GNU parallel"), "{said:?}");
    }
}

#[test]
fn each_line_is_a_task_whose_output_is_whole_and_in_order_on_request() {
    let sandbox = Sandbox::up(3);
    // The first ends last, and every output is longer than what a result contains.
    let script = "[ $1 != 1 ] || until [ -e go ]; do sleep 0.01; done; seq -f \"$1 %.0f\" 3000; echo \"bad $1\" >&2";
    let mut child = start(&sandbox, &["-k", "--job", "k", "--", "sh", "-c", script, "_", "{}"]);
    child.stdin.take().unwrap().write_all(b"1\n2\n3").unwrap();
    let finished = || sandbox.llts("list --job k --status FINISHED --output wire").json()["total"] == 2;
    eventually("the others have finished", finished);
    fs::write(sandbox.path("go"), "").unwrap();
    let said = child.said();
    let wanted: String = (1..=3).flat_map(|task| (1..=3000).map(move |n| format!("{task} {n}\n"))).collect();
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out == wanted && said.err == "bad 1\nbad 2\nbad 3\n", "{} {:?}", said.out.len(), said.err);

    fs::remove_file(sandbox.path("go")).unwrap();
    let mut child = start(&sandbox, &["--", "sh", "-c", script, "_"]);
    child.stdin.take().unwrap().write_all(b"1\n2\n3").unwrap();
    let (mut stdout, mut out) = (BufReader::new(child.stdout.take().unwrap()), String::new());
    // Those of the others do not wait for it.
    for _ in 0..6000 {
        assert!(stdout.read_line(&mut out).unwrap() > 0, "{out}");
    }
    fs::write(sandbox.path("go"), "").unwrap();
    stdout.read_to_string(&mut out).unwrap();
    child.said().ok();
    let mut blocks: Vec<_> = out.lines().map(|line| line.split(' ').next().unwrap()).collect();
    blocks.dedup();
    assert_eq!(blocks.len(), 3, "no output is mixed with another: {blocks:?}");
    assert_eq!((blocks.last(), out.len()), (Some(&"1"), wanted.len()));
}

#[test]
fn a_thousand_tasks_come_back_each_once() {
    let sandbox = Sandbox::up(2);
    let said = map(&sandbox, &["-k", "--", "sh", "-c", "echo $(( $1 * 2 ))", "_"], lines(1..=1000));
    let wanted: String = (1..=1000).map(|number| format!("{}\n", number * 2)).collect();
    assert_eq!((said.code, said.out, said.err.as_str()), (Some(0), wanted, ""));
}

#[test]
fn values_come_from_the_command_line_a_file_or_columns() {
    let sandbox = Sandbox::up(1);
    let out = |words: &[&str], input: &str| {
        let said = map(&sandbox, words, input);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{words:?}: {said:?}");
        said.out
    };
    assert_eq!(out(&["-k", "--", "echo", "{2}{1}", ":::", "a", "b", ":::", "1", "2"], "x"), "1a\n2a\n1b\n2b\n");
    assert_eq!(out(&["-k", "--sh", "echo {.}{#}; true", ":::", "a;.x", "b.y"], ""), "a;1\nb2\n");
    assert_eq!(out(&["-k", "-0", "--", "echo", "-n", "<{}>"], "a\nb\0c\0"), "<a\nb><c>");
    assert_eq!(out(&["-C", "\\t", "--", "echo", "{2}", "{1}"], "a b\tc\n"), "c a b\n");
    assert_eq!(out(&["-I", "%", "--", "echo", "{}", "%"], "x\n"), "{} x\n");
    assert_eq!(out(&["--", "echo", "-", "{}", "-"], "\n"), "-  -\n", "an empty line is an empty argument");
    assert_eq!(out(&["--", "echo"], ""), "");
    fs::write(sandbox.path("names"), "a/b.c\n").unwrap();
    assert_eq!(out(&["-a", "names", "--", "echo", "{//} {/} {/.}"], "x"), "a b.c b\n");
    let tagged =
        out(&["-k", "--tag", "--", "sh", "-c", "echo 1; printf 2", "_", "{1}", "{2}", ":::", "a", "b", ":::", "c"], "");
    assert_eq!(tagged, "a c\t1\na c\t2b c\t1\nb c\t2");
}

#[test]
fn a_dry_run_prints_commands_and_needs_no_service() {
    let sandbox = Sandbox::new();
    map(&sandbox, &["--dry-run", "--", "cp", "{}", "to/{/}"], "a b/c's\nx\n")
        .prints("cp 'a b/c'\\''s' 'to/c'\\''s'\ncp x to/x\n");
    let said = map(&sandbox, &["--dry-run", "--tool", "convert", "in={}", "out={.}.mp4"], "a.mov\n");
    assert_eq!(said.out, "llts submit convert in=a.mov out=a.mp4\n");
    assert_eq!(sandbox.processes(), []);
}

#[test]
fn a_map_hosts_a_service_and_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    let said = map(&sandbox, &["--no-service", "-k", "-j2", "--", "echo"], "a\nb\n");
    assert_eq!((said.code, said.out.as_str()), (Some(0), "a\nb\n"), "{said:?}");
    assert!(said.err.contains("no service runs here: 2 agents start for this command"), "{said:?}");
    // It promises nothing that is gone with it.
    let failed = map(&sandbox, &["--no-service", "--job", "j", "--", "false"], "a\n");
    failed.failed(1, "1 of 1 failed (exit 1: 1).");
    assert!(!failed.err.contains("Look:") && !failed.err.contains("Resume:"), "{failed:?}");
    sandbox.is_clean();
}

#[test]
fn the_parameters_of_a_tool_take_the_line() {
    let sandbox = Sandbox::serving(1, &[("convert", "echo \"$PARAM_in to $PARAM_out\" >> report.log")]);
    map(&sandbox, &["--tool", "convert", "in={}", "out={.}.mp4"], "a b.mov\n").prints("a b.mov to a b.mp4\n");
}

#[test]
fn a_map_exits_with_the_number_of_failed_tasks_and_says_how_to_go_on() {
    let sandbox = Sandbox::up(2);
    let script = "[ $1 = 3 ] && echo three is wrong >&2; exit $1";
    let said = map(&sandbox, &["--job", "j", "--", "sh", "-c", script, "_"], "0\n1\n3\n1\n0\n").ended(3);
    for part in [
        "llts: line 3  exit 3  3  three is wrong\n",
        "llts: 3 of 5 failed (exit 1: 2, exit 3: 1).\nllts: Look: llts logs --job j --failed   Again: llts retry --job j --failed\n",
    ] {
        assert!(said.err.contains(part), "{part}: {said:?}");
    }
    assert_eq!(map(&sandbox, &["--", "false"], lines(1..=150)).code, Some(101));
    let said = map(&sandbox, &["--", "no-such-program"], "1\n");
    assert!(said.code == Some(1) && said.err.contains("exit 127") && said.err.contains("no-such-program"), "{said:?}");
}

#[test]
fn what_is_not_understood_is_refused_with_255() {
    let sandbox = Sandbox::new();
    for (words, sentence) in [
        (&[][..], "there is no command; write llts map -- COMMAND"),
        (&["echo"], "is not behind `--`"),
        (&["--", ""], "the command is empty"),
        (&["--sh", " "], "the line for sh is empty"),
        (&["--no-such-option", "--", "true"], "--no-such-option"),
        (&["-j0", "--", "true"], "0 is not in"),
        (&["--job", "a/b", "--", "true"], "\"a/b\" is not the name of a job"),
        (&["--tool", "t", "a=b"], "every task would be the same"),
        (&["--tool", "t", "a={}", "--", "true"], "exclude one another"),
        (&["--tool", "t", "{}"], "has no '='"),
        (&["-0", "--", "true", ":::", "a"], "omit --arg-file"),
        (&["-a", "no-such-file", "--", "true"], "cannot read no-such-file"),
        (&["-I", "", "--", "true"], "stands for no text"),
        (&["-C", "", "--", "true"], "separates no columns"),
        // An empty text in that place could name another file.
        (&["--", "cp", "{1}", "{2}"], "{2} is the place of value 2, and a task has 1 here: -C"),
        (&["--sh", "echo x{3}", ":::", "a", ":::", "b"], "{3} is the place of value 3, and a task has 2 here: add one"),
    ] {
        let said = map(&sandbox, words, "a\n");
        assert!(said.code == Some(255) && said.err.contains(sentence), "{words:?}: {said:?}");
    }
    assert_eq!(sandbox.llts("map --help").code, Some(0));
    // A service that is started anew may be back within this time.
    let mut away = sandbox.command("map --controller tcp://127.0.0.1:1 -- true");
    away.env("LLTS_ZMQ_RECV_TIMEOUT", "300").said().ended(255);
}

#[test]
fn a_line_that_is_no_argument_fails_alone() {
    let sandbox = Sandbox::up(1);
    let mut input = b"a\nb\0c\ny\n".to_vec();
    input.extend(vec![b'x'; 2_000_000]);
    input.extend(b"\nz\n");
    let said = map(&sandbox, &["-k", "--", "echo"], input);
    assert_eq!((said.code, said.out.as_str()), (Some(2), "a\ny\nz\n"), "{said:?}");
    for part in [
        "line 2: it has a NUL byte at byte 1",
        "line 4: it has 2000000 bytes; an argument has at most 131071",
        "2 of 5 failed (no task: 2).",
    ] {
        assert!(said.err.contains(part), "{part}: {said:?}");
    }
    // A long line that is an argument is one, and a short one with an empty program is none.
    let long = "y".repeat(131_071);
    let said = map(&sandbox, &["-k", "--", "echo"], &long);
    assert!(said.code == Some(0) && said.out.len() == 131_072, "{:?} {}", said.code, said.out.len());
    assert_eq!(map(&sandbox, &["--", "{}"], "\ntrue\n").code, Some(1));
}

#[test]
fn the_same_job_again_runs_only_what_has_not_succeeded() {
    let sandbox = Sandbox::up(2);
    let script = "echo $1 >> noted; echo out $1; [ $1 = 2 ] && [ ! -e mended ] && exit 1; exit 0";
    let words = ["-k", "--job", "j", "--", "sh", "-c", script, "_", "{}"];
    // Equal lines are different tasks.
    let said = map(&sandbox, &words, "1\n2\n3\n3\n");
    assert_eq!((said.code, said.out.as_str()), (Some(1), "out 1\nout 2\nout 3\nout 3\n"), "{said:?}");
    assert_eq!(noted(&sandbox).len(), 4);
    fs::write(sandbox.path("mended"), "").unwrap();
    let said = map(&sandbox, &words, "1\n2\n3\n3\n4\n");
    assert_eq!((said.code, said.out.as_str()), (Some(0), "out 2\nout 4\n"), "{said:?}");
    assert_eq!(said.err, "llts: 3 tasks had succeeded before and were not run again\n");
    assert_eq!(noted(&sandbox).len(), 6);
    let said = map(&sandbox, &words, "1\n2\n3\n3\n4\n");
    assert_eq!((said.code, said.out.as_str(), noted(&sandbox).len()), (Some(0), "", 6), "{said:?}");
    // Another template is other work; other options of the same work are not.
    assert_eq!(map(&sandbox, &["--job", "j", "--", "echo"], "1\n").out, "1\n");
    map(&sandbox, &["--job", "j", "--timeout", "9", "--", "sh", "-c", script, "_", "{}"], "1\n")
        .failed(255, "was mapped with other options");
}

#[test]
fn a_trickling_input_is_run_as_it_comes() {
    let sandbox = Sandbox::up(1);
    let mut child = start(&sandbox, &["--", "echo"]);
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for text in ["a\n", "b\n"] {
        stdin.write_all(text.as_bytes()).unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, text, "printed while the input is open");
    }
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn no_more_tasks_run_at_once_than_wanted() {
    let sandbox = Sandbox::up(3);
    let script = "mkdir lock || { echo two; exit 1; }; sleep 0.02; rmdir lock";
    map(&sandbox, &["-j1", "--job", "j", "--", "sh", "-c", script], lines(1..=20)).prints("");
    assert!(!sandbox.ok("gate list").out.contains("max running"), "the limit ends with the map");
}

#[test]
fn failures_are_run_again_timed_out_and_stop_the_job_as_wanted() {
    let sandbox = Sandbox::up(1);
    let script = "echo $1 >> noted; [ $(wc -l < noted) -ge 3 ]";
    assert_eq!(map(&sandbox, &["--retries", "2", "--", "sh", "-c", script, "_"], "1\n").code, Some(0));
    assert_eq!(noted(&sandbox).len(), 3, "the first run and two more");
    map(&sandbox, &["--timeout", "0.1", "--", "sleep"], "1000\n").failed(1, "TIMED_OUT: 1");
    map(&sandbox, &["--max-fails", "2", "--job", "j", "--", "false"], lines(1..=50))
        .failed(2, "The job was stopped, 48 tasks not run");
    // Given again, the job goes on, and its failures count anew.
    map(&sandbox, &["--max-fails", "2", "--job", "j", "--", "false"], lines(1..=50)).ended(2);
}

#[test]
fn results_are_files_and_a_full_disk_costs_no_output() {
    let sandbox = Sandbox::up(1);
    fs::create_dir_all(sandbox.path("res/2")).unwrap();
    symlink("/dev/full", sandbox.path("res/2/stdout")).unwrap();
    let script = "seq $1; echo bad >&2; exit $2";
    let words = ["-k", "--results", "res", "-C", " ", "--", "sh", "-c", script, "_"];
    let said = map(&sandbox, &words, "3000 0\n2 0\n1 4\n").ended(1);
    let file = |name: &str| fs::read_to_string(sandbox.path("res").join(name)).unwrap_or_default();
    let all: String = (1..=3000).map(|number| format!("{number}\n")).collect();
    assert!(file("1/stdout") == all && said.out == all + "1\n2\n1\n", "{said:?}");
    assert_eq!([file("1/exit_code"), file("3/exit_code"), file("3/stderr")], ["0\n", "4\n", "bad\n"]);
    assert_eq!(file("3/command"), "sh -c 'seq $1; echo bad >&2; exit $2' _ 1 4\n");
    assert_eq!(names(&sandbox.path("res/2")), ["command", "stderr"], "nothing looks complete that is not");
    for part in
        ["cannot write res/2/stdout: No space left", "llts logs TASK_", "the results of 1 tasks are not complete"]
    {
        assert!(said.err.contains(part), "{part}: {said:?}");
    }
    // The only trouble is that of the files.
    symlink("/dev/full", sandbox.path("res/2/stdout")).unwrap();
    assert_eq!(map(&sandbox, &["--results", "res", "--", "echo"], "a\nb\n").code, Some(1));
}

/// One task runs, and the others wait behind it.
fn interrupted(sandbox: &Sandbox) -> Program {
    let script = "echo $1 >> noted; while [ ! -e go ]; do sleep 0.01; done; echo done $1";
    let mut child = start(sandbox, &["--job", "j", "--", "sh", "-c", script, "_"]);
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(lines(1..=20).as_bytes()));
    assert!(matches!(written, Some(Ok(()))), "{written:?}");
    eventually("the first task runs", || !noted(sandbox).is_empty());
    eventually("all are submitted", || sandbox.llts("job j").out.contains("of 20 tasks"));
    child
}

#[test]
fn ctrl_c_starts_nothing_more_and_waits() {
    let sandbox = Sandbox::up(1);
    let child = interrupted(&sandbox);
    child.signal(Signal::INT);
    eventually("the others are held", || sandbox.ok("list --job j").out.contains("held"));
    fs::write(sandbox.path("go"), "").unwrap();
    let said = child.said();
    assert_eq!((said.code, said.out.as_str(), noted(&sandbox).len()), (Some(130), "done 1\n", 1), "{said:?}");
    assert!(said.err.contains("Stopped, 19 tasks not finished. Run the same command again to continue."), "{said:?}");
    assert_eq!(sandbox.ok("list --job j --output wire").json()["total"], 20);
    assert!(sandbox.ok("explain last").out.contains("map was interrupted"));
    // The same command goes on.
    let mut again = interrupted(&sandbox);
    again.stdin.take();
    let said = again.said();
    assert_eq!((said.code, said.out.lines().count(), noted(&sandbox).len()), (Some(0), 19, 20), "{said:?}");
}

#[test]
fn a_second_ctrl_c_ends_the_running_tasks() {
    let sandbox = Sandbox::up(1);
    let child = interrupted(&sandbox);
    child.signal(Signal::INT);
    eventually("the others are held", || sandbox.ok("list --job j").out.contains("held"));
    child.signal(Signal::INT);
    let said = child.said();
    assert_eq!((said.code, said.out.as_str()), (Some(130), ""), "{said:?}");
    assert!(said.err.contains("Stopped, 20 tasks not finished"), "{said:?}");
    assert_eq!(sandbox.llts("wait --job j --timeout 60").code, Some(143), "nothing of it runs");
}

#[test]
fn a_closed_terminal_leaves_the_service_to_go_on() {
    let sandbox = Sandbox::up(1);
    let script = "while [ ! -e go ]; do sleep 0.01; done; echo $1 >> noted";
    let mut child = start(&sandbox, &["--job", "j", "--", "sh", "-c", script, "_"]);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"1\n2\n").unwrap();
    eventually("the tasks are there", || sandbox.llts("job j").out.contains("of 2 tasks"));
    child.signal(Signal::HUP);
    // What is still in the pipe is submitted as well.
    stdin.write_all(b"3\n").unwrap();
    drop(stdin);
    let said = child.said();
    assert_eq!((said.code, said.out.as_str()), (Some(129), ""), "{said:?}");
    fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(sandbox.llts("wait --job j --timeout 60").code, Some(0));
    assert_eq!(noted(&sandbox), ["1", "2", "3"]);
}

/// Neither an output nor a task.
#[test]
fn a_killed_controller_loses_and_doubles_nothing() {
    let sandbox = Sandbox::up(2);
    let mut child = start(&sandbox, &["-k", "--job", "j", "--", "sh", "-c", "echo $1 >> noted; echo $1", "_"]);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(lines(1..=300).as_bytes()).unwrap();
    eventually("some have run", || noted(&sandbox).len() > 50);
    signal(sandbox.process(" controller"), Signal::KILL);
    stdin.write_all(lines(301..=600).as_bytes()).unwrap();
    eventually("others have run", || noted(&sandbox).len() > 350);
    signal(sandbox.process(" controller"), Signal::KILL);
    drop(stdin);
    let said = child.said();
    assert_eq!((said.code, said.out, said.err.as_str()), (Some(0), lines(1..=600), ""));
    // A run whose end was not stored may be repeated, but no line has become two tasks.
    assert_eq!(sandbox.ok("list --job j --limit 1 --output wire").json()["total"], 600);
}

#[test]
fn a_closed_reader_ends_the_map() {
    let sandbox = Sandbox::up(1);
    let script = "case $1 in 1) ;; 2) while [ ! -e go ]; do sleep 0.01; done ;; *) exec sleep 1000 ;; esac; echo $1";
    let mut child = start(&sandbox, &["--job", "j", "--", "sh", "-c", script, "_"]);
    child.stdin.take().unwrap().write_all(b"1\n2\n3\n").unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 2]).unwrap();
    drop(stdout);
    fs::write(sandbox.path("go"), "").unwrap();
    let said = child.said();
    assert_eq!((said.code, said.err.as_str()), (Some(141), ""), "{said:?}");
    assert_eq!(sandbox.llts("wait --job j --timeout 60").code, Some(143), "the third does not run on");
}

#[test]
fn the_progress_is_shown_where_it_is_wanted() {
    let sandbox = Sandbox::up(1);
    let said = map(&sandbox, &["--", "sleep"], "1.5\n");
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let waits = "until [ -e go ]; do sleep 0.01; done";
    let mut child = start(&sandbox, &["--progress", "--", "sh", "-c", waits, "_"]);
    child.stdin.take().unwrap().write_all(b"1\n").unwrap();
    let (mut stderr, mut told) = (BufReader::new(child.stderr.take().unwrap()), String::new());
    while !told.contains("[----------]  0/1  running 1\n") {
        assert!(stderr.read_line(&mut told).unwrap() > 0, "{told:?}");
    }
    fs::write(sandbox.path("go"), "").unwrap();
    stderr.read_to_string(&mut told).unwrap();
    assert!(!told.contains('\r'), "{told:?}");
    child.said().ok();
}

#[test]
fn values_may_begin_with_a_dash() {
    let sandbox = Sandbox::up(1);
    for words in [
        &["-k", "--sh", "echo _{}", ":::", "a", "-n", "--job"][..],
        &["-k", "--", "echo", "_{}", ":::", "a", "-n", "--job"],
    ] {
        map(&sandbox, words, "").prints("_a\n_-n\n_--job\n");
    }
}

#[test]
fn tasks_that_an_earlier_map_has_left_unfinished_are_printed() {
    let sandbox = Sandbox::up(1);
    let script = "while [ $1 != 1 ] && [ ! -e go ]; do sleep 0.01; done; echo out $1";
    let words = ["-k", "--job", "j", "--", "sh", "-c", script, "_"];
    let mut child = start(&sandbox, &words);
    child.stdin.take().unwrap().write_all(b"1\n2\n3\n").unwrap();
    eventually("one has finished", || {
        sandbox.llts("job j").out.contains("of 3 tasks")
            && sandbox.llts("list --outcome SUCCEEDED").out.contains("SUCCEEDED")
    });
    child.signal(Signal::KILL);
    child.wait().unwrap();
    let mut child = start(&sandbox, &words);
    child.stdin.take().unwrap().write_all(b"1\n2\n3\n4\n").unwrap();
    eventually("the second map has submitted", || sandbox.llts("job j").out.contains("of 4 tasks"));
    fs::write(sandbox.path("go"), "").unwrap();
    let said = child.said();
    assert_eq!((said.code, said.out.as_str()), (Some(0), "out 2\nout 3\nout 4\n"), "{said:?}");
    assert_eq!(said.err, "llts: 1 task had succeeded before and were not run again\n");
}

/// A value in a line for sh means itself, also in quotes; where no quoting helps, nothing runs.
#[test]
fn a_value_never_runs_as_code() {
    let sandbox = Sandbox::up(1);
    let run = |words: &[&str]| {
        let mut command = sandbox.command("map");
        command.args(words);
        command.said()
    };
    let hostile = "a`touch harm`$(touch harm)'\"b";
    for line in ["echo \"{}\"", "echo '{}'", "echo {}", "echo \"$(echo \"{}\")\""] {
        let said = run(&["--sh", line, ":::", hostile]);
        assert_eq!((said.code, said.out), (Some(0), format!("{hostile}\n")), "{line}");
    }
    let said = run(&["--", "sh", "-c", "echo {}", ":::", hostile]);
    assert_eq!((said.code, said.out), (Some(0), format!("{hostile}\n")));
    for line in ["echo `echo {}`", "sh -c \"echo {}\""] {
        let said = run(&["--sh", line, ":::", hostile]);
        assert_eq!((said.code, said.out.as_str()), (Some(255), ""), "{line}: {said:?}");
        assert!(said.err.contains("{} is in"), "{said:?}");
    }
    let said = run(&["--sh", "echo $(({} * 2))", ":::", "21", "a[$(touch harm)]"]);
    assert_eq!((said.code, said.out.as_str()), (Some(1), "42\n"), "{said:?}");
    assert!(!sandbox.path("harm").exists());
}
