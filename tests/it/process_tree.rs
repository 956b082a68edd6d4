//! Real processes: a run is started, ended and leaves nothing behind (docs/design/hazards.md, P1, P2, P3, P4, P5, P9, A8).

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::scenario::{COOKIE, PATIENCE, alone, alone_without_rights, run, this_binary};
use base::{ExitCode, Round, Session, TaskId, Wall};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use proc::clock;
use proc::process::{
    Brand, ChildExit, Cookie, Environment, Pid, ProcessId, RunRecord, RunRecords, RunningChild, Signal, Spared,
    SpawnError, SpawnPlan, SweepReport, TaskRun, Tree, any_left, become_subreaper, end_below, limit_processes,
    reap_orphans, spawn, stragglers, sweep_by_cookie,
};
use rustix::process::{PidfdFlags, pidfd_open};

/// A folder with a run.sh, and what it writes to its standard output.
struct Tool {
    folder: tempfile::TempDir,
    environment: Environment,
    stdout: OwnedFd,
    stderr: File,
    output: File,
    brand: Option<Brand>,
}

impl Tool {
    fn new(script: &str) -> Self {
        let tool = Self::without_program();
        tool.write("run.sh", &format!("#!/bin/sh\n{script}\n"));
        tool
    }

    fn without_program() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (output, stdout) = std::io::pipe().expect("a pipe");
        let (name, value) = cookie_entry();
        let environment = environment(&[(&name, &value), ("PATH", "/usr/local/bin:/usr/bin:/bin")]);
        let stderr = File::create(folder.path().join("stderr")).expect("a new file");
        Self {
            folder,
            environment,
            stdout: stdout.into(),
            stderr,
            output: File::from(OwnedFd::from(output)),
            brand: None,
        }
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.folder.path().join(name);
        fs::write(&path, content).expect("a new file");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }

    fn start(&self) -> RunningChild {
        self.try_start().expect("it starts")
    }

    fn try_start(&self) -> Result<RunningChild, SpawnError> {
        self.try_start_before(None)
    }

    fn try_start_before(&self, not_after: Option<Duration>) -> Result<RunningChild, SpawnError> {
        let folder = File::open(self.folder.path()).expect("it is ours");
        let nothing = File::open("/dev/null").expect("every system has it");
        spawn(&SpawnPlan {
            folder: folder.as_fd(),
            environment: &self.environment,
            stdin: nothing.as_fd(),
            stdout: self.stdout.as_fd(),
            stderr: self.stderr.as_fd(),
            brand: self.brand,
            not_after,
            passed: None,
        })
    }

    /// Waits for one line of output.
    fn line(&self) -> String {
        let mut line = Vec::new();
        loop {
            wait_readable(&self.output);
            let mut byte = [0];
            match (&self.output).read(&mut byte).expect("a pipe can be read") {
                1 if byte != *b"\n" => line.extend(byte),
                _ => return String::from_utf8(line).expect("our scripts write text"),
            }
        }
    }

    /// Whether there is unread output.
    fn has_output(&self) -> bool {
        let mut fds = [PollFd::new(self.output.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO) == Ok(1)
    }

    /// Runs to the end and returns the exit code and the complete output. No other process may hold the output open.
    fn run(mut self) -> (ChildExit, String) {
        let exit = wait(&mut self.start());
        drop(self.stdout);
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("our scripts write text");
        (exit, text)
    }
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    let mut environment = Environment::default();
    for (name, value) in variables {
        environment.set(name, value).expect("a good one");
    }
    environment
}

/// The entry of the environment that marks what a scenario starts.
fn cookie_entry() -> (String, String) {
    (COOKIE.to_owned(), std::env::var(COOKIE).expect("inside of a scenario"))
}

/// Waits until the descriptor is readable or its other side is gone.
fn wait_readable(fd: impl AsFd) {
    let timeout = PollTimeout::try_from(PATIENCE).expect("fits");
    let ready = poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], timeout);
    assert_eq!(ready, Ok(1), "nothing happened for {PATIENCE:?}");
}

fn wait_for_exit(child: &RunningChild) {
    wait_readable(pidfd_open(child.id().pid, PidfdFlags::empty()).expect("only this test reaps it"));
}

fn wait(child: &mut RunningChild) -> ChildExit {
    wait_for_exit(child);
    child.try_wait().expect("only this test reaps it").expect("its descriptor said that it has ended")
}

