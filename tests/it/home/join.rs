//! `llts keys invite` and `llts join`: a key is let in once, by a token that says who is who.

use std::fs;
use std::process::Command;

use crate::home::user::{Program, Said, Start as _, User, eventually, names};

/// A controller with keys in the home `a`, and a token of it.
struct Farm {
    user: User,
    desk: Program,
    address: String,
    token: String,
}

impl Farm {
    /// Lets the machine in that comes with the token.
    fn new(valid: &str) -> Self {
        Self::with(&format!("--yes --valid {valid}"))
    }

    fn with(options: &str) -> Self {
        let user = User::new();
        user.ok("elsewhere", "init ../a --listen 0.0.0.0");
        user.ok("a", "up 1");
        let (desk, address, token) = invite(&user, options);
        Self { user, desk, address, token }
    }

    fn join(&self, home: &str, token: &str) -> Said {
        self.joining(home, token).said()
    }

    fn joining(&self, home: &str, token: &str) -> Program {
        let home = self.user.path(home);
        let mut command = self.user.command("elsewhere", &format!("--home {} join {}", home.display(), self.address));
        command.arg(format!("--token={token}")).args(["--name", "lab-7"]).start()
    }

    /// Invites once more.
    fn invite_again(&mut self, options: &str) {
        (self.desk, self.address, self.token) = invite(&self.user, options);
    }

    /// The keys that wait, as (name, key).
    fn waiting(&self) -> Vec<(String, String)> {
        let all = self.user.ok("a", "keys list --output wire").json();
        let rows = all.as_array().expect("rows").iter().filter(|row| row["waits"] == true);
        let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
        rows.map(|row| (text(&row["name"]), text(&row["key"]))).collect()
    }

    fn authorised(&self) -> Vec<String> {
        let names = names(&self.user.path("a/keys/authorised"));
        names.into_iter().filter(|name| !name.starts_with('.')).collect()
    }
}

fn invite(user: &User, options: &str) -> (Program, String, String) {
    told(user.command("a", &invitation(options)))
}

fn invitation(options: &str) -> String {
    format!("keys invite --listen 127.0.0.1 {options} --output wire")
}

/// An invitation that waits, its address and its token.
fn told(mut invite: Command) -> (Program, String, String) {
    let mut desk = invite.start();
    let said = desk.next_line();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    let text = |name: &str| said[name].as_str().expect("a text").to_owned();
    (desk, text("address"), text("token"))
}

/// `llts` in the home `b` as a user has it, whose configuration says the ports.
fn in_b(user: &User, line: &str) -> Said {
    command_in_b(user, line).said()
}

/// The same, where the controller has gone for good and is not waited for.
fn alone_in_b(user: &User, line: &str) -> Said {
    command_in_b(user, line).env("LLTS_ZMQ_RECV_TIMEOUT", "300").said()
}

fn command_in_b(user: &User, line: &str) -> Command {
    let mut command = user.command("b", line);
    command.env_remove("LLTS_CONTROLLER_REP_PORT").env_remove("LLTS_CONTROLLER_PUB_PORT");
    command
}

