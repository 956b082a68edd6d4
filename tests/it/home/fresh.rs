//! A fresh home, and the same service from every folder.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::Signal;

use crate::home::user::{Program, Start as _, User, eventually, names};

/// What an installed binary does in an empty home folder.
#[test]
fn an_installed_binary_runs_its_sample_from_every_folder_and_leaves_nothing_elsewhere() {
    let user = User::new();
    let home = user.usual();
    let said = user.ok("home", "up 2");
    assert!(said.err.contains(&format!("{} is the home of your service", home.display())), "{said:?}");
    assert_eq!(user.ok("elsewhere/below", "run helloworld name=x").out, "hello, x\n");
    assert_eq!(user.ok("elsewhere", "list --output wire").json()["total"].as_u64(), Some(1));
    let info = user.ok("elsewhere/below", "info --output wire").json();
    assert_eq!((info["running"].as_bool(), info["agents"]["total"].as_u64()), (Some(true), Some(2)), "{info}");
    assert_eq!(info["home"], home.to_str().unwrap());
    assert_eq!(info["controller"], format!("ipc://{}/state/controller.sock", home.display()));
    assert_eq!(info["tools"], serde_json::json!(["helloworld"]));
    assert!(info["uptime_seconds"].as_f64().is_some_and(|time| (0.0..600.0).contains(&time)), "{info}");
    let pid = info["pid"].as_u64().unwrap();
    let shown = user.ok("elsewhere", "info").out;
    assert!(shown.starts_with(&format!("service     running, process {pid}, up ")), "{shown}");
    // The service is of another version than this program.
    let file = home.join("state/service.json");
    let text = fs::read_to_string(&file).unwrap();
    let ours = format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&ours) && !shown.contains("this llts"), "{text} {shown}");
    fs::write(&file, text.replace(&ours, "\"version\": \"0.0.9\"")).unwrap();
    let shown = user.ok("elsewhere", "info").out;
    let expected = format!("\nversion     0.0.9 (this llts is version {};", env!("CARGO_PKG_VERSION"));
    assert!(shown.contains(&expected), "{shown}");
    fs::write(&file, text).unwrap();

    let said = user.llts("elsewhere", "up 1").ended(1);
    let expected = format!(
        "in the home {}, the service has 2 agents already (process {pid}); `llts up --remove 1` ends 1 of them",
        home.display()
    );
    assert!(said.err.contains(&expected), "{said:?}");

    assert_eq!(user.ok("elsewhere/below", "store check").code, Some(0));
    assert_eq!(user.ok("elsewhere/below", "down").out, format!("stopped the service (process {pid})\n"));
    assert_eq!(user.processes(), []);
    let info = user.ok("elsewhere", "info --output wire").json();
    assert_eq!((info["running"].as_bool(), &info["controller"]), (Some(false), &serde_json::Value::Null), "{info}");
    assert_eq!(names(&user.path("home")), [".local"]);
    assert_eq!(names(&user.path("home/.local/state")), ["llts"]);
    for folder in ["tmp", "elsewhere/below"] {
        assert_eq!(names(&user.path(folder)), [""; 0], "{folder}");
    }
}

/// What a manager of services starts: the home is an empty folder, and the log has words for people only.
#[test]
fn a_service_of_a_manager_makes_its_home_and_tells_the_manager_alone() {
    let user = User::new();
    let manager = UnixDatagram::bind(user.path("manager")).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut service = user.command("elsewhere", "supervise --agents 1");
    let service = service.env("NOTIFY_SOCKET", user.path("manager")).start();
    let mut bytes = [0; 4096];
    let mut told = String::new();
    while !told.contains("READY=1") {
        let length = manager.recv(&mut bytes).unwrap();
        told += &String::from_utf8_lossy(&bytes[..length]);
    }
    assert_eq!(user.ok("elsewhere", "run helloworld name=x").out, "hello, x\n");
    service.signal(Signal::TERM);
    service.said().prints("");
}