/// Waits until these processes have ended, and reaps them.
fn wait_for_end(processes: &[ProcessId]) {
    for process in processes {
        if let Ok(pidfd) = pidfd_open(process.pid, PidfdFlags::empty()) {
            wait_readable(pidfd);
        }
    }
    reap_orphans(&[]);
}

/// Kills until nothing is left, as an agent does; returns how often it had to.
fn kill_all(tree: Tree, siblings: &[Pid]) -> u32 {
    for round in 0..200 {
        reap_orphans(siblings);
        if !any_left(siblings) {
            return round;
        }
        let found = stragglers(Spared::trees(siblings));
        tree.kill(Spared::trees(siblings));
        wait_for_end(&found);
    }
    panic!("the tree outlived 200 kills: {:?}", stragglers(Spared::trees(siblings)));
}

/// Starts the script, waits for `lines` lines of output and for the end of run.sh.
fn run_and_leave(script: &str, lines: usize) -> (Tool, Tree) {
    become_subreaper().expect("this kernel can");
    let tool = Tool::new(script);
    let mut child = tool.start();
    for _ in 0..lines {
        assert_eq!(tool.line(), "ready");
    }
    assert_eq!(wait(&mut child).exit, ExitCode::SUCCESS);
    (tool, Tree::of(child.id()))
}

#[test]
fn a_run_that_leaves_nothing_is_known_to_be_over_without_a_scan() {
    alone(|| {
        let (_tool, tree) = run_and_leave("sh -c 'exit 3'\nexit 0", 0);
        assert!(!any_left(&[]));
        assert_eq!(tree.kill(Spared::default()).found, 0);
    });
}

/// What the ladder must end, with SIGTERM where that is heard (docs/design/hazards.md, P1).
#[test]
fn nobody_gets_away_from_sigterm() {
    alone(|| {
        for (script, count) in [
            ("echo ready; sleep 300 & exit 0", 1),
            ("setsid sleep 300 & echo ready; exit 0", 1),
            ("(setsid sh -c 'sleep 300 & sleep 300 & echo ready' &) ; exit 0", 2),
            ("sleep 300 & setsid sh -c 'sleep 300 & echo ready; wait' & exit 0", 3),
        ] {
            let (_tool, tree) = run_and_leave(script, 1);
            assert!(any_left(&[]), "{script}");
            let found = stragglers(Spared::default());
            let signalled = tree.terminate(Signal::TERM, Spared::default());
            assert!(signalled.settled && signalled.refused == 0, "{script}: {signalled:?}");
            // The shell that double-forks may or may not have ended by then.
            assert!(signalled.found >= count, "{script}: {signalled:?}");
            wait_for_end(&found);
            assert_eq!(kill_all(tree, &[]), 0, "{script}: SIGTERM was not enough");
        }
    });
}

/// A run whose lease has expired must not begin, whatever has delayed its agent just before.
#[test]
fn a_run_that_comes_too_late_is_not_started() {
    alone(|| {
        let tool = Tool::new("echo started");
        assert!(matches!(tool.try_start_before(Some(clock::since_boot())), Err(SpawnError::TooLate)));
        assert!(!any_left(&[]) && !tool.has_output());
        let hour = Duration::from_secs(3600);
        assert_eq!(wait(&mut tool.try_start_before(Some(clock::since_boot() + hour)).unwrap()).exit, ExitCode::SUCCESS);
        assert_eq!(tool.line(), "started");
    });
}

/// The duty of a guard for an agent that is stopped: it need not be the parent, and uses no mark.
#[test]
fn everything_below_a_process_is_ended_from_outside() {
    alone(|| {
        let script = "trap '' TERM; (env -i setsid sleep 300 &); setsid sh -c 'sleep 300 & echo ready; wait' & exit 0";
        let (_tool, _) = run_and_leave(script, 1);
        let found = stragglers(Spared::default());
        assert!(found.len() >= 3, "{found:?}");
        let ourselves = ProcessId::own().expect("/proc is there");
        assert!(!end_below(ourselves), "there was something");
        wait_for_end(&found);
        assert!(end_below(ourselves) && !any_left(&[]));
        assert!(
            end_below(ProcessId { start_time: ourselves.start_time + 1, ..ourselves }),
            "another process of the number"
        );
    });
}

