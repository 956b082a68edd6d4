//! Keys that come and go while the ports are open. Everything runs in this thread, so that it is known what has happened when.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::CurveServerFiles;
use proc::clock;
use zmtp::curve_keys::KeyFolder;
use zmtp::engine::{ClientKeys, Connection, KeyPair, Kind, Security, Settings};
use zmtp::port::Denial;
use zmtp::sockets::{Link, LinkSettings, PortSettings, Ports};

use crate::endpoint::echo::{PATIENCE, WATCHABLE, settings};

const SERVER: [u8; 32] = [1; 32];
const TURN: Duration = Duration::from_millis(1);

fn put(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn ports(folder: &Path) -> Ports {
    let files = CurveServerFiles { secret_key: folder.join("secret"), authorised_keys: folder.join("authorised") };
    let keys = KeyFolder::open(&files).unwrap();
    let settings = PortSettings { security: Security::CurveServer(keys.keys()), ..settings() };
    let mut ports = Ports::bind("tcp://127.0.0.1:0", "tcp://127.0.0.1:0", WATCHABLE.to_owned(), &settings).unwrap();
    ports.watch_keys(keys);
    ports
}

fn client(seed: u8) -> Security {
    let keys = ClientKeys { pair: KeyPair::from_bytes([seed; 32]), server: KeyPair::from_bytes(SERVER).public() };
    Security::CurveClient(Arc::new(keys))
}

fn link(ports: &Ports, seed: u8) -> Link {
    let settings = LinkSettings {
        limits: settings().limits,
        security: client(seed),
        reconnect_interval_max: Duration::from_millis(50),
    };
    Link::connect(ports.requests(), Some(ports.broadcasts()), &[], settings).unwrap()
}

fn serve(ports: &mut Ports) {
    let now = clock::now().mono;
    ports.wait(now, Some(now + TURN), &[]);
    while let Some(frames) = ports.receive() {
        let _ = ports.send(&frames, Duration::ZERO);
    }
    ports.flush();
}

/// Whether a request is answered within this time.
fn is_answered(ports: &mut Ports, link: &mut Link, time: Duration) -> bool {
    while link.receive_answer().is_some() {}
    let (end, mut is_sent) = (clock::now().mono + time, false);
    while clock::now().mono < end {
        if link.is_connected() && !std::mem::replace(&mut is_sent, true) {
            link.send(b"x".to_vec());
        }
        let now = clock::now().mono;
        serve(ports);
        link.wait(now, Some(now + TURN), &[]);
        if link.receive_answer().is_some() {
            return true;
        }
    }
    false
}

/// A folder with the keys of the server and of a host, and how to put others there.
fn folder() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    put(&place.path().join("secret"), &KeyPair::from_bytes(SERVER).secret_text());
    fs::create_dir(place.path().join("authorised")).unwrap();
    add(place.path(), "host", 2);
    place
}

fn add(folder: &Path, name: &str, seed: u8) {
    put(&folder.join("authorised").join(name), &KeyPair::from_bytes([seed; 32]).public().to_string());
}

#[test]
fn a_key_that_is_put_there_opens_and_one_that_is_taken_away_closes() {
    let place = folder();
    let mut ports = ports(place.path());
    let (mut host, mut guest) = (link(&ports, 2), link(&ports, 3));
    let little = Duration::from_millis(300);
    assert!(is_answered(&mut ports, &mut host, PATIENCE));
    for _ in 0..2 {
        assert!(!is_answered(&mut ports, &mut guest, little), "it has no key there");
        add(place.path(), "guest", 3);
        assert!(is_answered(&mut ports, &mut guest, PATIENCE));
        fs::remove_file(place.path().join("authorised/guest")).unwrap();
        is_out(&mut ports, &mut guest);
    }
    assert!(is_answered(&mut ports, &mut host, PATIENCE), "its key has never gone");
}

/// Waits until a connection has ended and is refused when it comes again. Until then no peer is admitted.
fn is_out(ports: &mut Ports, link: &mut Link) {
    let end = clock::now().mono + PATIENCE;
    while !matches!(link.take_denial(), Some(Denial::KeyRefused(_))) {
        let now = clock::now().mono;
        assert!(now < end, "its connection has outlived its key");
        serve(ports);
        link.wait(now, Some(now + TURN), &[]);
    }
}

/// The folder is the same as before, and so is the name of the file.
#[test]
fn a_key_that_is_overwritten_closes_and_the_new_one_opens() {
    let place = folder();
    let mut ports = ports(place.path());
    let (mut old, mut new) = (link(&ports, 2), link(&ports, 3));
    assert!(is_answered(&mut ports, &mut old, PATIENCE));
    add(place.path(), "host", 3);
    is_out(&mut ports, &mut old);
    assert!(is_answered(&mut ports, &mut new, PATIENCE));
}

/// A missing folder admits no peer; and it may come back.
#[test]
fn no_key_outlives_its_folder() {
    let place = folder();
    let mut ports = ports(place.path());
    let mut host = link(&ports, 2);
    assert!(is_answered(&mut ports, &mut host, PATIENCE));
    let (folder, away) = (place.path().join("authorised"), place.path().join("away"));
    fs::rename(&folder, &away).unwrap();
    is_out(&mut ports, &mut host);
    fs::rename(&away, &folder).unwrap();
    assert!(is_answered(&mut ports, &mut host, PATIENCE));
}

#[test]
fn a_handshake_under_way_does_not_outlive_its_key() {
    let place = folder();
    add(place.path(), "guest", 3);
    let mut ports = ports(place.path());
    let mut stream = TcpStream::connect(ports.requests().strip_prefix("tcp://").unwrap()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let end = clock::now().mono + PATIENCE;
    let settings = Settings { kind: Kind::Dealer, limits: settings().limits, security: client(3) };
    let mut guest = Connection::new(clock::now().mono, settings, [7; 32]);
    let (mut host, mut has_removed) = (link(&ports, 2), false);
    loop {
        let now = clock::now().mono;
        assert!(now < end, "the connection stays");
        // The last word of the client says which key it has.
        if !has_removed && guest.output().windows(8).any(|bytes| bytes == b"INITIATE") {
            has_removed = true;
            fs::remove_file(place.path().join("authorised/guest")).unwrap();
            host.reconnect();
            assert!(is_answered(&mut ports, &mut host, PATIENCE));
        }
        let count = stream.write(guest.output()).unwrap();
        guest.handle_written(now, count);
        serve(&mut ports);
        let mut bytes = [0; 1000];
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => {
                let mut input = &bytes[..count];
                while guest.handle_input(now, &mut input).unwrap().is_some() {}
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    assert!(has_removed);
}