/// The first command of a user: what it has done is there afterwards, and the service ends by itself.
#[test]
fn a_first_run_starts_a_service_that_stays_and_up_keeps_it() {
    let user = User::new();
    let said = user.ok("elsewhere", "run helloworld name=x");
    assert_eq!(said.out, "hello, x\n");
    let told = said.err.trim_end();
    assert!(told.starts_with("llts: started the service of this user, in ") && told.lines().count() == 1, "{told}");
    assert!(told.ends_with("; it ends after 10 min without tasks (`llts up` keeps it)"), "{told}");
    assert_eq!(user.ok("elsewhere", "run -- echo again").err, "", "it runs already");
    assert_eq!(user.ok("elsewhere", "logs last").out, "again\n");
    let before = user.ok("elsewhere", "info --output json").json();
    assert_eq!(before["idle_stop_seconds"].as_f64(), Some(600.0), "{before}");
    let kept = user.ok("elsewhere", "up 1");
    assert!(kept.err.contains("the service stays from now on"), "{kept:?}");
    let info = user.ok("elsewhere", "info --output json").json();
    assert_eq!((&info["pid"], info["idle_stop_seconds"].as_f64()), (&before["pid"], None), "{info}");
    let agents = || user.ok("elsewhere", "agents --output json").json()["total"].as_u64();
    user.ok("elsewhere", "up --add 2");
    assert_eq!(agents(), Some(3));
    user.ok("elsewhere", "restart --wait");
    eventually("three agents, also after a restart", || agents() == Some(3));
    user.ok("elsewhere", "up --remove 2");
    eventually("two agents end", || agents() == Some(1));
    user.ok("elsewhere", "down --now");
    // It waits for the end of the supervisor, and ends after it.
    let is_standby = |(_, line): &(i32, String)| line.contains(" --standby ");
    eventually("the standby of the restart ends", || !user.processes().iter().any(is_standby));
    assert_eq!(user.processes(), []);
}

/// Several commands at once start one service, and one of them says so.
#[test]
fn commands_at_the_same_moment_start_one_service() {
    let user = User::new();
    let runs: Vec<_> = (0..3).map(|_| user.command("elsewhere", "run -- echo x").start()).collect();
    let said: Vec<_> = runs.into_iter().map(Program::said).collect();
    assert!(said.iter().all(|said| said.code == Some(0) && said.out == "x\n"), "{said:?}");
    assert_eq!(said.iter().filter(|said| said.err.contains("started the service")).count(), 1, "{said:?}");
}

/// A service without work ends by itself; a client that is connected, and a task that waits, are work.
#[test]
fn a_service_without_work_ends_and_loses_nothing() {
    let user = User::new();
    let home = user.usual();
    let run = |line: &str| user.command("elsewhere", line).env("LLTS_IDLE_STOP", "3000").said();
    for round in 0..2 {
        let said = run("run -- echo x");
        assert!(said.code == Some(0) && said.out == "x\n", "{round}: {said:?}");
        eventually("it ends", || user.processes().is_empty());
        assert!(!home.join("state/service.json").exists());
    }
    let later = run("run --start-after +4.5 -- echo later");
    assert!(later.code == Some(0) && later.out == "later\n", "{later:?}");
    eventually("it ends", || user.processes().is_empty());
    assert_eq!(user.ok("elsewhere", "up 1").code, Some(0));
    let listed = user.ok("elsewhere", "list --output json").json();
    assert_eq!(listed["total"].as_u64(), Some(3), "the tasks are still known: {listed}");
}

/// Another home, or any other program, has a port of the document.
#[test]
fn a_service_takes_free_ports_where_the_usual_ones_are_in_use_and_keeps_them() {
    let user = User::new();
    // If it is in use already, that is as good.
    let _taken = std::net::TcpListener::bind("127.0.0.1:15555");
    let with_usual_ports = |line: &str| {
        let mut command = user.command("elsewhere", line);
        command.env_remove("LLTS_CONTROLLER_REP_PORT").env_remove("LLTS_CONTROLLER_PUB_PORT");
        command.said()
    };
    let said = with_usual_ports("up 1");
    said.failed(0, "the port 15555 or 15556 is in use");
    assert!(!said.err.contains("down` stops it"), "no advice that would stop another service: {said:?}");
    let ports = || {
        let info: serde_json::Value = serde_json::from_str(&with_usual_ports("info --output json").out).expect("JSON");
        (info["tcp"].clone(), info["publisher"].clone())
    };
    let before = ports();
    assert!(before.0.as_str().is_some_and(|address| !address.ends_with(":15555")), "{before:?}");
    assert_eq!(with_usual_ports("run --sh llts_is_not_needed=1").code, Some(0));
    assert_eq!(with_usual_ports("restart --wait").code, Some(0));
    assert_eq!(ports(), before);
}

#[test]
fn a_damaged_configuration_keeps_no_one_from_looking_and_stopping() {
    let user = User::new();
    user.ok("elsewhere", "up 1");
    fs::write(user.usual().join("config.toml"), "LOG_LEVEL = info\n").unwrap();
    for line in [
        "info",
        "list",
        "stats",
        "agents",
        "incidents",
        "jobs",
        "pause --service",
        "resume --service",
        "gate",
        "graph list",
        "tool list",
    ] {
        let said = user.ok("elsewhere", line);
        assert!(said.err.contains("config.toml:1: LOG_LEVEL = info: a text needs quotes"), "{line}: {said:?}");
    }
    for line in ["restart", "run -- true", "config"] {
        assert_eq!(user.llts("elsewhere", line).code, Some(2), "{line}");
    }
    user.ok("elsewhere", "down --now");
    assert_eq!(user.processes(), []);
}