/// SIGTERM is ignored; SIGKILL is not (docs/design/hazards.md, P1).
#[test]
fn a_process_that_ignores_sigterm_is_killed() {
    alone(|| {
        let script = "setsid sh -c 'trap \"\" TERM; echo ready; sleep 300 & wait' & exit 0";
        let (_tool, tree) = run_and_leave(script, 1);
        assert!(tree.terminate(Signal::TERM, Spared::default()).found >= 1);
        assert!(any_left(&[]));
        assert!(kill_all(tree, &[]) >= 1);
    });
}

/// A stopped process can act on SIGTERM, because SIGCONT follows it (docs/design/hazards.md, P1).
#[test]
fn a_stopped_process_hears_sigterm() {
    alone(|| {
        let script = "setsid sh -c 'trap \"echo heard; exit 0\" TERM; echo ready; kill -STOP $$; sleep 300' & exit 0";
        let (tool, tree) = run_and_leave(script, 1);
        wait_until_stopped(stragglers(Spared::default()).first().expect("it is there").pid);
        tree.terminate(Signal::TERM, Spared::default());
        assert_eq!(tool.line(), "heard");
        kill_all(tree, &[]);
    });
}

fn wait_until_stopped(pid: Pid) {
    // The parent is told of a stopped child; P_PID leaves all others alone.
    let options = rustix::process::WaitIdOptions::STOPPED | rustix::process::WaitIdOptions::NOWAIT;
    rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).expect("it is our child");
}

/// The tree doubles while it is killed (docs/design/hazards.md, P1).
#[test]
fn a_fork_bomb_is_outrun() {
    alone(|| {
        become_subreaper().expect("this kernel can");
        let tool = Tool::new("./bomb.sh 7 & ./bomb.sh 7 & wait");
        let fork = "setsid ./bomb.sh $(($1-1)) &";
        tool.write(
            "bomb.sh",
            &format!("#!/bin/sh\n[ $1 -gt 0 ] || {{ echo ready; exec sleep 300; }}\n{fork} {fork} wait\n"),
        );
        let mut child = tool.start();
        assert_eq!(tool.line(), "ready");
        let tree = Tree::of(child.id());
        tree.kill(Spared::default());
        assert_eq!(wait(&mut child).exit, ExitCode(-9));
        kill_all(tree, &[]);
    });
}

/// Each process starts one in a session of its own and ends, so that there is never more than one to catch (docs/design/hazards.md, P1).
#[test]
fn a_process_that_moves_on_for_ever_is_caught() {
    alone(|| {
        become_subreaper().expect("this kernel can");
        let tool = Tool::new("echo ready; ./move.sh 100000 & exit 0");
        tool.write("move.sh", "#!/bin/sh\n[ $1 -gt 0 ] && setsid ./move.sh $(($1-1)) &\n");
        let mut child = tool.start();
        assert_eq!(tool.line(), "ready");
        wait(&mut child);
        kill_all(Tree::of(child.id()), &[]);
    });
}

/// A daemon that holds stdout open does not hold up the end of the run (docs/design/hazards.md, P2).
#[test]
fn the_end_of_a_run_is_the_end_of_run_sh_and_not_of_its_output() {
    alone(|| {
        let (tool, tree) = run_and_leave("setsid sleep 300 & exit 0", 0);
        drop(tool.stdout);
        let mut hangs = [PollFd::new(tool.output.as_fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut hangs, PollTimeout::ZERO), Ok(0), "the daemon holds it");
        assert!(any_left(&[]));
        kill_all(tree, &[]);
    });
}

/// Codes and signals as documented (docs/design/hazards.md, P3).
#[test]
fn exit_codes_are_told_as_documented() {
    alone(|| {
        for (script, code) in [
            ("exit 0", 0),
            ("exit 1", 1),
            ("exit 255", 255),
            ("exit 256", 0),
            ("kill -9 $$", -9),
            ("kill -15 $$", -15),
            ("kill -11 $$", -11),
            ("kill -40 $$", -40),
        ] {
            let tool = Tool::new(script);
            let mut child = tool.start();
            let exit = wait(&mut child);
            assert_eq!(exit.exit, ExitCode(code), "{script}");
            assert_eq!(child.try_wait().unwrap(), Some(exit), "told again");
            assert!(exit.max_rss_kib > 0);
        }
    });
}

