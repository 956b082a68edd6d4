//! Parts of a service are killed, in any order (README.md, promise 4): `llts down` says that it has stopped when nothing of it lives.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;

use crate::cli::sandbox::{Program, Said, Sandbox, Start as _, eventually, kill, kill_all, names, signal};

/// Leaves a process in its own group, one in a session of its own, and one that nothing of its environment gives away either.
const CLINGING: &str = "\
sleep 1000 &
echo $! >> $PLACE/pids
setsid sh -c 'echo $$ >> $PLACE/pids; exec sleep 1000' &
(env -i PLACE=$PLACE setsid sh -c 'echo $$ >> $PLACE/pids; exec env -i sleep 1000' &)
trap '' TERM
while :; do sleep 0.1; done";

/// How a service knows what its dead agents have left.
const WAYS: [&str; 2] = ["AGENT_CGROUP = \"auto\"", "AGENT_CGROUP = \"off\""];

/// A place where the clinging tool can be run.
struct Clinging {
    sandbox: Sandbox,
    /// The folder of the cgroups of its agents, once they are there and have any.
    cgroups: Option<PathBuf>,
}

impl Clinging {
    fn new(setting: &str) -> Self {
        let sandbox = Sandbox::new();
        sandbox.append("config.toml", setting);
        sandbox.tool("clinging", CLINGING);
        Self { sandbox, cgroups: None }
    }

    /// Two agents, one of which runs the tool.
    fn up(setting: &str) -> Self {
        let mut this = Self::new(setting);
        this.sandbox.ok("up 2");
        this.sandbox.ok("submit clinging");
        this.stands();
        this
    }

    /// Waits until the tool has started all of its processes.
    fn stands(&mut self) {
        // The last two write their numbers before they become what they stay.
        eventually("the tool stands", || self.pids().iter().filter(|pid| is_alive(**pid)).count() >= 3);
        self.cgroups = cgroups(self.sandbox.process("agent --name agent-1"));
    }

    fn pids(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.sandbox.path("pids")).unwrap_or_default();
        // A line is whole when it has its end.
        text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')?.parse().ok()).collect()
    }

    /// Kills all processes whose command line ends so, the supervisor first: it would bring the others back.
    fn kill(&self, parts: &[&str]) {
        let pids: Vec<i32> = parts.iter().map(|part| self.sandbox.process(part)).collect();
        pids.into_iter().for_each(|pid| kill(pid));
    }

    /// Whether nothing that was started here lives, known by its environment or not, and no cgroup is left.
    #[track_caller]
    fn is_gone(&self, when: &str) {
        assert_eq!(self.sandbox.processes(), [], "{when}");
        let alive: Vec<i32> = self.pids().into_iter().filter(|pid| is_alive(*pid)).collect();
        assert_eq!(alive, [0; 0], "{when}: of {:?}", self.pids());
        assert!(self.cgroups.iter().all(|folder| !folder.exists()), "{when}: {:?}", self.cgroups);
        assert_eq!(names(&self.sandbox.path("state/runs")), [""; 0], "{when}");
    }
}

impl Drop for Clinging {
    fn drop(&mut self) {
        for pid in self.pids().into_iter().filter(|pid| is_alive(*pid)) {
            kill(pid);
        }
    }
}

/// Whether this process of a tool sleeps on.
fn is_alive(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep\0"))
}

