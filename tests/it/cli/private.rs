//! The parts of a service that other users of the machine can reach: ports, sockets, files, folders.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use crate::cli::sandbox::{Sandbox, Start as _, eventually, names};

const CLOSED: &str = "CONTROLLER_REP_PORT = \"off\"\nCONTROLLER_PUB_PORT = \"off\"\nLOG_DIR = \"log\"\n";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The TCP ports at which processes of this place listen.
fn open_ports(sandbox: &Sandbox) -> Vec<String> {
    let mut sockets = BTreeSet::new();
    for (pid, _) in sandbox.processes() {
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
        let sandbox = Sandbox::new();
        fs::write(sandbox.path("config.toml"), setting).unwrap();
        sandbox.tool("child", "echo \"I am a child\" > report.log");
        sandbox
            .tool("parent", &format!("{} run child > report.log; cat ../controller.info", env!("CARGO_BIN_EXE_llts")));
        sandbox.tool("patient", "touch $PLACE/started; exec sleep 1000");
        let said = sandbox.ok("up 2");
        let socket = sandbox.path("state/controller.sock").canonicalize().unwrap();
        let way_in = format!("controller  ipc://{0}\npublisher   ipc://{0}.pub\n", socket.display());
        assert!(said.out.starts_with(&way_in), "{said:?}");
        assert!(!said.err.contains("root with an open TCP port"), "{said:?}");
        assert_eq!(open_ports(&sandbox), [""; 0], "{setting}");
        for name in ["state/controller.sock", "state/controller.sock.pub"] {
            assert_eq!(mode(&sandbox.path(name)), 0o600, "{name}");
        }
        let said = sandbox.ok("run parent --output wire");
        let task = said.json();
        assert_eq!(task["__REPORT_LOG__"], "I am a child\n", "{said:?}");
        let info = task["__STDOUT__"].as_str().unwrap();
        assert_eq!(info, format!("CONTROLLER_ADDRESS=ipc://{}\nAGENT_IP=127.0.0.1\n", socket.display()));
        // A kill is a broadcast: it does not wait for the next heartbeat.
        let id = sandbox.ok("submit patient").line().to_owned();
        eventually("the tool runs", || sandbox.path("started").exists());
        sandbox.ok(&format!("kill {id}"));
        sandbox.llts(&format!("wait {id}")).ended(143);
        let by_hand = sandbox.command("agent --name by-hand").start();
        eventually("an agent by hand", || sandbox.agents().len() == 3);
        rustix::process::kill_process(rustix::process::Pid::from_child(&by_hand), rustix::process::Signal::TERM)
            .unwrap();
        by_hand.said();
        sandbox.ends_clean();
        assert!(!sandbox.path("state/controller.sock").exists() && !sandbox.path("state/controller.sock.pub").exists());
    }
}

#[test]
fn a_hosted_run_opens_no_port_and_its_tool_finds_it() {
    let sandbox = Sandbox::new();
    sandbox.tool("child", "echo \"I am a child\" > report.log");
    let llts = env!("CARGO_BIN_EXE_llts");
    let wait = "touch $PLACE/started; until [ -e $PLACE/go ]; do sleep 0.05; done";
    sandbox.tool("parent", &format!("{wait}; {llts} run child > report.log; echo $CONTROLLER_ADDRESS; umask"));
    let run = sandbox.start("run --no-service parent --output wire");
    eventually("the tool runs", || sandbox.path("started").exists());
    assert_eq!(open_ports(&sandbox), [""; 0]);
    fs::write(sandbox.path("go"), "").unwrap();
    let said = run.said();
    let task = said.json();
    assert_eq!(task["__REPORT_LOG__"], "I am a child\n", "{said:?}");
    assert!(task["__STDOUT__"].as_str().unwrap().starts_with("ipc:///"), "{said:?}");
    sandbox.is_clean();
    // A path that is too long for a socket is no reason not to run.
    let long = sandbox.path(&"x".repeat(80));
    fs::create_dir(&long).unwrap();
    sandbox.command("run --no-service child").env("TMPDIR", &long).said().prints("I am a child\n");
    assert_eq!(names(&long), [""; 0]);
}

#[test]
fn root_is_warned_of_a_port_that_every_user_reaches() {
    let closed = Sandbox::new();
    assert!(!closed.ok("up 1").err.contains("root with an open TCP port"), "only its user is served");
    let sandbox = Sandbox::new();
    let said = sandbox.command("up 1").env("LLTS_LOOPBACK", "open").said().ok();
    let warned = said.err.lines().filter(|line| line.contains("root with an open TCP port")).collect::<Vec<_>>();
    assert_eq!(warned.len(), usize::from(is_root()), "{said:?}");
    for line in warned {
        for way_out in ["CONTROLLER_REP_PORT = \"off\"", "CONTROLLER_PUB_PORT = \"off\"", "llts keys", "another user"] {
            assert!(line.contains(way_out), "{way_out}: {line}");
        }
    }
    let log = fs::read_to_string(sandbox.path("log/controller.log")).unwrap();
    assert_eq!(log.contains("root with an open TCP port"), is_root(), "{log}");
}