/// Everything that runs (docs/design/hazards.md, P4).
#[test]
fn a_program_that_a_shell_would_run_is_run() {
    alone(|| {
        for (content, mode, output) in [
            ("#!/bin/sh\necho $0", 0o755, "./run.sh\n"),
            ("echo no first line", 0o755, "no first line\n"),
            ("", 0o755, ""),
            ("#!/bin/sh\necho made executable", 0o644, "made executable\n"),
            ("#!/bin/sh\necho made readable", 0o000, "made readable\n"),
            ("#!/bin/sh\necho $PWD", 0o755, "cwd"),
        ] {
            let tool = Tool::without_program();
            tool.write("run.sh", content);
            fs::set_permissions(tool.folder.path().join("run.sh"), fs::Permissions::from_mode(mode)).unwrap();
            let output = if output == "cwd" { format!("{}\n", tool.folder.path().display()) } else { output.into() };
            let (exit, text) = tool.run();
            assert_eq!((exit.exit, text), (ExitCode::SUCCESS, output), "{content:?}");
        }
    });
}

/// Everything that does not, with a sentence that says why (docs/design/hazards.md, P4).
#[test]
fn a_program_that_cannot_run_is_explained() {
    type Make = fn(&Path);
    alone(|| {
        let cases: [(Make, &str); 8] = [
            (|_| {}, "the tool has no run.sh"),
            (|path| fs::create_dir(path).unwrap(), "run.sh is a folder, not a regular file"),
            (
                |path| rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap(),
                "run.sh is a named pipe, not a regular file",
            ),
            (
                |path| std::os::unix::fs::symlink("/bin/true", path).unwrap(),
                "run.sh is a symbolic link, not a regular file",
            ),
            (
                |path| drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
                "run.sh is a socket, not a regular file",
            ),
            (
                |path| fs::write(path, "#!/bin/sh\r\necho\r\n").unwrap(),
                "the interpreter that the first line of run.sh names does not exist: \"#!/bin/sh\\r\"",
            ),
            (
                |path| fs::write(path, "#!/no/such/thing -x\n").unwrap(),
                "the interpreter that the first line of run.sh names does not exist: \"#!/no/such/thing -x\"",
            ),
            (
                |path| fs::write(path, "#!/etc/passwd\n").unwrap(),
                "run.sh may not be executed: \"#!/etc/passwd\" is not an executable program, or the file system is mounted noexec",
            ),
        ];
        for (make, sentence) in cases {
            let tool = Tool::without_program();
            make(&tool.folder.path().join("run.sh"));
            assert_eq!(tool.try_start().expect_err(sentence).to_string(), sentence);
        }
        assert!(!any_left(&[]), "a failed start leaves no process");
        let mut tool = Tool::new("exit 0");
        tool.environment = environment(&[("A", &"x".repeat(1 << 20))]);
        assert!(matches!(tool.try_start(), Err(SpawnError::TooLong)));
        assert!(!any_left(&[]), "a failed start leaves no process");
    });
}

/// A run.sh that is still open for writing is reported as such, and the same plan works a moment later (docs/design/hazards.md, P5).
#[test]
fn a_busy_program_can_be_tried_again() {
    alone(|| {
        let tool = Tool::new("exit 7");
        let writer = File::options().append(true).open(tool.folder.path().join("run.sh")).unwrap();
        for _ in 0..5 {
            assert!(matches!(tool.try_start(), Err(SpawnError::Busy)));
        }
        drop(writer);
        assert_eq!(wait(&mut tool.start()).exit, ExitCode(7));
    });
}

/// A run has three descriptors, the environment of its plan, no arguments, and a group of its own (docs/design/hazards.md, P9).
#[test]
fn a_run_gets_what_its_plan_says_and_nothing_else() {
    alone(|| {
        let leak = File::open("/dev/null").unwrap();
        rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).unwrap();
        // The fourth one is the folder that ls itself reads.
        let (_, text) = Tool::new("exec ls /proc/self/fd").run();
        assert_eq!(text, "0\n1\n2\n3\n");

        let (_, text) = Tool::new("readlink /proc/self/fd/0").run();
        assert_eq!(text, "/dev/null\n");

        let mut tool = Tool::new("tr '\\0' '|' < /proc/$$/environ");
        let (name, value) = cookie_entry();
        tool.environment = environment(&[(&name, &value), ("PATH", "/bin"), ("B", "a\nb=c")]);
        assert_eq!(tool.run().1, format!("{name}={value}|PATH=/bin|B=a\nb=c|"));

        let tool = Tool::new("echo \"$0 $#\"; read -r pid _ _ _ group _ < /proc/self/stat; echo $((pid - group))");
        assert_eq!(tool.run().1, "./run.sh 0\n0\n");
    });
}

