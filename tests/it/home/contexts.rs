//! `llts context`, and which controller is meant.

use crate::home::user::{Start as _, User};

#[test]
fn a_context_stands_for_a_controller_elsewhere() {
    let user = User::new();
    let home = user.path("a").display().to_string();
    let address = user.ok("elsewhere", &format!("--home {home} up 1 --output wire")).json();
    let address = address["controller"].as_str().unwrap().to_owned();
    user.ok("elsewhere", &format!("context add farm {address}"));
    assert!(user.ok("home", "context list").out.contains(&address));
    let agents = |said: &str| serde_json::from_str::<serde_json::Value>(said).unwrap()["agents"]["total"].as_u64();
    assert_eq!(agents(&user.ok("elsewhere", "info --context farm --output wire").out), Some(1));
    let with = |name: &str| user.command("elsewhere", "info --output wire").env("LLTS_CONTEXT", name).said();
    assert_eq!(agents(&with("farm").out), Some(1));
    with("fram").failed(2, "no context \"fram\"; the nearest is farm");
    user.llts("elsewhere", "info --context farm --controller tcp://127.0.0.1:1").ended(2);
    for verb in ["up 1", "down", "controller", "store check"] {
        let said = user.llts("elsewhere", &format!("{verb} --context farm"));
        assert!(said.code == Some(2) && said.err.contains("--context farm has no meaning here"), "{verb}: {said:?}");
    }
    user.ok("elsewhere", "context rm farm");
    assert_eq!(user.llts("elsewhere", "info --context farm").code, Some(2));
    assert_eq!(user.llts("elsewhere", "context add farm nonsense").code, Some(2));
}