#[test]
fn a_hosted_run_in_a_fresh_home_makes_none() {
    let user = User::new();
    let said = user.ok("elsewhere", "run --no-service -- echo x");
    assert_eq!(said.out, "x\n");
    assert!(said.err.contains("no service runs here: "), "{said:?}");
    assert_eq!(names(&user.path("home")), [""; 0]);
    assert_eq!(user.all_below("tmp"), [""; 0].map(std::path::PathBuf::from));
    assert_eq!(user.processes(), []);
}

/// A clone is a home: its mark counts from every folder below it.
#[test]
fn a_marked_folder_is_the_home_of_all_below_it() {
    let user = User::new();
    fs::create_dir_all(user.path("a/x/y")).unwrap();
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/.llts-home"), user.path("a/.llts-home")).unwrap();
    fs::write(user.path("a/config.toml"), "AGENT_TOOLS_DIR = \"packed\"\nLOG_DIR = \"log\"\n").unwrap();
    fs::create_dir(user.path("a/log")).unwrap();
    user.ok("a/x", "tool new mine");
    user.ok("a/x/y", "up 1");
    let said = user.ok("a/x", "tool pack mine");
    assert_eq!(said.out, format!("{}\n", user.path("a/packed/mine.tar.gz").display()));
    assert_eq!(user.ok("a", "run mine name=y").out, "hello, y\n");
    assert_eq!(names(&user.path("a/x")), ["mine", "y"]);
    assert!(names(&user.path("a/log")).contains(&"controller.log".to_owned()));
    let said = user.ok("elsewhere", &format!("--home {} list --output wire", user.path("a").display()));
    assert_eq!(said.json()["total"].as_u64(), Some(1));
    let info = user.command("elsewhere", "info --output wire").env("LLTS_HOME", user.path("a")).said().json();
    assert_eq!((info["running"].as_bool(), &info["home_is"]), (Some(true), &"named by LLTS_HOME".into()), "{info}");
    assert!(!user.usual().exists(), "the home of the user is not touched");
    user.ok("a/x", "down");
}

#[test]
fn two_homes_are_two_services() {
    let user = User::new();
    let (a, b) = (user.path("a"), user.path("b"));
    for home in [&a, &b] {
        user.ok("elsewhere", &format!("--home {} up 1", home.display()));
    }
    user.ok("elsewhere", &format!("run --home {} helloworld", a.display()));
    let total = |home: &str| user.ok(home, "list --output wire").json()["total"].as_u64();
    assert_eq!((total("a"), total("b")), (Some(1), Some(0)));
    user.ok("a", "down");
    assert_eq!(total("b"), Some(0), "the other one goes on");
    user.ok("b", "down");
}

/// Every command line that was good in a folder with a configuration of its own is good there still.
#[test]
fn a_configuration_in_the_current_folder_makes_it_the_home() {
    let user = User::new();
    fs::create_dir(user.path("a")).unwrap();
    fs::write(user.path("a/config.toml"), "STATE_DIR = \"here\"\n").unwrap();
    user.ok("a", "up 1");
    assert!(user.path("a/here/controller.sock").exists());
    user.ok("a", "down");
    // Also below another home: the manual makes such a folder in the clone.
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/.llts-home"), user.path(".llts-home")).unwrap();
    let home = |folder: &str| user.ok(folder, "info --output wire").json()["home"].as_str().unwrap().to_owned();
    assert_eq!(
        [home("a"), home("elsewhere/below")],
        [user.path("a"), user.path(".")].map(|path| path
            .components()
            .collect::<std::path::PathBuf>()
            .display()
            .to_string())
    );
    fs::remove_file(user.path(".llts-home")).unwrap();
    fs::write(user.path("elsewhere/other.toml"), "STATE_DIR = \"there\"\n").unwrap();
    let info = user.ok("elsewhere/below", "info --config ../other.toml --output wire").json();
    assert_eq!(info["state_dir"], user.path("elsewhere/there").to_str().unwrap(), "{info}");
    // A site generator calls its file so, too.
    fs::write(user.path("elsewhere/config.toml"), "title = \"a site\"\n").unwrap();
    let info = user.ok("elsewhere", "info --output wire").json();
    assert_eq!(info["home"], user.usual().to_str().unwrap());
}

#[test]
fn all_samples_are_built_in() {
    let user = User::new();
    let into = user.path("elsewhere/samples");
    let said = user.ok("elsewhere", "tool samples --into samples");
    assert_eq!(said.out.lines().count(), 6, "{said:?}");
    assert_eq!(names(&into), ["checksums", "count", "helloworld", "pi", "primes", "sleeper"]);
    for name in names(&into) {
        user.ok("elsewhere", &format!("tool check samples/{name}"));
    }
    fs::write(into.join("pi/run.sh"), "mine").unwrap();
    assert!(user.ok("elsewhere", "tool samples --into samples").out.contains("samples/pi (kept as it is)"));
    assert_eq!(fs::read_to_string(into.join("pi/run.sh")).unwrap(), "mine");
}