/// An agent that reads its signals from a descriptor has them blocked, and Rust ignores SIGPIPE: no tool may inherit that
/// (docs/design/hazards.md, P9).
#[test]
fn a_run_starts_with_default_signals() {
    alone(|| {
        nix::sys::signal::SigSet::all().thread_block().unwrap();
        let own = fs::read_to_string("/proc/thread-self/status").unwrap();
        let fields = |status: &str| -> Vec<String> {
            let wanted = |line: &&str| line.starts_with("SigBlk") || line.starts_with("SigIgn");
            status.lines().filter(wanted).map(str::to_owned).collect()
        };
        assert!(fields(&own).iter().all(|line| !line.ends_with("\t0000000000000000")), "the test is vain: {own}");
        let (_, text) = Tool::new("while read -r line; do echo \"$line\"; done < /proc/$$/status").run();
        // The C library does not permit changes to its two internal signals, 32 and 33: they stay as the parent process has
        // left them.
        let text = ["0000000180000000", "0000000080000000"]
            .iter()
            .fold(text, |text, ours| text.replace(ours, "0000000000000000"));
        assert_eq!(fields(&text), ["SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000"]);
    });
}

/// A parent that ignores SIGCHLD hands that down, and then the kernel throws exit codes away.
#[test]
fn an_ignored_sigchld_loses_no_exit_code() {
    let mut command = std::process::Command::new("env");
    command.arg("--ignore-signal=CHLD").arg(this_binary());
    run(command, || {
        let own = fs::read_to_string("/proc/self/status").unwrap();
        let ignored = own.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
        assert!(u64::from_str_radix(ignored, 16).unwrap() & (1 << (libc::SIGCHLD - 1)) != 0, "the test is vain: {own}");
        let tool = Tool::new("exit 7");
        become_subreaper().unwrap();
        assert_eq!(wait(&mut tool.start()).exit, ExitCode(7));
    });
}

/// The limit is inherited, cannot be raised again, and a start beyond it is explained.
#[test]
fn the_limit_of_processes_holds_for_a_run() {
    alone_without_rights(|| {
        let before = limit_processes(0).unwrap();
        assert_eq!(limit_processes(0).unwrap(), before, "0 changes nothing");
        let expected = before.map_or(4000, |present| present.min(4000));
        assert_eq!(limit_processes(4000).unwrap(), Some(expected));
        let (_, text) = Tool::new("grep 'Max processes' /proc/$$/limits").run();
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        assert_eq!(words[2..4], [expected.to_string(), expected.to_string()], "soft and hard: {text}");
        assert_eq!(limit_processes(u64::MAX).unwrap(), Some(expected), "cannot be raised");

        limit_processes(1).unwrap();
        assert!(matches!(Tool::new("exit 0").try_start(), Err(SpawnError::TooManyProcesses)));
    });
}

/// A supervisor ends the orphans of a dead agent, and none of the agents that live nor what they run.
#[test]
fn siblings_and_what_they_run_are_left_alone() {
    alone(|| {
        become_subreaper().unwrap();
        let agent = Tool::new("sleep 300 & echo ready; read -r line < go; kill $!; wait; exit 5");
        rustix::fs::mkfifoat(rustix::fs::CWD, agent.folder.path().join("go"), rustix::fs::Mode::RWXU).unwrap();
        let mut sibling = agent.start();
        assert_eq!(agent.line(), "ready");
        let siblings = [sibling.id().pid];
        assert!(!any_left(&siblings));

        let (_tool, tree) = run_and_leave("setsid sleep 300 & echo ready; exit 0", 1);
        assert!(any_left(&siblings));
        assert!(kill_all(tree, &siblings) >= 1);
        assert_eq!(Tree::of_orphans().kill(Spared::trees(&siblings)).found, 0);
        assert!(sibling.id().is_alive() && sibling.try_wait().unwrap().is_none());

        // It ends: its status must be there for its owner although orphans are reaped meanwhile.
        fs::write(agent.folder.path().join("go"), "\n").unwrap();
        wait_for_exit(&sibling);
        let (_tool, orphans) = run_and_leave("setsid sh -c 'echo ready' & exit 0", 1);
        wait_for_children_except(&siblings);
        assert_eq!(kill_all(orphans, &siblings), 0);
        assert_eq!(sibling.try_wait().unwrap().unwrap().exit, ExitCode(5));
        assert!(!any_left(&[]));
    });
}

