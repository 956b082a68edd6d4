//! What the server of a queue can do to its leader: be away, full, locked, newer, older, or ask for another password.

use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use testkit::{Postgres, Said, own_ip};

use super::second_machine::{home, states, submit};
use crate::cli::sandbox::{Sandbox, Start as _, eventually};

#[test]
fn a_server_that_restarts_is_waited_for() {
    let mut postgres = Postgres::start();
    let home = home(&postgres);
    home.ok("up 1");
    let before = submit(&home, "--start-after +1h -- true");
    home.ok("gate set g --max-running 0");
    let next = submit(&home, "--gate g -- true");
    let running = submit(&home, "-- sleep 1");
    eventually("it runs", || home.ok(&format!("show {running}")).out.contains("running"));
    postgres.kill();
    eventually("its end is noticed", || home.ok("status").out.contains("the store cannot be written"));
    home.llts("submit -- true").failed(4, "submit it again later");
    home.ok("gate set g --max-running 1");
    let explained = || home.ok(&format!("explain {next}")).out;
    eventually("the wait is explained", || explained().contains("an agent gets it when that is stored"));
    let shown = || home.ok(&format!("show {running}")).err;
    eventually("an end that is not stored says so", || shown().contains("this end is not stored"));
    assert!(home.ok(&format!("wait {running}")).err.contains("this end is not stored"));
    postgres.start_again();
    eventually("it is used again", || home.llts("run -- true").code == Some(0));
    assert_eq!(shown(), "");
    assert!(states(&home).contains(&before));
    assert!(home.ok("incidents").out.contains("the store can be written again"));
    home.ends_clean();
}

/// The commit of the submit has no answer for as long as a lease, and is made all the same.
#[test]
fn a_submit_whose_commit_has_no_answer_is_one_task() {
    let postgres = Postgres::start();
    let home = home(&postgres);
    home.ok("up 1");
    postgres.signal(Signal::STOP);
    a_submit_waits(&postgres, &home, || postgres.signal(Signal::CONT));
}

#[test]
fn a_server_that_lacks_commits_is_refused_until_the_loss_is_accepted() {
    let postgres = Postgres::start();
    let home = home(&postgres);
    home.ok("up 1");
    let kept = submit(&home, "--start-after +1h -- true");
    home.ok("down");
    // A replica that was promoted too early.
    postgres.sql("UPDATE llts.leader SET commits = commits - 1");
    home.llts("up 1").failed(1, "`llts up --accept-loss`");
    home.ok("up 1 --accept-loss");
    assert!(states(&home).contains(&kept));
    assert!(home.ok("incidents").out.contains("is taken as it is"));
    home.ok("down");
    home.ok("up 1");
    home.ends_clean();
}

/// A replica that has not got the last commits is promoted, and the running controller finds that before it acknowledges anything there.
#[test]
fn a_replica_that_lagged_is_refused() {
    let mut postgres = Postgres::start();
    let replica = postgres.replica();
    let sandbox = Sandbox::new();
    sandbox.configure(&format!("STORE = \"{}\"\n", postgres.url_with(&replica)));
    sandbox.ok("up 1");
    let kept = submit(&sandbox, "--start-after +1h -- true");
    eventually("the replica has it", || replica.sql("SELECT count(*) FROM llts.tasks") == "1");
    replica.sql("ALTER SYSTEM SET primary_conninfo = ''");
    replica.sql("SELECT pg_reload_conf()");
    eventually("the replica is cut off", || postgres.sql("SELECT count(*) FROM pg_stat_replication") == "0");
    let lost = submit(&sandbox, "--start-after +1h -- true");
    postgres.kill();
    replica.sql("SELECT pg_promote()");
    let log = || sandbox.text("log/controller.log");
    eventually("the controller ends", || log().contains("the server has lost accepted tasks"));
    eventually("the next one refuses", || log().contains("`llts up --accept-loss`"));
    sandbox.ok("down");
    sandbox.llts("up 1").failed(1, "it is an older copy");
    sandbox.ok("up 1 --accept-loss");
    assert!(states(&sandbox).contains(&kept) && !states(&sandbox).contains(&lost));
    sandbox.ok("run -- true");
    sandbox.ends_clean();
}

#[test]
fn a_synchronous_replica_has_every_accepted_task() {
    let mut postgres = Postgres::start();
    let replica = postgres.replica();
    postgres.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
    postgres.sql("SELECT pg_reload_conf()");
    let sandbox = Sandbox::new();
    sandbox.configure(&format!("STORE = \"{}\"\n", postgres.url_with(&replica)));
    sandbox.ok("up 1");
    assert!(sandbox.ok("info").out.contains("an accepted task survives the loss of the database's machine"));
    let accepted: Vec<String> = (0..5).map(|_| submit(&sandbox, "--start-after +1h -- true")).collect();
    postgres.kill();
    replica.sql("SELECT pg_promote()");
    eventually("it goes on", || sandbox.llts("run -- true").code == Some(0));
    assert!(accepted.iter().all(|id| states(&sandbox).contains(id)));
    assert!(!sandbox.ok("incidents").out.contains("DEPOSED"));
    sandbox.ends_clean();
}

#[test]
fn a_server_without_room_is_named() {
    let postgres = Postgres::start();
    let home = home(&postgres);
    home.ok("up 1");
    let before = submit(&home, "--start-after +1h -- true");
    postgres.sql(
        "CREATE FUNCTION llts.fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$; \
         CREATE TRIGGER full_disk BEFORE INSERT ON llts.tasks EXECUTE FUNCTION llts.fill()",
    );
    home.llts("submit -- true").failed(4, "make room on the disk of the server");
    assert!(home.ok("status").out.contains("No space left on device"));
    postgres.sql("DROP TRIGGER full_disk ON llts.tasks");
    eventually("it is used again", || home.llts("run -- true").code == Some(0));
    assert!(states(&home).contains(&before));
    let incidents = home.ok("incidents").out;
    assert!(incidents.contains("STORE_TROUBLE") && incidents.contains("STORE_OK"), "{incidents}");
    home.ends_clean();
}

