//! Files on their way: transfers that are interrupted, and bytes that change.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;

use crate::home::files::{LARGE, digest, noise};
use crate::home::travel::Machines;
use crate::home::user::{eventually, found, names, signal};

/// However often one of the two dies meanwhile, the files arrive whole, and the task ends once.
#[test]
fn a_transfer_survives_the_death_of_agent_and_controller() {
    let machines = Machines::new();
    let bytes = noise(LARGE);
    machines.write("data", &bytes);
    let task =
        machines.submit_sh("--in data --out back", "tac data > back; tac back > data; mv data back; echo x >> back");
    machines.agents(1);
    let part = machines.fetched(&format!("{}.part", digest(&bytes)));
    let size = |path: &PathBuf| fs::metadata(path).map(|part| part.len()).unwrap_or_default();
    // A busy machine may show the file only when it is whole.
    eventually("the fetch begins", || size(&part) > 0 || machines.fetched(&digest(&bytes)).exists());
    signal(machines.process("-agent-1").expect("the agent"), Signal::KILL);
    eventually("the next agent continues or has it", || !part.exists() || size(&part) > 0);
    signal(machines.process(" controller").expect("the controller"), Signal::KILL);
    let incoming = machines.in_a("state/archives/incoming");
    let arriving = || {
        let entries = fs::read_dir(&incoming).into_iter().flatten().flatten();
        entries.map(|entry| entry.metadata().map_or(0, |metadata| metadata.len())).sum::<u64>()
    };
    // The input, and the output.
    let is_there = || names(&machines.in_a("state/archives")).iter().filter(|name| name.len() == 64).count() == 2;
    eventually("the output is being sent", || arriving() > 0 || is_there());
    signal(found("the controller", || machines.process(" controller")), Signal::KILL);
    eventually("the next controller continues", || arriving() > 0 || is_there());
    signal(found("the agent", || machines.process("-agent-1")), Signal::KILL);
    let fields = machines.ended(&task);
    assert_eq!(fields["__OUTCOME__"], "SUCCEEDED", "{fields}");
    machines.user.ok("a", &format!("get {task} -o back"));
    let got = fs::read(machines.in_a("back/back")).unwrap();
    assert!(got.len() == LARGE + 2 && got.ends_with(b"x\n"), "{} bytes", got.len());
    assert_eq!(arriving(), 0, "no part is left");
}

#[test]
fn flipped_bytes_are_found_and_never_run() {
    let machines = Machines::new();
    let bytes = noise(400_000);
    let mut wrong = bytes.clone();
    wrong[1000] ^= 1;
    let digest = digest(&bytes);
    machines.write("data", &bytes);
    // On the disk of the controller.
    let task = machines.submit_sh("--in data", "cksum < data");
    fs::write(machines.stored(&digest), &wrong).unwrap();
    machines.agents(1);
    let fields = machines.ended(&task);
    assert_eq!((&fields["__OUTCOME__"], &fields["__EXIT_CODE__"]), (&"FAILED".into(), &(-131).into()), "{fields}");
    let why = fields["__REASON__"].as_str().unwrap_or_default();
    assert!(why.contains(&format!("the input data of task {task}: ")) && why.contains("damaged"), "{why}");
    // The next submit puts it again. A first part with another byte is on the disk of the agent.
    fs::write(machines.fetched(&format!("{digest}.part")), &wrong[..300_000]).unwrap();
    let right = machines.output(&machines.submit_sh("--in data", "cksum < data"));
    assert!(machines.agent_logs().contains("of file data has arrived with wrong bytes"));
    // On the disk of the agent.
    fs::write(machines.fetched(&digest), &wrong).unwrap();
    assert_eq!(machines.output(&machines.submit_sh("--in data", "cksum < data")), right);
    assert_eq!(fs::read(machines.fetched(&digest)).unwrap(), bytes);
    // On the way to the controller.
    let other = noise(300_000);
    machines.write("other", &other);
    let incoming = machines.in_a("state/archives/incoming").join(self::digest(&other));
    fs::write(&incoming, &wrong[..100_000]).unwrap();
    machines.submit_sh("--in other", "true");
    assert_eq!(fs::read(machines.stored(&self::digest(&other))).unwrap(), other, "it began anew");
}

/// Passes bytes on, and flips one in the first large chunk in each direction; returns its address and whether it has.
fn relay(controller: &str) -> (String, [Arc<AtomicBool>; 2]) {
    let port = controller.rsplit(':').next().expect("a port").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let own = listener.local_addr().expect("an address").port().to_string();
    let flipped: [Arc<AtomicBool>; 2] = Default::default();
    let flags = flipped.clone();
    std::thread::spawn(move || {
        for from in listener.incoming() {
            let from = from.expect("a connection");
            let to = TcpStream::connect(format!("127.0.0.1:{port}")).expect("the controller");
            let (back, forth) = (from.try_clone().expect("a copy"), to.try_clone().expect("a copy"));
            let [one, other] = flags.clone();
            std::thread::spawn(move || pass_on(from, to, &one));
            std::thread::spawn(move || pass_on(forth, back, &other));
        }
    });
    (controller.replace(controller.rsplit(':').next().expect("a port"), &own), flipped)
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, flipped: &AtomicBool) {
    let mut chunk = vec![0; 1 << 16];
    while let Ok(bytes @ 1..) = from.read(&mut chunk) {
        // Only the parts of files are so large, and base64 keeps its form.
        let middle = &mut chunk[bytes / 2];
        if bytes > 20_000 && middle.is_ascii_alphanumeric() && !flipped.swap(true, Ordering::Relaxed) {
            *middle = if *middle == b'A' { b'B' } else { b'A' };
        }
        if to.write_all(&chunk[..bytes]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

#[test]
fn a_byte_that_flips_on_the_way_is_found_and_the_file_is_sent_again() {
    let machines = Machines::new();
    let (controller, flipped) = relay(&machines.controller);
    machines.agents_through(1, &controller);
    let bytes = noise(1 << 20);
    machines.write("data", &bytes);
    let task = machines.submit_sh("--in data --out back", "cat data data > back");
    let fields = machines.ended(&task);
    assert_eq!(fields["__OUTCOME__"], "SUCCEEDED", "{fields}");
    assert!(flipped.iter().all(|flipped| flipped.load(Ordering::Relaxed)), "{flipped:?}");
    assert!(machines.agent_logs().contains("of file data has arrived with wrong bytes"));
    machines.user.ok("a", &format!("get {task} -o back"));
    assert_eq!(fs::read(machines.in_a("back/back")).unwrap(), bytes.repeat(2));
}