fn wait_for_children_except(siblings: &[Pid]) {
    for process in stragglers(Spared::trees(siblings)) {
        if let Ok(pidfd) = pidfd_open(process.pid, PidfdFlags::empty()) {
            wait_readable(pidfd);
        }
    }
}

/// A number that was reused by another process is not signalled, neither as a process nor as a group.
#[test]
fn a_reused_pid_is_not_signalled() {
    alone(|| {
        become_subreaper().unwrap();
        let mut tool = Tool::new("echo ready; exec sleep 300");
        tool.environment = environment(&[("PATH", "/bin")]);
        let mut stranger = tool.start();
        assert_eq!(tool.line(), "ready");
        let id = stranger.id();
        let reused = ProcessId { start_time: id.start_time - 1, ..id };
        assert_eq!(Tree::of(reused).kill(Spared::trees(&[id.pid])).found, 0);

        let folder = tempfile::tempdir().unwrap();
        let records = RunRecords::open(folder.path()).unwrap();
        let record = RunRecord { root: Some(reused), ..record_of_dead_agent(0) };
        leave(folder.path(), &record);
        assert!(!reused.is_alive());
        let swept = sweep(&records);
        assert_eq!((swept.len(), swept[0].killed, swept[0].left), (1, 0, 0));
        assert_eq!(records.list().unwrap(), []);

        assert!(stranger.try_wait().unwrap().is_none() && id.is_alive(), "it was killed");
        Tree::of(id).kill(Spared::default());
        assert_eq!(wait(&mut stranger).exit, ExitCode(-9));
    });
}

fn sweep(records: &RunRecords) -> Vec<SweepReport> {
    let mut swept = Vec::new();
    records.sweep(|run| swept.push(run.clone())).expect("a folder of ours");
    swept
}

/// Writes a record as its agent would, and leaves it as an agent that was killed.
fn leave(folder: &Path, record: &RunRecord) {
    let records = RunRecords::<TaskRun>::open(folder).expect("a folder of ours");
    let mut file = records.of(record.agent, Some(Session(9))).expect("a folder of ours");
    file.write(record).expect("a file of ours");
    let path = folder.join(format!("{}-{}-{:x}.run", record.agent.pid, record.agent.start_time, 9));
    let kept = path.with_extension("kept");
    fs::copy(&path, &kept).expect("it is there");
    // Its lock goes with it, and so does the file.
    drop(file);
    fs::rename(kept, path).expect("it is there");
}

fn record_of_dead_agent(round: u32) -> RunRecord {
    let tool = Tool::new("exit 0");
    let mut agent = tool.start();
    wait(&mut agent);
    let (name, value) = cookie_entry();
    RunRecord {
        subject: TaskRun { task: TaskId::new(Wall::from_micros(7), [0; 5]), round: Round(round) },
        root: None,
        agent: agent.id(),
        cookie: Cookie::new([format!("{name}={value}"), format!("ROUND={round}")]),
    }
}

/// The next agent ends what a dead one has left, wherever init has put it, and not the next round of the same task
/// (docs/design/hazards.md, A8).
#[test]
fn the_run_of_a_dead_agent_is_swept() {
    alone(|| {
        // No subreaper: the orphans leave our tree, as those of a dead agent do.
        // Run.sh, two marked processes in a session of their own, and an orphan without environment in its group.
        let script = "setsid sh -c 'sleep 300 & echo ready; wait' & \
             (env -i sh -c 'echo ready; exec sleep 300' &) ; exec sleep 300";
        let start = |round: &str| {
            let mut tool = Tool::new(script);
            tool.environment.set("ROUND", round).unwrap();
            let child = tool.start();
            assert_eq!([tool.line(), tool.line()], ["ready", "ready"]);
            // The subshell that has started the orphan has ended when run.sh goes on.
            let name = format!("/proc/{}/comm", child.id().pid.as_raw_nonzero());
            testkit::eventually("run.sh is sleep", || fs::read_to_string(&name).is_ok_and(|name| name == "sleep\n"));
            (tool, child)
        };
        let (_old_tool, mut old) = start("0");
        let (_new_tool, mut new) = start("1");

        let folder = tempfile::tempdir().unwrap();
        let records = RunRecords::open(folder.path()).unwrap();
        let stale = RunRecord { root: Some(old.id()), ..record_of_dead_agent(0) };
        let live = RunRecord { root: Some(new.id()), agent: ProcessId::own().unwrap(), ..record_of_dead_agent(1) };
        leave(folder.path(), &stale);
        leave(folder.path(), &live);

        let swept = sweep(&records);
        assert_eq!(swept.len(), 1);
        assert_eq!((swept[0].subject.round, swept[0].left, swept[0].superseded), (Round(0), 0, true));
        assert_eq!(swept[0].killed, 4);
        assert_eq!(wait(&mut old).exit, ExitCode(-9));
        assert_eq!(records.list().unwrap(), [live]);
        assert!(new.try_wait().unwrap().is_none(), "the next round was killed");

        leave(folder.path(), &RunRecord { root: Some(new.id()), ..record_of_dead_agent(1) });
        assert_eq!(sweep(&records)[0].killed, 4);
        assert_eq!(wait(&mut new).exit, ExitCode(-9));
    });
}