/// The commit waits for the lock, as long as a lease; it is made once.
#[test]
fn a_locked_table_is_waited_for() {
    let postgres = Postgres::start();
    let home = home(&postgres);
    home.ok("up 1");
    let _lock = postgres.lock("llts.tasks");
    a_submit_waits(&postgres, &home, || postgres.end_sessions());
}

#[test]
fn tables_of_a_newer_version_are_refused() {
    let postgres = Postgres::start();
    let home = home(&postgres);
    home.ok("up 1");
    home.ok("down");
    postgres.sql("UPDATE llts.version SET number = 99");
    home.llts("up 1").failed(1, "use the newer program again");
    home.llts("store export").failed(1, "have version 99");
    home.is_clean();
}

/// The tables of the first version had no files.
#[test]
fn tables_of_an_older_version_are_migrated() {
    let postgres = Postgres::start();
    let home = home(&postgres);
    home.ok("up 1");
    let kept = submit(&home, "--start-after +1h -- true");
    home.ok("down");
    postgres.sql("DROP TABLE llts.files, llts.file_parts, llts.tool_log; UPDATE llts.version SET number = 1");
    home.write("file", "travels");
    home.ok("up 1");
    assert!(states(&home).contains(&kept));
    home.ok("run --in file -- cat file");
    assert_eq!(postgres.sql("SELECT number FROM llts.version"), "2");
    home.ends_clean();
}

#[test]
fn a_password_that_changes_is_read_again() {
    let mut postgres = Postgres::start();
    let (url, certificates) = postgres.secure(Some("old"));
    let sandbox = Sandbox::new();
    secret(&sandbox, "password", "old");
    let authority = certificates.join("ca.pem");
    sandbox.configure(&format!(
        "STORE = \"{url}\"\nSTORE_PASSWORD_FILE = \"password\"\nSTORE_CA_FILE = \"{}\"\n",
        authority.display()
    ));
    sandbox.ok("up 1");
    postgres.sql("ALTER ROLE llts PASSWORD 'new'");
    postgres.end_sessions();
    eventually("the password is wrong", || {
        sandbox.llts("submit -- true").err.contains("STORE_PASSWORD_FILE names the file with the password")
    });
    secret(&sandbox, "password", "new");
    eventually("it is used again", || sandbox.llts("run -- true").code == Some(0));
    sandbox.ends_clean();
}

#[test]
fn a_server_knows_a_controller_by_its_certificate() {
    let mut postgres = Postgres::start();
    let (url, certificates) = postgres.secure(None);
    let sandbox = Sandbox::new();
    let file = |name: &str| certificates.join(name).display().to_string();
    let authority = format!("STORE = \"{url}\"\nSTORE_CA_FILE = \"{}\"\n", file("ca.pem"));
    sandbox.configure(&authority);
    sandbox.llts("up 1").failed(1, "certificate");
    let own = format!("STORE_CERTIFICATE_FILE = \"{}\"\nSTORE_KEY_FILE = \"{}\"\n", file("c.pem"), file("c.key"));
    sandbox.configure(&format!("{authority}{own}"));
    sandbox.ok("up 1");
    sandbox.ok("run -- true");
    sandbox.ends_clean();
}

#[test]
fn a_server_on_another_machine_is_known_by_its_certificate() {
    let mut postgres = Postgres::start();
    let (url, certificates) = postgres.secure(Some("right"));
    let sandbox = Sandbox::new();
    let with = |password: &str, lines: &str| {
        secret(&sandbox, "password", password);
        sandbox.configure(&format!("STORE = \"{url}\"\nSTORE_PASSWORD_FILE = \"password\"\n{lines}"));
        sandbox.llts("up 1")
    };
    let trusted = format!("STORE_CA_FILE = \"{}\"", certificates.join("ca.pem").display());
    with("right", "").failed(1, "no pg_hba.conf entry");
    with("wrong", &trusted).failed(1, "STORE_PASSWORD_FILE names the file with the password");
    testkit::make_certificates(sandbox.root(), own_ip().into(), "llts");
    with("right", "STORE_CA_FILE = \"ca.pem\"").failed(1, "certificate");
    assert_eq!(with("right\n", &trusted).code, Some(0));
    sandbox.ok("run -- true");
    sandbox.ends_clean();
}

/// A submit has no answer while the server is silent, and is one task when it speaks again.
fn a_submit_waits(postgres: &Postgres, home: &Sandbox, speak: impl FnOnce()) {
    let mut submit = home.command("submit -- true").start();
    eventually("the silence is noticed", || home.text("log/controller.log").contains("has not answered"));
    assert!(submit.is_running(), "it is neither accepted nor refused");
    speak();
    let said: Said = submit.said();
    assert_eq!(said.code, Some(0), "{said:?}");
    home.ok(&format!("wait {}", said.out.trim()));
    assert_eq!(postgres.sql("SELECT count(*) FROM llts.tasks"), "1");
    home.ends_clean();
}

/// A file that only its owner can read.
fn secret(sandbox: &Sandbox, name: &str, text: &str) {
    sandbox.write(name, text);
    std::fs::set_permissions(sandbox.path(name), std::fs::Permissions::from_mode(0o600)).expect("its own file");
}
