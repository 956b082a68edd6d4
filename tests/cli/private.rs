//! What other users of the machine can reach of a service: ports, sockets, files, folders.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::place::{Place, eventually, names};

const CLOSED: &str = "CONTROLLER_REP_PORT = \"off\"\nCONTROLLER_PUB_PORT = \"off\"\nLOG_DIR = \"log\"\n";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The TCP ports at which processes of this place listen.
fn open_ports(place: &Place) -> Vec<String> {
    let mut sockets = BTreeSet::new();
    for (pid, _) in place.processes() {
        for fd in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let target = fs::read_link(fd.path()).unwrap_or_default();
            let inode =
                target.to_string_lossy().strip_prefix("socket:[").map(|rest| rest.trim_end_matches(']').to_owned());
            sockets.extend(inode);
        }
    }
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    let is_ours = |words: &Vec<&str>| words[3] == "0A" && sockets.contains(words[9]);
    let found = lines.map(|line| line.split_whitespace().collect::<Vec<_>>()).filter(is_ours);
    found.map(|words| words[1].to_owned()).collect()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).mode() & 0o777
}

/// Submits, children of tools, kills and whatever else a client does go by the sockets.
#[test]
fn a_service_without_tcp_ports_works_by_its_sockets() {
    for setting in [CLOSED, "CONTROLLER_IP = \"\"\nLOG_DIR = \"log\"\n"] {
        let place = Place::new();
        fs::write(place.path("config.toml"), setting).unwrap();
        place.tool("child", "echo \"I am a child\" > report.log");
        place.tool("parent", &format!("{} run child > report.log; cat ../controller.info", env!("CARGO_BIN_EXE_llts")));
        place.tool("patient", "touch $PLACE/started; exec sleep 1000");
        let said = place.ok("up 2");
        let socket = place.path("state/controller.sock").canonicalize().unwrap();
        let way_in = format!("controller  ipc://{0}\npublisher   ipc://{0}.pub\n", socket.display());
        assert!(said.out.starts_with(&way_in), "{said:?}");
        assert!(!said.err.contains("root with an open TCP port"), "{said:?}");
        assert_eq!(open_ports(&place), [""; 0], "{setting}");
        for name in ["state/controller.sock", "state/controller.sock.pub"] {
            assert_eq!(mode(&place.path(name)), 0o600, "{name}");
        }
        let said = place.ok("run parent --output json");
        let task = said.json();
        assert_eq!(task["__REPORT_LOG__"], "I am a child\n", "{said:?}");
        let info = task["__STDOUT__"].as_str().unwrap();
        assert_eq!(info, format!("CONTROLLER_ADDRESS=ipc://{}\nAGENT_IP=127.0.0.1\n", socket.display()));
        // A kill is a broadcast: it does not wait for the next heartbeat.
        let id = place.ok("submit patient").line().to_owned();
        eventually("the tool runs", || place.path("started").exists());
        place.ok(&format!("kill {id}"));
        let said = place.llts(&format!("wait {id}"));
        assert_eq!(said.code, Some(143), "{said:?}");
        let by_hand = place.command("agent --name by-hand").spawn().unwrap();
        eventually("an agent by hand", || place.agents().len() == 3);
        rustix::process::kill_process(rustix::process::Pid::from_child(&by_hand), rustix::process::Signal::TERM)
            .unwrap();
        place.said(by_hand);
        place.ok("down");
        place.is_clean();
        assert!(!place.path("state/controller.sock").exists() && !place.path("state/controller.sock.pub").exists());
    }
}

#[test]
fn a_hosted_run_opens_no_port_and_its_tool_finds_it() {
    let place = Place::new();
    place.tool("child", "echo \"I am a child\" > report.log");
    let llts = env!("CARGO_BIN_EXE_llts");
    let wait = "touch $PLACE/started; until [ -e $PLACE/go ]; do sleep 0.05; done";
    place.tool("parent", &format!("{wait}; {llts} run child > report.log; echo $CONTROLLER_ADDRESS; umask"));
    let run = place.start("run parent --output json");
    eventually("the tool runs", || place.path("started").exists());
    assert_eq!(open_ports(&place), [""; 0]);
    fs::write(place.path("go"), "").unwrap();
    let said = place.said(run);
    let task = said.json();
    assert_eq!(task["__REPORT_LOG__"], "I am a child\n", "{said:?}");
    assert!(task["__STDOUT__"].as_str().unwrap().starts_with("ipc:///"), "{said:?}");
    place.is_clean();
    // A path that is too long for a socket is no reason not to run.
    let long = place.path(&"x".repeat(80));
    fs::create_dir(&long).unwrap();
    let said = place.said(place.spawn(place.command("run child").env("TMPDIR", &long)));
    assert_eq!((said.code, said.out.as_str()), (Some(0), "I am a child\n"), "{said:?}");
    assert_eq!(names(&long), [""; 0]);
}

#[test]
fn root_is_warned_of_a_port_that_every_user_reaches() {
    let place = Place::new();
    let said = place.ok("up 1");
    let warned = said.err.lines().filter(|line| line.contains("root with an open TCP port")).collect::<Vec<_>>();
    assert_eq!(warned.len(), usize::from(is_root()), "{said:?}");
    for line in warned {
        for way_out in ["CONTROLLER_REP_PORT = \"off\"", "CONTROLLER_PUB_PORT = \"off\"", "llts keys", "another user"] {
            assert!(line.contains(way_out), "{way_out}: {line}");
        }
    }
    let log = fs::read_to_string(place.path("log/controller.log")).unwrap();
    assert_eq!(log.contains("root with an open TCP port"), is_root(), "{log}");
}