/// run.sh is gone as well (docs/design/hazards.md, A8). Its group is ours if a marked process is in it; if none is, its
/// number may be another's.
#[test]
fn a_group_without_its_leader_is_swept_only_if_it_is_proven_to_be_ours() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        let records = RunRecords::open(folder.path()).unwrap();
        let unmarked = "(env -i sh -c 'echo $$; exec sleep 300' &)";
        for (script, killed) in [(format!("{unmarked}; sleep 300 & exit 0"), 2), (format!("{unmarked}; exit 0"), 0)] {
            let mut tool = Tool::new(&script);
            tool.environment.set("ROUND", "0").unwrap();
            let mut child = tool.start();
            let pid = Pid::from_raw(tool.line().parse().unwrap()).unwrap();
            let unmarked = ProcessId::of(pid).unwrap();
            wait(&mut child);
            leave(folder.path(), &RunRecord { root: Some(child.id()), ..record_of_dead_agent(0) });
            assert_eq!(sweep(&records)[0].killed, killed, "{script}");
            assert_eq!(unmarked.is_alive(), killed == 0);
            if killed == 0 {
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            }
        }
    });
}

/// A sweep may be started from inside of the run that it ends: it goes on to its end.
#[test]
fn a_sweep_spares_itself_and_its_ancestors() {
    alone(|| {
        let tool = Tool::new("echo ready; exec sleep 300");
        let mut child = tool.start();
        assert_eq!(tool.line(), "ready");
        // Our own environment has this entry as well.
        let (name, value) = cookie_entry();
        let ended = sweep_by_cookie(&Cookie::new([format!("{name}={value}")]));
        assert_eq!((ended.killed, ended.left.len()), (1, 0));
        assert_eq!(wait(&mut child).exit, ExitCode(-9));
        assert!(!tool.has_output());
    });
}

/// A process that has neither our environment nor our group and session, and whose parents are gone, as a daemon has
/// (docs/design/hazards.md, A8).
#[test]
fn what_has_cleared_its_environment_is_known_by_the_brand_of_its_agent() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        let records = RunRecords::open(folder.path()).unwrap();
        let escape = "(env -i setsid sh -c 'echo $$; exec sleep 300' &) ; exit 0";
        let start = |brand| {
            let tool = Tool { brand, ..Tool::new(escape) };
            let mut child = tool.start();
            let pid = Pid::from_raw(tool.line().parse().unwrap()).unwrap();
            wait(&mut child);
            (child.id(), ProcessId::of(pid).unwrap())
        };
        let [ours, anothers] = [(); 2].map(|()| Brand::fresh().expect("no tool runs this test"));
        let ((run, escaped), (_, of_another), (_, of_nobody)) = (start(Some(ours)), start(Some(anothers)), start(None));
        let record = record_of_dead_agent(0);
        let cookie = record.cookie.clone().branded(Some(ours));
        leave(folder.path(), &RunRecord { root: Some(run), cookie, ..record });
        assert_eq!(sweep(&records).iter().map(|swept| (swept.killed, swept.left)).collect::<Vec<_>>(), [(1, 0)]);
        assert!(!escaped.is_alive() && of_another.is_alive() && of_nobody.is_alive());
        for stranger in [of_another, of_nobody] {
            rustix::process::kill_process(stranger.pid, rustix::process::Signal::KILL).unwrap();
        }
    });
}