#[test]
fn folders_that_others_may_write_are_refused_until_the_command_is_said() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("config.toml"), CLOSED).unwrap();
    sandbox.tool("true", "exit 0");
    for (key, name) in [
        ("STATE_DIR", "state"),
        ("LOG_DIR", "log"),
        ("AGENT_TOOLS_DIR", "testTools"),
        ("AGENT_WORK_DIR", "work"),
        ("TOOL_SOURCES_DIR", "tools"),
    ] {
        let folder = sandbox.path(name);
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        let files = || fs::read_dir(&folder).unwrap().count();
        let before = files();
        let said = sandbox.llts("up 1");
        assert_eq!(said.code, Some(1), "{key}: {said:?}");
        assert!(
            said.err.contains(&format!("llts: {key} is {}, and it is writable by others", folder.display())),
            "{said:?}"
        );
        if ["STATE_DIR", "LOG_DIR"].contains(&key) {
            sandbox.llts("controller").failed(1, key);
        }
        if key != "TOOL_SOURCES_DIR" {
            sandbox.llts("agent").failed(1, key);
        }
        assert_eq!(files(), before, "{key}: a file was made in a folder that is refused");
        let command = said.err.split("run `").nth(1).and_then(|rest| rest.split("`, or").next()).unwrap();
        assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
    }
    sandbox.ok("up 1");
    sandbox.ok("run true");
    sandbox.ok("down");
}

/// Root can act as any user: a folder of another user is used only if root was started in a folder of that user.
#[test]
fn root_uses_the_clone_of_a_user_and_no_other_folder_of_his() {
    if !is_root() {
        return;
    }
    let (sandbox, elsewhere) = (Sandbox::new(), tempfile::tempdir().unwrap());
    sandbox.tool("true", "exit 0");
    let of_a_user = |path: &Path| nix::unistd::chown(path, Some(nix::unistd::Uid::from_raw(1234)), None).unwrap();
    for name in ["", "tools", "tools/true", "tools/true/run.sh", "config.toml"] {
        of_a_user(&sandbox.path(name));
    }
    let said = sandbox.ok("run true");
    assert!(said.err.contains("llts runs as root in a folder of user "), "{said:?}");
    sandbox.ok("up 1");
    sandbox.ok("run true");
    sandbox.ok("down");
    of_a_user(elsewhere.path());
    let foreign = elsewhere.path().join("state");
    fs::create_dir(&foreign).unwrap();
    let stranger = Sandbox::new();
    let said = stranger.command("up 1").env("LLTS_STATE_DIR", &foreign).said();
    said.failed(1, " belongs to user ");
    assert!(said.err.contains(&format!("run `chown 0 {}`", elsewhere.path().display())), "{said:?}");
}

/// The files that a service writes are for its user only; its tools write with the umask of the starter of the service.
#[test]
fn files_of_a_service_are_private_and_those_of_its_tools_as_the_starter_has_it() {
    let sandbox = Sandbox::new();
    sandbox.tool("mask", "umask > report.log; : > $PLACE/made");
    sandbox.command("up 1").under(&["sh", "-c", "umask 002; exec \"$0\" \"$@\""]).said().ok();
    let task = sandbox.ok("run mask --output wire").json();
    assert_eq!(task["__REPORT_LOG__"].as_str().map(str::trim_end), Some("0002"), "{task}");
    assert_eq!(mode(&sandbox.path("made")), 0o664);
    assert_eq!(mode(&sandbox.path("testTools/mask.tar.gz")) & 0o444, 0o444, "as `llts tool pack` makes it");
    let mut private = vec!["state/service.json".to_owned(), "state/agents/agent-1.session".to_owned()];
    private.extend(["", "-wal", "-shm"].map(|end| format!("state/tasks.sqlite{end}")));
    private.extend(names(&sandbox.path("log")).into_iter().map(|name| format!("log/{name}")));
    for name in private {
        assert_eq!(mode(&sandbox.path(&name)), 0o600, "{name}");
    }
}

#[test]
fn a_file_that_is_no_socket_is_never_replaced_by_one() {
    let sandbox = Sandbox::new();
    let precious = sandbox.path("precious.txt");
    fs::write(&precious, "precious").unwrap();
    let beside = sandbox.path("beside");
    fs::hard_link(&precious, sandbox.path("beside.pub")).unwrap();
    // The third one has a socket for broadcasts beside it, whose place is taken.
    for path in ["precious.txt", precious.to_str().unwrap(), beside.to_str().unwrap()] {
        let taken = if path.ends_with("beside") { format!("{path}.pub") } else { path.to_owned() };
        let said = sandbox.command("controller").env("LLTS_CONTROLLER_IPC_FILE", path).said();
        said.failed(1, &format!("cannot bind ipc://{taken}: the file there is not a socket"));
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    }
}

/// The content of AGENT_TOOLS_DIR is run by agents: no other user may write it, however permissive the umask is.
#[test]
fn packed_tools_are_for_their_owner_to_write() {
    let sandbox = Sandbox::new();
    sandbox.tool("packed", "true");
    let said = sandbox.command("up 1").under(&["sh", "-c", "umask 000; exec \"$0\" \"$@\""]).said();
    assert_eq!(said.code, Some(0), "its own new folder is not refused: {said:?}");
    let modes = ["testTools", "testTools/packed.tar.gz"].map(|path| mode(&sandbox.path(path)));
    assert_eq!(modes, [0o755, 0o644]);
    sandbox.ok("down");
}