#[test]
fn folders_that_others_may_write_are_refused_until_the_command_is_said() {
    let place = Place::new();
    fs::write(place.path("config.toml"), CLOSED).unwrap();
    place.tool("true", "exit 0");
    for (key, name) in [
        ("STATE_DIR", "state"),
        ("AGENT_TOOLS_DIR", "testTools"),
        ("AGENT_WORK_DIR", "work"),
        ("TOOL_SOURCES_DIR", "tools"),
    ] {
        let folder = place.path(name);
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        let said = place.llts("up 1");
        assert_eq!(said.code, Some(1), "{key}: {said:?}");
        assert!(
            said.err.contains(&format!("llts: {key} is {}, and it may be written by others", folder.display())),
            "{said:?}"
        );
        if key == "STATE_DIR" {
            let said = place.llts("controller");
            assert!(said.code == Some(1) && said.err.contains(key), "{said:?}");
        }
        if key != "TOOL_SOURCES_DIR" {
            let said = place.llts("agent");
            assert!(said.code == Some(1) && said.err.contains(key), "{said:?}");
        }
        let command = said.err.split("say `").nth(1).and_then(|rest| rest.split("`, or").next()).unwrap();
        assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
    }
    place.ok("up 1");
    place.ok("run true");
    place.ok("down");
}

/// Root can be anybody: what another user owns is used only if root was started in a folder of that user.
#[test]
fn root_uses_the_clone_of_a_user_and_no_other_folder_of_his() {
    if !is_root() {
        return;
    }
    let (place, elsewhere) = (Place::new(), tempfile::tempdir().unwrap());
    place.tool("true", "exit 0");
    let of_a_user = |path: &Path| nix::unistd::chown(path, Some(nix::unistd::Uid::from_raw(1234)), None).unwrap();
    for name in ["", "tools", "tools/true", "tools/true/run.sh", "config.toml"] {
        of_a_user(&place.path(name));
    }
    let said = place.ok("run true");
    assert!(said.err.contains("llts runs as root in a folder of user "), "{said:?}");
    place.ok("up 1");
    place.ok("run true");
    place.ok("down");
    of_a_user(elsewhere.path());
    let foreign = elsewhere.path().join("state");
    fs::create_dir(&foreign).unwrap();
    let stranger = Place::new();
    let up = stranger.spawn(stranger.command("up 1").env("LLTS_STATE_DIR", &foreign));
    let said = stranger.said(up);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains(" belongs to user "), "{said:?}");
    assert!(said.err.contains(&format!("say `chown 0 {}`", elsewhere.path().display())), "{said:?}");
}

/// What a service writes is for its user only; what its tools write is what whoever started it would write.
#[test]
fn files_of_a_service_are_private_and_those_of_its_tools_as_the_starter_has_it() {
    let place = Place::new();
    place.tool("mask", "umask > report.log; : > $PLACE/made");
    let up = place.command("up 1");
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 002; exec \"$0\" \"$@\""]).arg(up.get_program()).args(up.get_args());
    shell.current_dir(place.path("")).env_clear();
    shell.envs(std::env::vars_os().filter(|(name, _)| !name.to_string_lossy().starts_with("LLTS_")));
    shell.envs(up.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert_eq!(place.said(place.spawn(&mut shell)).code, Some(0));
    let task = place.ok("run mask --output json").json();
    assert_eq!(task["__REPORT_LOG__"].as_str().map(str::trim_end), Some("0002"), "{task}");
    assert_eq!(mode(&place.path("made")), 0o664);
    assert_eq!(mode(&place.path("testTools/mask.tar.gz")) & 0o444, 0o444, "as `llts tool pack` makes it");
    let mut private = vec!["state/service.json".to_owned(), "state/agents/agent-1.session".to_owned()];
    private.extend(["", "-wal", "-shm"].map(|end| format!("state/tasks.sqlite{end}")));
    private.extend(names(&place.path("log")).into_iter().map(|name| format!("log/{name}")));
    for name in private {
        assert_eq!(mode(&place.path(&name)), 0o600, "{name}");
    }
}

#[test]
fn a_file_that_is_no_socket_is_never_replaced_by_one() {
    let place = Place::new();
    let precious = place.path("precious.txt");
    fs::write(&precious, "precious").unwrap();
    let beside = place.path("beside");
    fs::hard_link(&precious, place.path("beside.pub")).unwrap();
    // The third one has a socket for broadcasts beside it, whose place is taken.
    for path in ["precious.txt", precious.to_str().unwrap(), beside.to_str().unwrap()] {
        let taken = if path.ends_with("beside") { format!("{path}.pub") } else { path.to_owned() };
        let mut controller = place.spawn(place.command("controller").env("LLTS_CONTROLLER_IPC_FILE", path));
        // One that starts would run for ever.
        let until = llts::shell::clock::now().mono + Duration::from_secs(30);
        while controller.try_wait().unwrap().is_none() && llts::shell::clock::now().mono < until {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        let _ = controller.kill();
        let said = place.said(controller);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.err.contains(&format!("cannot bind ipc://{taken}: the file there is no socket")), "{said:?}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    }
}

/// What lies in AGENT_TOOLS_DIR is run by agents: nobody else may write it, however carelessly the shell was set up.
#[test]
fn packed_tools_are_for_their_owner_to_write() {
    let place = Place::new();
    place.tool("packed", "true");
    let up = place.command("up 1");
    let mut shell = place.program("sh");
    shell.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(up.get_program()).args(up.get_args());
    let said = place.said(place.spawn(&mut shell));
    assert_eq!(said.code, Some(0), "its own new folder is not refused: {said:?}");
    let modes = ["testTools", "testTools/packed.tar.gz"].map(|path| mode(&place.path(path)));
    assert_eq!(modes, [0o755, 0o644]);
    place.ok("down");
}
