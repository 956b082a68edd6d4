//! A real PostgreSQL on a socket in a temporary folder; it ends with the test.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::certificates::make_certificates;
use crate::place::Place;
use crate::program::{Program, Start as _};
use crate::redis::own_ip;
use crate::waiting::eventually;

/// The user and the database.
const NAME: &str = "llts";

/// A running server.
pub struct Postgres {
    place: Place,
    programs: PathBuf,
    options: Vec<String>,
    port: u16,
    server: Option<Program>,
}

impl Postgres {
    /// Starts one with an empty database. scripts/test.sh installs it if it is missing.
    pub fn start() -> Self {
        Self::with_options(&[])
    }

    /// One with settings, as `name=value`.
    pub fn with_options(options: &[&str]) -> Self {
        let mut postgres = Self::empty(options);
        let mut make = postgres.program("initdb");
        make.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "--username", NAME, "--pgdata"]);
        let made = make.arg(postgres.place.path("data")).output().expect("initdb runs");
        assert!(made.status.success(), "{made:?}");
        postgres.start_again();
        postgres.sql_in("postgres", &format!("CREATE DATABASE {NAME}"));
        postgres
    }

    /// A second one, which copies all that this one writes.
    pub fn replica(&self) -> Self {
        let mut replica = Self::empty(&[]);
        let mut copy = replica.program("pg_basebackup");
        copy.arg("-h").arg(self.place.path("socket")).args(["-U", NAME, "-R", "-c", "fast", "-D"]);
        let made = copy.arg(replica.place.path("data")).output().expect("pg_basebackup runs");
        assert!(made.status.success(), "{made:?}");
        replica.start_again();
        replica
    }

    /// One without data.
    fn empty(options: &[&str]) -> Self {
        let programs = programs();
        let place = Place::new("psql");
        fs::set_permissions(place.root(), fs::Permissions::from_mode(0o755)).expect("its own folder");
        fs::create_dir(place.path("data")).expect("a folder");
        fs::set_permissions(place.path("data"), fs::Permissions::from_mode(0o700)).expect("its own folder");
        own(&place.path("data"));
        fs::create_dir(place.path("socket")).expect("a folder");
        own(&place.path("socket"));
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Self { place, programs, options, port: 5432, server: None }
    }

    /// A program of the server. It refuses to run as root.
    fn program(&self, name: &str) -> Command {
        let mut command = self.place.program(self.programs.join(name));
        command.env("TZ", "UTC");
        if let Some((user, group)) = user() {
            command.uid(user).gid(group);
        }
        command
    }

    /// Starts it, after [`Self::kill`] with what is on its disk.
    pub fn start_again(&mut self) {
        let log = File::options().create(true).append(true).open(self.place.path("postgres.log")).expect("a log");
        let mut command = self.program("postgres");
        command.arg("-D").arg(self.place.path("data")).arg("-k").arg(self.place.path("socket"));
        command.args(["-c", "listen_addresses="]);
        for option in &self.options {
            command.args(["-c", option]);
        }
        self.server = Some(command.stdout(log.try_clone().expect("a log")).stderr(log).start());
        eventually("a PostgreSQL that answers", || {
            self.psql("postgres", "SELECT 1").output().is_ok_and(|said| said.status.success())
        });
    }

    /// Ends it at once: its connections break, and nothing that it has answered is lost.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.signal(Signal::QUIT);
            eventually("its end", || !server.is_running());
        }
    }

    /// SIGSTOP and SIGCONT for all its processes.
    pub fn signal(&self, with: Signal) {
        let Some(server) = &self.server else { return };
        server.signal(with);
        // Their titles take the place of their environments, so that nothing marks them.
        let pid = server.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|child| Pid::from_raw(child.parse().ok()?)) {
            // One may have ended meanwhile.
            let _ = kill_process(child, with);
        }
    }

    /// Lets in those who come by TLS to an address of this process, with a password, or without one only with a certificate: the URL of its
    /// database for them, and the folder with the certificates.
    pub fn secure(&mut self, password: Option<&str>) -> (String, PathBuf) {
        if let Some(password) = password {
            self.sql(&format!("ALTER ROLE {NAME} PASSWORD '{password}'"));
        }
        self.kill();
        let (ip, folder) = (own_ip(), self.place.path("tls"));
        let free = TcpListener::bind((ip, 0)).and_then(|free| free.local_addr()).expect("a free port");
        fs::create_dir(&folder).expect("a folder");
        make_certificates(&folder, ip.into(), NAME);
        for name in ["s.key", "s.pem", "ca.pem"] {
            own(&folder.join(name));
        }
        let way = password.map_or("cert", |_| "scram-sha-256");
        let hba = format!("local all all trust\nhostssl all all 127.0.0.0/8 {way}\n");
        fs::write(self.place.path("data/pg_hba.conf"), hba).expect("written");
        let file = |name: &str| folder.join(name).display().to_string();
        self.options.extend([
            format!("listen_addresses={ip}"),
            format!("port={}", free.port()),
            "ssl=on".to_owned(),
            format!("ssl_cert_file={}", file("s.pem")),
            format!("ssl_key_file={}", file("s.key")),
            format!("ssl_ca_file={}", file("ca.pem")),
        ]);
        self.port = free.port();
        self.start_again();
        (format!("postgresql://{NAME}@{free}/{NAME}"), folder)
    }

    /// The URL of its database.
    pub fn url(&self) -> String {
        format!("postgresql://{NAME}@{}/{NAME}", self.host())
    }

    /// The URL of a database that one of two servers has.
    pub fn url_with(&self, replica: &Self) -> String {
        format!("postgresql://{NAME}@{},{}/{NAME}?target_session_attrs=read-write", self.host(), replica.host())
    }

    fn host(&self) -> String {
        self.place.path("socket").to_string_lossy().replace('/', "%2F")
    }

    /// A session that has a table for itself, until [`Self::end_sessions`].
    pub fn lock(&self, table: &str) -> Program {
        let mut session = self.psql(NAME, &format!("BEGIN; LOCK TABLE {table}"));
        let session = session.args(["-c", "SELECT pg_sleep(1000)"]).start();
        let locks = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(1000)'";
        eventually("the lock", || self.sql(locks) == "1");
        session
    }

    /// Ends all other sessions.
    pub fn end_sessions(&self) {
        self.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = 'llts'");
    }

    /// The answer to a statement, as lines of columns with `|` between them.
    #[track_caller]
    pub fn sql(&self, statement: &str) -> String {
        self.sql_in(NAME, statement)
    }

    #[track_caller]
    fn sql_in(&self, database: &str, statement: &str) -> String {
        let said = self.psql(database, statement).output().expect("psql runs");
        assert!(said.status.success(), "{statement}: {said:?}");
        String::from_utf8_lossy(&said.stdout).trim_end().to_owned()
    }

    fn psql(&self, database: &str, statement: &str) -> Command {
        let mut command = self.place.program(self.programs.join("psql"));
        command.arg("-h").arg(self.place.path("socket")).args(["-p", &self.port.to_string()]);
        command.args(["-U", NAME, "-d", database, "-v", "ON_ERROR_STOP=1", "-Atqc", statement]);
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
        self.server.take().into_iter().for_each(|mut server| server.kill());
    }
}

/// The folder of the newest server that Debian has installed, or of one on the PATH.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        versions.map(|version| version.path().join("bin")).filter(|folder| folder.join("initdb").exists()).collect();
    found.sort();
    let on_path = || {
        let said = Command::new("pg_config").arg("--bindir").output().ok()?;
        Some(PathBuf::from(String::from_utf8_lossy(&said.stdout).trim()))
    };
    found.pop().or_else(on_path).expect("PostgreSQL is installed")
}

/// The user and the group that run it, where this process is root.
fn user() -> Option<(u32, u32)> {
    let is_root = rustix::process::geteuid().is_root();
    let users = is_root.then(|| fs::read_to_string("/etc/passwd").unwrap_or_default())?;
    let line = users.lines().find(|line| line.starts_with("postgres:"))?;
    let mut numbers = line.split(':').skip(2).map(|number| number.parse().expect("a number"));
    Some((numbers.next()?, numbers.next()?))
}

fn own(path: &std::path::Path) {
    if let Some((user, group)) = user() {
        chown(path, Some(user), Some(group)).expect("root may");
    }
}
