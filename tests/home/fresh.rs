//! A fresh home, and the same service from every folder.

use std::fs;

use crate::user::{User, names};

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

    let said = user.llts("elsewhere", "up 1");
    assert_eq!(said.code, Some(1));
    let expected = format!("a service already runs in the home {} (process {pid})", home.display());
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

#[test]
fn a_hosted_run_in_a_fresh_home_has_the_sample() {
    let user = User::new();
    let said = user.ok("elsewhere", "run helloworld name=x");
    assert_eq!(said.out, "hello, x\n");
    assert!(said.err.contains("it has the tool helloworld"), "{said:?}");
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
    let mut by_variable = user.command("elsewhere", "info --output wire");
    let info = User::said(by_variable.env("LLTS_HOME", user.path("a")).spawn().unwrap()).json();
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
    assert_eq!(said.out.lines().count(), 4, "{said:?}");
    assert_eq!(names(&into), ["checksums", "helloworld", "pi", "sleeper"]);
    for name in names(&into) {
        user.ok("elsewhere", &format!("tool check samples/{name}"));
    }
    fs::write(into.join("pi/run.sh"), "mine").unwrap();
    assert!(user.ok("elsewhere", "tool samples --into samples").out.contains("samples/pi (kept as it is)"));
    assert_eq!(fs::read_to_string(into.join("pi/run.sh")).unwrap(), "mine");
}
