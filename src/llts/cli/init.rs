//! `llts init`: make a home, with keys if it listens for other machines.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::net::{IpAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use api::config::Config;
use api::home::Home;
use api::tools;
use base::{path_text, quoted_path};
use term::exit::Failure;
use term::output::note;
use term::session::Session;
use zmtp::curve_keys;
use zmtp::engine::PublicKey;

/// The configuration of a new home.
const CONFIG: &str = "\
# The configuration of the service in this home. `llts config` shows every key with its default and the reason for it.
LOG_DIR = \"log\"
";

/// Lines added to it if other machines can reach the controller.
const KEYS: &str = "\
CURVE_SERVER_SECRET_KEY_FILE = \"keys/server.key\"
CURVE_AUTHORISED_KEYS_DIR = \"keys/authorised\"
CURVE_SECRET_KEY_FILE = \"keys/own.key\"
CURVE_SERVER_PUBLIC_KEY_FILE = \"keys/server.key.pub\"
";

#[derive(Args, Debug)]
#[command(after_help = "\
A home is one folder for the configuration, state, tools, work, logs, keys and socket of a service. Commands that are started in it \
or below it mean its service; so do all others with --home or LLTS_HOME. With --listen, the controller takes connections of other \
machines, and only those with a key in keys/authorised; CURVE encrypts them. Existing files are never overwritten.")]
pub(super) struct InitArgs {
    /// The folder [default: the home that is meant, which is that of the user where nothing else was said]
    dir: Option<PathBuf>,
    /// The address at which other machines reach the controller; 0.0.0.0 and :: are all of this machine
    #[arg(long, value_name = "IP")]
    listen: Option<IpAddr>,
}

pub(super) fn run(session: &mut Session, args: &InitArgs) -> Result<u8, Failure> {
    let home = match &args.dir {
        Some(dir) => Home::named(dir)?,
        None => session.home.clone(),
    };
    let folder = home.folder();
    let config = folder.join("config.toml");
    if config.symlink_metadata().is_ok() {
        return Err(Failure::failed(format!(
            "{} is there already, so nothing was changed; edit it, or name another folder",
            config.display()
        )));
    }
    home.mark()?;
    make_folder(&folder.join("log"), 0o700)?;
    tools::unpack_samples(&folder.join("tools"), Some(tools::FIRST_SAMPLE)).map_err(Failure::failed)?;
    // Keys are made even for 127.0.0.1, because every user of the machine can reach it.
    let listen = args.listen;
    let key = listen.map(|_| make_keys(&folder.join("keys"))).transpose()?;
    let ports = listen.and_then(other_ports);
    let text = match listen {
        Some(ip) => format!("{CONFIG}\nCONTROLLER_IP = \"{ip}\"\n{}{KEYS}", ports.map(port_lines).unwrap_or_default()),
        None => CONFIG.to_owned(),
    };
    // Written last: with this file, the home is complete.
    write_new(&config, &text)?;
    if let Some([requests, broadcasts]) = ports {
        note(&format!("the usual ports are taken here: this home has {requests} and {broadcasts} (config.toml)"));
    }
    tell(session, &home, listen, key);
    Ok(0)
}

/// Free ports instead of the usual ones, if one of those is taken, perhaps by another home of this machine.
fn other_ports(ip: IpAddr) -> Option<[u16; 2]> {
    let usual = Config::default().controller.usual_ports()?;
    let is_taken = |port| TcpListener::bind((ip, port)).is_err_and(|error| error.kind() == ErrorKind::AddrInUse);
    // Both at once, so that they differ.
    let free = || [0; 2].map(|port| TcpListener::bind((ip, port)).and_then(|listener| listener.local_addr()));
    usual
        .into_iter()
        .any(is_taken)
        .then(free)
        .and_then(|[requests, broadcasts]| Some([requests.ok()?.port(), broadcasts.ok()?.port()]))
}

fn port_lines([requests, broadcasts]: [u16; 2]) -> String {
    format!("CONTROLLER_REP_PORT = {requests}\nCONTROLLER_PUB_PORT = {broadcasts}\n")
}

/// Makes the keys of the controller and of this machine, and authorises the latter.
fn make_keys(folder: &Path) -> Result<PublicKey, Failure> {
    let authorised = folder.join("authorised");
    make_folder(&authorised, 0o700)?;
    let (server, _) = curve_keys::create(&folder.join("server.key")).map_err(Failure::failed)?;
    let (own, _) = curve_keys::create(&folder.join("own.key")).map_err(Failure::failed)?;
    write_new(&authorised.join("this-machine"), &format!("{own}\n"))?;
    Ok(server)
}

pub(super) fn make_folder(folder: &Path, mode: u32) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(mode).create(folder);
    made.map_err(|error| Failure::failed(format!("cannot make {}: {error}", folder.display())))
}

pub(super) fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path);
    let written =
        file.and_then(|mut file| file.write_all(text.as_bytes()).inspect_err(|_| drop(fs::remove_file(path))));
    written.map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
}

fn tell(session: &mut Session, home: &Home, listen: Option<IpAddr>, key: Option<PublicKey>) {
    let (folder, named) = (home.folder().display(), quoted_path(home.folder()));
    let out = &mut session.out;
    if out.is_json() {
        let key = key.map(|key| key.to_string());
        return out.value(
            &json!({ "home": path_text(home.folder()), "listen": listen.map(|ip| ip.to_string()), "server_key": key }),
        );
    }
    out.line(format_args!("{folder} is a home of llts; start its service with `llts --home {named} up`"));
    let (Some(ip), Some(key)) = (listen, key) else { return };
    out.text(&format!(
        "the public key of the controller is {key}
for agents on another machine:
  here:  llts --home {named} keys invite --listen {ip}  (prints the next line, with an address and a token)
  there: llts join ADDRESS --token=TOKEN  (hands over the key of that machine, and waits)
  here:  llts --home {named} keys accept NAME
  there: llts up --agents-only N
"
    ));
}