#[test]
fn a_machine_joins_once_and_its_agents_serve() {
    let mut farm = Farm::new("10m");
    let said = farm.join("b", &farm.token).ok();
    assert!(said.out.contains("up --agents-only N"), "{said:?}");
    assert_eq!(farm.authorised(), ["lab-7", "this-machine"]);
    let read = |path: &str| fs::read_to_string(farm.user.path(path)).unwrap();
    assert_eq!(read("a/keys/authorised/lab-7"), read("b/keys/own.key.pub"));
    assert_eq!(read("b/keys/server.key.pub"), read("a/keys/server.key.pub"));
    // Its secret key is not that of the token, which others have seen.
    assert!(!farm.token.contains(read("b/keys/own.key").trim_end()));
    eventually("the invitation has ended", || !farm.desk.is_running());
    let again = farm.join("c", &farm.token);
    assert!(
        again.code == Some(3) && again.err.contains("nothing listens at") && again.err.contains("was used"),
        "{again:?}"
    );
    assert!(!farm.user.path("c").exists(), "nothing was made");
    let said = in_b(&farm.user, "up --agents-only 2").ok();
    assert!(!said.err.contains("open TCP port"), "agents open none: {said:?}");
    let info = in_b(&farm.user, "list --output wire");
    assert_eq!(info.json()["total"].as_u64(), Some(0), "{info:?}");
    let agents = farm.user.ok("a", "agents --output wire").json();
    assert_eq!(agents["total"].as_u64(), Some(3), "{agents}");
    assert_eq!(in_b(&farm.user, "down").code, Some(0));
    // The home of the agents has a configuration: it belongs to this controller.
    farm.join("b", &farm.token).failed(1, "config.toml is there already");
    farm.desk.said().ok();
    farm.user.ok("a", "down");
    // It says whose it is wherever it cannot serve.
    let info = in_b(&farm.user, "info").out;
    assert!(info.contains("this home belongs to the controller at tcp://127.0.0.1:"), "{info}");
    for line in ["up 2", "store check"] {
        in_b(&farm.user, line).failed(2, "belongs to the controller at tcp://127.0.0.1:");
    }
    alone_in_b(&farm.user, "list").failed(3, "this home belongs to that controller");
    let said = alone_in_b(&farm.user, "run -- true");
    assert!(
        said.code == Some(3) && !said.err.contains("started the service"),
        "another service is not meant: {said:?}"
    );
    for log in ["controller.log", "supervisor.log"] {
        assert!(!read(&format!("a/log/{log}")).contains(&farm.token[40..]), "{log} has the token");
    }
}

#[test]
fn a_machine_that_joins_knows_every_controller_that_may_lead() {
    let mut farm = Farm::new("10m");
    let mut invite = farm.user.command("a", &invitation("--yes"));
    invite.env("LLTS_CONTROLLER_IP", "127.0.0.1,lab-b.example");
    (farm.desk, farm.address, farm.token) = told(invite);
    farm.join("b", &farm.token).ok();
    let config = fs::read_to_string(farm.user.path("b/config.toml")).unwrap();
    assert!(config.contains("CONTROLLER_IP = [\"127.0.0.1\", \"lab-b.example\"]\n"), "{config}");
    assert_eq!(in_b(&farm.user, "list").code, Some(0));
    farm.user.ok("a", "down");
}

