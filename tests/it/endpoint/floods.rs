//! Floods against the real controller (docs/design/hazards.md, W6, W7): what it holds, which descriptors it keeps, and that those who
//! were there before are answered all the while.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use testkit::{Place, Program, Start as _};

use crate::endpoint::conformance::socket;
use crate::endpoint::raw::{Raw, message, opening};
use crate::support::LLTS;
use testkit::eventually;

const RSS_GROWTH_BYTES_MAX: u64 = 64 << 20;
const SPARE_DESCRIPTORS: u64 = 64;

/// A controller in a folder of its own. Ends when it is dropped.
struct Controller {
    program: Program,
    endpoint: String,
    _place: Place,
}

impl Controller {
    /// With so many descriptors.
    fn start(descriptors: u64, keys: &[(&str, &str)]) -> Self {
        let mut place = Place::new(LLTS);
        let home = place.root().to_owned();
        place.set("LLTS_HOME", home);
        for (key, value) in [&[("CONTROLLER_REP_PORT", "0"), ("CONTROLLER_PUB_PORT", "0")], keys].concat() {
            place.set(format!("LLTS_{key}"), value);
        }
        let wrapper = ["sh", "-c", "ulimit -n $1; shift; exec \"$@\"", "sh", &descriptors.to_string()];
        let program = place.command("controller").under(&wrapper).start().ready("ready");
        let endpoint = program.word(4).to_owned();
        Self { program, endpoint, _place: place }
    }

    fn address(&self) -> &str {
        self.endpoint.strip_prefix("tcp://").unwrap()
    }

    /// A line of /proc/PID/status, in bytes.
    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.program.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().unwrap() << 10
    }

    fn descriptors(&self) -> u64 {
        std::fs::read_dir(format!("/proc/{}/fd", self.program.id())).unwrap().count() as u64
    }
}

/// A client that asks for the statistics again and again.
struct Witness {
    client: zmq::Socket,
    _context: zmq::Context,
}

impl Witness {
    fn of(controller: &Controller) -> Self {
        let context = zmq::Context::new();
        let client = socket(&context, zmq::REQ, &controller.endpoint);
        let witness = Self { client, _context: context };
        witness.is_answered();
        witness
    }

    fn is_answered(&self) {
        self.client.send("{\"__TYPE__\":\"TASK/STATISTIC\"}", 0).unwrap();
        let answer = self.client.recv_string(0).expect("an answer").unwrap();
        assert!(answer.contains("\"__CODE__\":0"), "{answer}");
    }
}

/// docs/design/hazards.md, W6.
#[test]
fn floods_take_little_memory() {
    let controller = Controller::start(4096, &[("HANDSHAKE_TIMEOUT", "10000")]);
    let witness = Witness::of(&controller);
    let before = controller.memory("VmRSS:");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let address = controller.address();
        let attackers: [Box<dyn Fn() + Send>; 5] = [
            Box::new(|| endless_parts(address, &[1, 0].repeat(1000))),
            Box::new(|| endless_parts(address, &[b"\x01\xFF".as_slice(), &[0; 255]].concat())),
            Box::new(|| endless_parts(address, &message(&[&[0; 60_000], b""])[..60_009])),
            Box::new(|| giant_announcements(address)),
            Box::new(|| slow_bytes(address)),
        ];
        let attackers = attackers.map(|attack| scope.spawn(attack));
        scope.spawn(|| {
            for attacker in attackers {
                let ended = attacker.join();
                is_over.store(is_over.load(Ordering::Relaxed) || ended.is_err(), Ordering::Relaxed);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        while !is_over.load(Ordering::Relaxed) {
            witness.is_answered();
        }
    });
    let growth = controller.memory("VmHWM:").saturating_sub(before);
    assert!(growth < RSS_GROWTH_BYTES_MAX, "the controller has grown by {growth} bytes");
    witness.is_answered();
}

/// Each ends when it is cut.
fn endless_parts(address: &str, parts: &[u8]) {
    for _ in 0..40 {
        Raw::dealer(address).flood(parts);
    }
}

/// Beyond what is skipped it is cut at once; within the limit nothing is held of what does not come.
fn giant_announcements(address: &str) {
    for length in [(256_u64 << 20) + 1, 8 << 30, 1 << 62, u64::MAX].repeat(25) {
        let mut raw = Raw::dealer(address);
        raw.0.write_all(&[&[2][..], &length.to_be_bytes()].concat()).unwrap();
        assert!(raw.is_closed(), "{length} bytes announced");
    }
    let mut patient: Vec<Raw> = (0..500).map(|_| Raw::dealer(address)).collect();
    for raw in &mut patient {
        raw.0.write_all(&[&[2][..], &262_144_u64.to_be_bytes(), b"x"].concat()).unwrap();
    }
    for raw in &mut patient {
        raw.0.write_all(b"y").unwrap();
    }
}

/// A byte of a handshake from each of many at a time: all of them are cut, as much as they have said.
fn slow_bytes(address: &str) {
    let bytes = opening("DEALER");
    let mut slow: Vec<Raw> = (0..200).map(|_| Raw::connect(address)).collect();
    for byte in &bytes[..bytes.len() / 2] {
        for raw in &mut slow {
            let _ = raw.0.write_all(&[*byte]);
        }
    }
    for raw in &mut slow {
        assert!(raw.is_closed(), "half a handshake is waited for");
    }
}

/// The limit belongs to the whole process; a higher one harms no other test (docs/design/hazards.md, W7).
#[test]
fn idle_connections_leave_descriptors_and_answers() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    // So many that the controller cannot have all of them.
    let descriptors = (hard / 2).min(5_000);
    let strangers = usize::try_from(descriptors + descriptors / 2).unwrap();
    let many = [("CONNECTIONS_MAX", "1000000"), ("CONNECTIONS_PER_ADDRESS_MAX", "1000000")];
    let controller = Controller::start(descriptors, &many);
    let witness = Witness::of(&controller);
    let full = |what: &str| {
        let open = controller.descriptors();
        assert!(open + SPARE_DESCRIPTORS <= descriptors, "{open} of {descriptors} descriptors are open: {what}");
        witness.is_answered();
    };
    let mut held = Vec::new();
    for number in 0..strangers {
        let mut stream = TcpStream::connect(controller.address()).unwrap();
        // Every other one says half of a handshake; some are cut already, to make room.
        if number % 2 == 0 {
            let _ = stream.write_all(&opening("DEALER")[..70]);
        }
        held.push(stream);
        if number % 500 == 0 {
            full("idle ones come in");
        }
    }
    full("idle ones are there");
    Witness::of(&controller);
    drop(held);

    // Those who have done the handshake keep their places; the others wait outside, where the kernel has room for a thousand.
    let places = descriptors - 1100.min(descriptors / 2);
    let mut held = Vec::new();
    for number in 0..places + 500 {
        let mut stream = TcpStream::connect(controller.address()).unwrap();
        stream.write_all(&opening("DEALER")).unwrap();
        held.push(stream);
        if number % 500 == 0 {
            full("clients come in");
        }
    }
    // But for those that are kept for others.
    eventually("all places are taken", || controller.descriptors() >= places - places / 16);
    full("clients have all places");
    drop(held);
    Witness::of(&controller);
}