/// The folder of the cgroups of a service, if this agent of it has one.
fn cgroups(agent: i32) -> Option<PathBuf> {
    let own = fs::read_to_string(format!("/proc/{agent}/cgroup")).ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let service = std::path::Path::new(path).parent().filter(|_| path.contains("/llts-"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?;
    Some(PathBuf::from(mount).join(service.strip_prefix("/").ok()?))
}

#[track_caller]
fn ended(said: &Said) {
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("ended"), "{said:?}");
}

const SUPERVISOR: &str = "--agents 2";
const CONTROLLER: &str = " controller";
const AGENTS: [&str; 2] = ["agent --name agent-1", "agent --name agent-2"];

/// Everything but one, and really everything. `down` comes at once: some may still be dying.
#[test]
fn down_ends_what_was_left_by_any_that_were_killed() {
    let all = [SUPERVISOR, CONTROLLER, AGENTS[0], AGENTS[1]];
    for (way, survivors) in
        [(WAYS[0], &[None, Some(AGENTS[0]), Some(AGENTS[1])][..]), (WAYS[1], &[None, Some(CONTROLLER)])]
    {
        for survivor in survivors {
            let clinging = Clinging::up(way);
            let killed: Vec<&str> = all.into_iter().filter(|part| Some(*part) != *survivor).collect();
            clinging.kill(&killed);
            ended(&clinging.sandbox.ok("down"));
            clinging.is_gone(&format!("{way}, all were killed but {survivor:?}"));
            let again = clinging.sandbox.ok("down");
            assert!(again.out.is_empty() && again.err.contains("no service runs"), "{again:?}");
        }
    }
}

#[test]
fn down_ends_what_a_supervisor_leaves_that_is_killed_meanwhile() {
    let clinging = Clinging::up(WAYS[0]);
    let supervisor = clinging.sandbox.process(SUPERVISOR);
    let down = clinging.sandbox.start("down");
    // The tool is deaf to SIGTERM, so that its agent cannot have ended yet.
    let log = clinging.sandbox.path("log/supervisor.log");
    eventually("it is stopping", || fs::read_to_string(&log).is_ok_and(|text| text.contains("SIGTERM: stopping")));
    signal(supervisor, Signal::KILL);
    let said = down.said();
    ended(&said);
    assert!(said.out.contains(&format!("(process {supervisor})")), "{said:?}");
    clinging.is_gone("the supervisor was killed during `down`");
}

#[test]
fn down_wakes_a_supervisor_that_was_stopped() {
    let clinging = Clinging::up(WAYS[0]);
    signal(clinging.sandbox.process(SUPERVISOR), Signal::STOP);
    clinging.sandbox.ok("down");
    clinging.is_gone("the supervisor had been stopped");
}

/// Its controller and agents go on, and none of them is started again.
#[test]
fn a_service_without_its_supervisor_says_so_until_it_starts_anew() {
    let sandbox = Sandbox::up(1);
    let supervisor = sandbox.process("--agents 1");
    kill_all([supervisor]);
    let dead = format!("the supervisor (process {supervisor}) was killed");
    assert!(sandbox.ok("info").out.contains(&dead));
    let doctor = sandbox.llts("doctor").out;
    assert!(doctor.contains(&dead) && !doctor.contains("cannot be used"), "{doctor}");
    // The controller sees it with its next event.
    eventually("it is a problem", || sandbox.ok("status").out.contains("the supervisor was killed"));
    sandbox.ok("run -- true");
    sandbox.llts("restart").failed(1, &dead);
    assert!(sandbox.ok("up 1").err.contains(&dead));
    assert!(!sandbox.ok("status").out.contains("the supervisor was killed"));
    assert!(sandbox.ok("up 1").err.contains("runs already"), "there is one");
    sandbox.ends_clean();
}

#[test]
fn down_lets_running_tasks_end_without_a_supervisor_too() {
    let sandbox = Sandbox::up(1);
    let script = "until test -e go; do sleep 0.05; done; echo survived";
    let folder = sandbox.root().to_str().unwrap().to_owned();
    let id = sandbox.ok(&["submit", "--cwd", &folder, "--sh", script]).line().to_owned();
    eventually("it runs", || sandbox.ok("list --state running").out.contains(&id));
    kill_all([sandbox.process("--agents 1")]);
    let down = sandbox.start("down --wait");
    eventually("no other task starts", || sandbox.ok("info").out.contains("paused"));
    sandbox.write("go", "");
    let said = down.said();
    assert!(said.code == Some(0) && said.err.contains("waiting for 1 running task"), "{said:?}");
    sandbox.ok("up 1");
    assert_eq!(sandbox.ok(&format!("logs {id}")).out, "survived\n");
    sandbox.ends_clean();
}

/// The second one must not take the first one for a supervisor.
#[test]
fn two_may_say_down_at_once() {
    let clinging = Clinging::up(WAYS[0]);
    clinging.kill(&[SUPERVISOR, CONTROLLER]);
    let both = [clinging.sandbox.start("down"), clinging.sandbox.start("down")].map(|down| down.said());
    assert!(both.iter().all(|said| said.code == Some(0)), "{both:?}");
    assert_eq!(both.iter().filter(|said| said.out.contains("ended")).count(), 1, "{both:?}");
    clinging.is_gone("both have said so");
}

#[test]
fn down_of_another_user_does_not_say_that_nothing_runs() {
    use std::os::unix::process::CommandExt as _;
    let sandbox = Sandbox::up(1);
    let mut down = sandbox.command("down");
    if rustix::process::geteuid().is_root() {
        // It must be able to read the configuration.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(sandbox.path(""), open).unwrap();
        down.uid(65534).gid(65534);
        let said = down.said();
        assert!(said.code == Some(1) && said.err.contains("service") && said.out.is_empty(), "{said:?}");
    }
    sandbox.ok("agents");
}

/// What even supervisors and guards miss is ended by the next start (README.md, promise 4).
#[test]
fn the_next_start_ends_what_was_left_when_all_were_killed() {
    for way in WAYS {
        let clinging = Clinging::up(way);
        let before = clinging.pids();
        // A service whose supervisor is not quite dead runs already.
        kill_all([SUPERVISOR, CONTROLLER, AGENTS[0], AGENTS[1]].map(|part| clinging.sandbox.process(part)));
        clinging.sandbox.ok("up 2");
        assert_eq!(before.iter().filter(|pid| is_alive(**pid)).count(), 0, "{way}: {before:?}");
        clinging.sandbox.ok("down");
        clinging.is_gone(way);
    }
}

/// A hosted service has no next start: its guard must do.
#[test]
fn what_a_hosted_service_leaves_is_ended_by_its_guard_when_all_else_was_killed() {
    for way in WAYS {
        let mut clinging = Clinging::new(way);
        clinging.sandbox.ok("tool pack tools/clinging");
        let mut run = clinging.sandbox.start("run --no-service clinging");
        clinging.stands();
        let own = clinging.sandbox.processes();
        let parts = own.iter().filter(|(_, line)| line.contains("llts ") && !line.contains(" guard "));
        parts.for_each(|(pid, _)| kill(*pid));
        run.wait().unwrap();
        eventually("the guard has ended", || clinging.sandbox.processes().is_empty());
        clinging.is_gone(way);
        assert_eq!(names(&clinging.sandbox.path("tmp")), [""; 0], "{way}");
    }
}

/// A hosted run and those that keep it: itself, its guard, and its supervisor.
struct Hosted {
    run: Program,
    clinging: Clinging,
    guard: i32,
    supervisor: i32,
}

impl Hosted {
    fn new(setting: &str) -> Self {
        let mut clinging = Clinging::new(setting);
        clinging.sandbox.tool("true", "exit 0");
        clinging.sandbox.ok("tool pack tools/clinging");
        clinging.sandbox.ok("tool pack tools/true");
        let run = clinging.sandbox.start("run --no-service clinging");
        clinging.stands();
        let processes = clinging.sandbox.processes();
        let found = |word: &str| processes.iter().find(|(_, line)| line.contains(word)).expect("a part of it").0;
        let (guard, supervisor) = (found(" guard "), found(" supervise "));
        Self { run, clinging, guard, supervisor }
    }

    /// The guard first: it would end the rest.
    fn kill_all_keepers(&mut self) {
        [self.guard, self.supervisor].into_iter().for_each(|pid| kill(pid));
        self.run.kill();
        let is_keeper = |line: &str| [" guard ", " supervise ", " run "].into_iter().any(|word| line.contains(word));
        let sandbox = &self.clinging.sandbox;
        eventually("they are gone", || !sandbox.processes().iter().any(|(_, line)| is_keeper(line)));
        // A process that ends loses its arguments before its files.
        let lock =
            fs::File::open(sandbox.path("tmp").join(&self.folders()[0]).join("keepers.lock")).expect("their lock");
        eventually("their lock is free", || lock.try_lock().is_ok());
        drop(lock);
        let left = sandbox.processes();
        assert!(
            [CONTROLLER, AGENTS[0]].iter().all(|part| left.iter().any(|(_, line)| line.trim_end().ends_with(part)))
        );
        self.stands();
    }

    #[track_caller]
    fn stands(&self) {
        let pids = self.clinging.pids();
        assert_eq!(pids.iter().filter(|pid| is_alive(**pid)).count(), 3, "{pids:?}");
        assert_eq!(self.folders().len(), 1);
    }

    fn folders(&self) -> Vec<String> {
        names(&self.clinging.sandbox.path("tmp"))
    }

    #[track_caller]
    fn is_gone(&self, when: &str) {
        self.clinging.is_gone(when);
        assert_eq!(self.folders(), [""; 0], "{when}");
    }
}

/// Whichever of these commands comes next ends what no supervisor and no guard ends any more.
#[test]
fn what_a_hosted_service_leaves_is_ended_by_the_next_command_when_its_guard_was_killed_too() {
    for (way, line) in [(WAYS[0], "down"), (WAYS[1], "down"), (WAYS[0], "up 1"), (WAYS[1], "run --no-service true")] {
        let mut hosted = Hosted::new(way);
        hosted.kill_all_keepers();
        let folder = hosted.clinging.sandbox.path("tmp").join(&hosted.folders()[0]);
        let said = hosted.clinging.sandbox.ok(line);
        let sentence = if line == "down" { &said.out } else { &said.err };
        assert!(
            sentence.contains("an ephemeral service") && sentence.contains(&folder.display().to_string()),
            "{said:?}"
        );
        if line == "up 1" {
            hosted.clinging.sandbox.ok("down");
        }
        hosted.is_gone(&format!("{way}, {line}"));
    }
}

#[test]
fn down_fails_when_a_hosted_service_cannot_be_ended_and_says_why() {
    let mut hosted = Hosted::new(WAYS[0]);
    hosted.kill_all_keepers();
    let work = hosted.clinging.sandbox.path("tmp").join(&hosted.folders()[0]).join("work");
    let away = hosted.clinging.sandbox.path("away");
    fs::rename(&work, &away).unwrap();
    std::os::unix::fs::symlink(&away, &work).unwrap();
    let said = hosted.clinging.sandbox.llts("down --output wire");
    said.failed(1, &format!("cannot use {}: ", work.display()));
    assert_eq!(said.json()["abandoned"][0]["ended"], serde_json::Value::Null, "{said:?}");
    hosted.stands();
    fs::remove_file(&work).unwrap();
    fs::rename(&away, &work).unwrap();
    hosted.clinging.sandbox.ok("down");
    hosted.is_gone("its folder is as it was");
}

/// Each of the three keepers is enough, also one that is stopped.
#[test]
fn a_hosted_run_with_a_keeper_is_left_alone() {
    let mut hosted = Hosted::new(WAYS[0]);
    let commands = |hosted: &Hosted| {
        for line in ["down", "up 1", "down", "run --no-service true"] {
            let said = hosted.clinging.sandbox.ok(line);
            assert!(!format!("{said:?}").contains("an ephemeral service"), "{line}: {said:?}");
            hosted.stands();
        }
    };
    commands(&hosted);
    // The supervisor alone, which cannot act yet.
    signal(hosted.supervisor, Signal::STOP);
    signal(hosted.guard, Signal::KILL);
    hosted.run.kill();
    commands(&hosted);
    signal(hosted.supervisor, Signal::CONT);
    eventually("the supervisor has ended it", || hosted.folders().is_empty());
    hosted.is_gone("the supervisor was stopped");
    // The command alone: its service works on.
    let mut hosted = Hosted::new(WAYS[0]);
    signal(hosted.guard, Signal::KILL);
    signal(hosted.supervisor, Signal::KILL);
    commands(&hosted);
    hosted.run.kill();
    hosted.clinging.sandbox.ok("down");
    hosted.is_gone("the command was killed last");
}

/// Its guard would do so, if it lived.
#[test]
fn a_hosted_run_that_has_lost_its_other_keepers_ends_its_service_itself() {
    let sandbox = Sandbox::new();
    sandbox.tool("waiting", "touch $PLACE/started; until [ -e $PLACE/go ]; do sleep 0.05; done; echo done");
    let run = sandbox.start("run --no-service waiting");
    eventually("the tool runs", || sandbox.path("started").exists());
    let processes = sandbox.processes();
    let keepers = processes.iter().filter(|(_, line)| line.contains(" guard ") || line.contains(" supervise "));
    keepers.for_each(|(pid, _)| kill(*pid));
    fs::write(sandbox.path("go"), "").unwrap();
    let said = run.said();
    assert!(said.code == Some(0) && said.out == "done\n" && said.err.contains("an ephemeral service"), "{said:?}");
    sandbox.is_clean();
}

/// The agents as well: what is left has no process of ours above it.
#[test]
fn what_the_tools_of_a_hosted_service_leave_is_ended_when_all_of_it_was_killed() {
    for way in WAYS {
        let mut hosted = Hosted::new(way);
        hosted.kill_all_keepers();
        let processes = hosted.clinging.sandbox.processes();
        let is_killed = |line: &str| line.trim_end().ends_with(CONTROLLER) || line.contains(" agent --name ");
        processes.iter().filter(|(_, line)| is_killed(line)).for_each(|(pid, _)| kill(*pid));
        let said = hosted.clinging.sandbox.ok("down --output wire").json();
        assert_eq!(said["abandoned"][0]["error"], serde_json::Value::Null, "{said}");
        assert!(said["abandoned"][0]["ended"].as_u64() > Some(0), "{said}");
        hosted.is_gone(way);
    }
}

/// It sheds the brand as well, by lowering that limit: only its cgroup is left to know it by.
#[test]
fn what_sheds_every_mark_is_ended_by_its_cgroup_where_there_is_one() {
    let mut clinging = Clinging::new(WAYS[0]);
    let shed =
        "(env -i PLACE=$PLACE setsid bash -c 'ulimit -R 1000000; echo $$ >> $PLACE/pids; exec env -i sleep 1000' &)";
    clinging.sandbox.tool("shedding", &format!("{shed}\n{shed}\n{shed}\nsleep 1000"));
    clinging.sandbox.ok("up 2");
    clinging.sandbox.ok("submit shedding");
    clinging.stands();
    clinging.kill(&[SUPERVISOR, CONTROLLER, AGENTS[0], AGENTS[1]]);
    ended(&clinging.sandbox.ok("down"));
    if clinging.cgroups.is_some() {
        clinging.is_gone("all were killed");
    } else {
        assert_eq!(
            clinging.pids().iter().filter(|pid| is_alive(**pid)).count(),
            3,
            "is there another way to know them?"
        );
    }
}

/// An agent takes its cgroup along when it leaves.
#[test]
fn a_service_that_ends_in_peace_leaves_no_cgroup() {
    let clinging = Clinging::up(WAYS[0]);
    let sandbox = &clinging.sandbox;
    // Each agent has one of its own, and the supervisor none.
    let own = |pid: i32| fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let [first, second] = AGENTS.map(|agent| own(sandbox.process(agent)));
    if clinging.cgroups.is_some() {
        assert_ne!(first, second);
        assert!(!own(sandbox.process(SUPERVISOR)).contains("/llts-") && own(clinging.pids()[2]).contains("/llts-"));
    }
    let victim = sandbox.process(AGENTS[0]);
    signal(victim, Signal::KILL);
    let is_another = |(pid, line): &(i32, String)| *pid != victim && line.trim_end().ends_with(AGENTS[0]);
    eventually("another agent", || sandbox.processes().iter().any(is_another));
    sandbox.ok("down");
    clinging.is_gone("down");
}

#[test]
fn agents_make_a_work_folder_again_that_was_removed() {
    let sandbox = Sandbox::up(5);
    sandbox.ok("run -- true");
    fs::remove_dir_all(sandbox.path("work")).expect("removed");
    // Each agent may find it gone, and none of that is a loss.
    assert_eq!(sandbox.ok("run --max-losses 0 -- echo here").out, "here\n");
    assert!(!sandbox.ok("incidents").out.contains("AGENT_LOST"));
    sandbox.ends_clean();
}