/// A wrong token uses up nothing: the right one is good after it.
#[test]
fn a_wrong_token_is_refused_and_lets_nothing_in() {
    let farm = Farm::new("10m");
    let (mut other, _, others) = invite(&farm.user, "--yes --valid 10m");
    let home = farm.user.path("c").display().to_string();
    farm.user.ok("elsewhere", &format!("keys new {home}.key"));
    let key = fs::read_to_string(farm.user.path("c.key.pub")).unwrap();
    // The secret of another invitation; and another controller with the right secret, as somebody in the middle is.
    let wrong = [others, format!("{}{}", key.trim_end(), &farm.token[40..])];
    for token in &wrong {
        let said = farm.join("b", token);
        said.failed(4, "does not take this token");
        assert!(!said.err.contains(&token[40..]), "the secret is shown: {said:?}");
        assert!(!farm.user.path("b").exists(), "it is no home");
    }
    for token in ["", "short", &farm.token[1..], &"\"".repeat(80)] {
        let said = farm.join("b", token);
        assert!(said.code == Some(2) && said.err.contains("no token of `llts keys invite`"), "{token:?}: {said:?}");
    }
    // The token opens the desk and not the controller.
    let secret = farm.user.path("c.secret");
    fs::write(&secret, &farm.token[40..]).unwrap();
    fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let service = farm.user.ok("a", "info --output wire").json();
    let port = service["tcp"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
    let keys =
        format!("--server-key {} --secret-key {}", farm.user.path("a/keys/server.key.pub").display(), secret.display());
    farm.user.ok("elsewhere", &format!("context add stolen tcp://127.0.0.1:{port} {keys}"));
    assert_eq!(farm.user.llts("elsewhere", "stats --context stolen").code, Some(4));
    assert_eq!(farm.authorised(), ["this-machine"]);
    assert_eq!(farm.join("b", &farm.token).code, Some(0));
    assert_eq!(farm.authorised(), ["lab-7", "this-machine"]);
    other.kill();
    farm.desk.said();
}

#[test]
fn a_key_waits_until_it_is_accepted_or_refused() {
    let mut farm = Farm::with("--valid 10m");
    let joining = farm.joining("b", &farm.token);
    eventually("it waits", || farm.waiting().len() == 1);
    let (name, key) = farm.waiting().remove(0);
    assert_eq!((name.as_str(), farm.authorised()), ("lab-7", vec!["this-machine".to_owned()]));
    farm.user.llts("a", "keys accept lab-8").failed(1, "no machine called lab-8 waits");
    farm.user.ok("a", "keys refuse lab-7");
    let refused = joining.said();
    refused.failed(4, "does not let this machine in");
    assert!(refused.err.contains(&key), "a person can compare the keys: {refused:?}");
    assert_eq!(farm.authorised(), ["this-machine"]);

    farm.invite_again("--valid 10m");
    let mut leaving = farm.joining("c", &farm.token);
    eventually("it waits", || farm.waiting().len() == 1);
    leaving.kill();
    eventually("it has left", || farm.waiting().is_empty());
    assert_eq!(farm.user.llts("a", "keys accept lab-7").code, Some(1));

    farm.invite_again("--valid 10m");
    let joining = farm.joining("b", &farm.token);
    eventually("it waits", || farm.waiting().len() == 1);
    let said = farm.user.ok("a", "keys accept lab-7");
    assert!(said.out.contains("is let in"), "{said:?}");
    let joined = joining.said();
    assert!(joined.code == Some(0) && joined.out.contains("has joined"), "{joined:?}");
    assert_eq!((farm.waiting(), farm.authorised()), (Vec::new(), vec!["lab-7".to_owned(), "this-machine".to_owned()]));
    assert_eq!(in_b(&farm.user, "list").code, Some(0));
}

#[test]
fn an_invitation_ends() {
    let farm = Farm::new("0.2");
    let (address, token) = (farm.address.clone(), farm.token.clone());
    farm.desk.said().failed(124, "no machine has come");
    farm.user
        .llts("elsewhere", &format!("--home {} join {address} --token={token}", farm.user.path("b").display()))
        .failed(3, "or has expired");
}

#[test]
fn only_a_controller_with_keys_invites() {
    let user = User::new();
    user.llts("elsewhere", "keys invite --yes").failed(2, "no keys of a controller");
    user.ok("elsewhere", "init ../a --listen 0.0.0.0");
    user.llts("a", "keys invite --yes --listen 127.0.0.1").failed(1, "has no TCP port yet");
    assert_eq!(user.llts("a", "keys invite --yes --valid 2d").code, Some(2));
}

/// The sentence about a home without keys leads to one with keys: by the command that it names, and by hand.
#[test]
fn a_home_without_keys_gets_them_as_it_is_told() {
    let user = User::new();
    user.ok("elsewhere", "init ../a --listen 127.0.0.1");
    assert!(user.path("a/keys/server.key").exists());
    user.ok("elsewhere", "init ../b");
    let said = user.llts("b", "keys invite --yes");
    said.failed(2, "llts keys new keys/server.key keys/own.key");
    fs::create_dir_all(user.path("b/keys/authorised")).expect("a folder");
    user.ok("b", "keys new keys/server.key keys/own.key");
    fs::copy(user.path("b/keys/own.key.pub"), user.path("b/keys/authorised/this-machine")).expect("copied");
    let config = user.path("b/config.toml");
    let lines = fs::read_to_string(user.path("a/config.toml")).expect("text");
    for line in lines.lines().filter(|line| line.starts_with("CURVE_")) {
        assert!(said.err.contains(line), "{line}: {said:?}");
    }
    fs::write(&config, lines).expect("written");
    user.ok("b", "up 1");
    assert_eq!(user.ok("b", "run helloworld name=x").out, "hello, x\n");
    user.llts("b", "keys invite --valid 1ms").failed(124, "no machine has come");
    user.ok("b", "down");
}

/// What a key is good for is said on both sides, and can be changed later.
#[test]
fn an_invitation_says_whether_commands_are_taken() {
    let mut farm = Farm::with("--yes --valid 10m");
    let joined = farm.join("b", &farm.token);
    assert!(joined.code == Some(0) && joined.out.contains("keys accept lab-7 --may commands"), "{joined:?}");
    let rights = |user: &User| {
        let all = user.ok("a", "keys list --output wire").json();
        all.as_array().unwrap().iter().map(|row| row["may_command"].as_bool().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(rights(&farm.user), [false, false]);
    let (second, address, token) = invite(&farm.user, "--may commands --valid 10m");
    assert_eq!(std::mem::replace(&mut farm.desk, second).said().code, Some(0));
    for (options, sentence) in [
        ("", "not send commands or push tools, which --may commands allows"),
        ("--may commands", "it may send commands"),
    ] {
        farm.user.llts("a", &format!("keys invite --listen 127.0.0.1 --valid 0.1 {options}")).failed(124, sentence);
    }
    let said = farm.user.ok("a", "keys accept lab-7 --may commands");
    assert!(said.out.contains("may send commands and push tools"), "{said:?}");
    fs::remove_dir_all(farm.user.path("b")).unwrap();
    fs::rename(farm.user.path("a/keys/authorised/lab-7"), farm.user.path("a/keys/authorised/lab-6")).unwrap();

    (farm.address, farm.token) = (address, token);
    let joining = farm.joining("b", &farm.token);
    eventually("it waits", || farm.waiting().len() == 1);
    let accepted = farm.user.ok("a", "keys accept lab-7 --output json").json();
    assert_eq!((&accepted["keys"][0]["name"], &accepted["keys"][0]["let_in"]), (&"lab-7".into(), &true.into()));
    let joined = joining.said();
    assert!(joined.out.contains("takes commands and pushes of tools from this machine"), "{joined:?}");
    assert_eq!(rights(&farm.user), [true, true, false], "lab-6, lab-7, this-machine");
    assert_eq!(farm.desk.said().code, Some(0));
    let file = fs::read_to_string(farm.user.path("a/keys/authorised/lab-7")).unwrap();
    assert!(file.ends_with("\nmay commands\n"), "{file}");
}

/// The name of a machine that waits is not another one's.
#[test]
fn a_second_machine_of_the_same_name_does_not_throw_the_first_one_out() {
    let mut farm = Farm::with("--valid 10m");
    let first = farm.joining("b", &farm.token);
    eventually("it waits", || farm.waiting().len() == 1);
    let waiting = farm.waiting();
    let (desk, address, token) = invite(&farm.user, "--valid 10m");
    let first_desk = std::mem::replace(&mut farm.desk, desk);
    (farm.address, farm.token) = (address, token);
    farm.join("c", &farm.token).failed(4, "waits under the name lab-7");
    assert_eq!(farm.waiting(), waiting, "the first one waits on");
    assert_eq!(farm.desk.said().code, Some(1));
    farm.user.ok("a", "keys accept lab-7");
    assert_eq!(first.said().code, Some(0));
    assert_eq!(first_desk.said().code, Some(0));
}

/// The loser of a race for a token is told, and so is the user who invites.
#[test]
fn a_token_that_another_machine_has_used_is_told_to_both_sides() {
    let farm = Farm::with("--valid 10m");
    let first = farm.joining("b", &farm.token);
    eventually("it waits", || farm.waiting().len() == 1);
    farm.join("c", &farm.token).failed(4, "another machine has used this token before, lab-7");
    farm.user.ok("a", "keys accept lab-7");
    assert_eq!(first.said().code, Some(0));
    let desk = farm.desk.said();
    assert!(desk.err.contains("another machine came with the same token and was refused"), "{desk:?}");
}

/// An invitation that is killed answers nothing; its machine does not wait for a day.
#[test]
fn a_machine_whose_invitation_is_gone_does_not_wait() {
    let mut farm = Farm::with("--valid 10m");
    let joining = farm.joining("b", &farm.token);
    eventually("it waits", || farm.waiting().len() == 1);
    let killed = farm.waiting();
    farm.desk.kill();
    joining.said().failed(4, "ended the connection without an answer");
    farm.invite_again("--valid 10m");
    let again = farm.joining("b", &farm.token);
    // One look: between two of them, the one is gone and the other not there yet.
    let is_another = |waiting: &[(String, String)]| waiting.len() == 1 && waiting != killed;
    eventually("it waits in the place of the killed one", || is_another(&farm.waiting()));
    farm.user.ok("a", "keys accept lab-7");
    assert_eq!(again.said().code, Some(0));
    farm.desk.said();
}
