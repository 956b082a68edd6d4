//! Agents of a controller elsewhere, supervised like those beside it.

use std::fs;

use rustix::process::Signal;

use crate::home::user::{Start as _, User, eventually, signal};

#[test]
fn agents_alone_serve_a_controller_elsewhere_and_come_back() {
    let user = User::new();
    let [a, b] = ["a", "b"].map(|name| user.path(name).display().to_string());
    let up = user.ok("elsewhere", &format!("--home {a} up 1 --output wire")).json();
    let endpoint = up["controller"].as_str().unwrap();
    let publisher = up["publisher"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
    let mut command = user.command("elsewhere", &format!("--home {b} up --agents-only 2 --controller {endpoint}"));
    let said = command.env("LLTS_CONTROLLER_PUB_PORT", publisher).said().ok();
    assert!(said.out.starts_with(&format!("controller  {endpoint}\n")), "{said:?}");
    let agents = user.ok("a", "info --output wire").json()["agents"].clone();
    assert_eq!((agents["total"].as_u64(), agents["free"].as_u64()), (Some(3), Some(3)), "{agents}");
    let second = || {
        let is_it = |line: &str| line.contains("agent --name") && line.contains("-agent-2");
        user.processes().into_iter().find(|(_, line)| is_it(line)).map(|(pid, _)| pid)
    };
    let first = second().expect("the second agent");
    signal(first, Signal::KILL);
    eventually("it is started again", || second().is_some_and(|pid| pid != first));
    user.llts("elsewhere", &format!("--home {b} up --agents-only 1 --controller {endpoint}"))
        .failed(1, &format!("in the home {b}, the service has 2 agents already"));
    assert!(user.ok("b", "down").out.starts_with("stopped the service"));
    assert_eq!(user.ok("a", "run helloworld name=x").out, "hello, x\n");
    user.ok("a", "down");
    assert_eq!(user.processes(), []);
    assert!(!fs::exists(user.path("b/state/tasks.sqlite")).unwrap(), "it has no store");
}

/// The first address has no listener, and the name of the last one is looked up.
#[test]
fn agents_and_clients_try_several_addresses_and_names_in_turn() {
    let user = User::new();
    let [a, b] = ["a", "b"].map(|name| user.path(name).display().to_string());
    let up = user.ok("elsewhere", &format!("--home {a} up 0 --output wire")).json();
    let port = up["controller"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
    let several = format!("tcp://127.0.0.3:{port},localhost:{port}");
    let mut command = user.command("elsewhere", &format!("--home {b} up --agents-only 1 --controller {several}"));
    command.env("LLTS_CONTROLLER_PUB_PORT", "off").said().ok();
    let said = user.ok("elsewhere", &format!("--controller {several} run -- echo x"));
    assert_eq!(said.out, "x\n", "{said:?}");
    user.ok("elsewhere", &format!("context add farm {several}"));
    assert_eq!(user.ok("elsewhere", "--context farm run -- echo y").out, "y\n");
    // The same from a configuration, after another start of the controller.
    user.ok("a", "down");
    let mut command = user.command("elsewhere", &format!("--home {a} up 0"));
    command.env("LLTS_CONTROLLER_REP_PORT", &port).env("LLTS_CONTROLLER_IP", "127.0.0.3,127.0.0.1").said().ok();
    let mut command = user.command("elsewhere", &format!("--home {} run -- echo z", user.path("c").display()));
    command.env("LLTS_CONTROLLER_IP", "127.0.0.9,127.0.0.3").env("LLTS_CONTROLLER_REP_PORT", &port);
    command.env("LLTS_CONTROLLER_IPC_FILE", "").said().prints("z\n");
    user.ok("a", "down");
    user.ok("b", "down");
    assert_eq!(user.processes(), []);
}

#[test]
fn a_controller_is_named_where_one_is_meant_and_nowhere_else() {
    let user = User::new();
    let said = user.llts("elsewhere", "up 2 --controller tcp://127.0.0.1:9");
    assert!(
        said.code == Some(2) && said.err.contains("--controller tcp://127.0.0.1:9 has no meaning here"),
        "{said:?}"
    );
    assert_eq!(user.llts("elsewhere", "up 2 --agents-only 2 --controller tcp://127.0.0.1:9").code, Some(2));
    for wrong in ["tcp://localhost", "tcp://localhost:9,other:8", "tcp://a_b:9,"] {
        user.llts("elsewhere", &format!("up --agents-only 2 --controller {wrong}")).failed(2, wrong);
    }
    assert!(!user.usual().exists(), "nothing was made");
}
