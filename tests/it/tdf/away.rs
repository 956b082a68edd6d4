//! A Redis that is away, slow or answers with errors, and replies that are lost.

use std::io::Write as _;
use std::net::TcpListener;

use api::config::TdfSection;
use redis::Commands as _;
use tdf::shell::{Claim, Ending, Namespace, RedisError, Report, Reported};

use super::ground::config;
use super::original::Order;
use super::proxy::Proxy;
use super::{NAMESPACE, Place, name};

impl Place {
    /// A namespace behind a proxy.
    pub(crate) fn behind(&self, proxy: &Proxy) -> Namespace {
        let mut section: TdfSection = self.section();
        section.redis.port = proxy.address().port();
        Namespace::connect(&section.redis, NAMESPACE).unwrap()
    }
}

/// The original loses the task here, and no process dies.
#[test]
fn a_reply_that_is_lost_costs_nothing() {
    let mut place = Place::new();
    let proxy = Proxy::to(place.redis.address());
    let mut ours = place.behind(&proxy);
    // The scripts are known before, so that their replies are those that are lost.
    place.original.open(&Order::default());
    let warm = place.claim_one("w");
    place.execute(&warm, "", "");
    let ids = [(); 2].map(|()| place.original.open(&Order::default()));
    let worker = name("w");
    let claim = Claim { worker: &worker, token: "once", count: 1 };
    proxy.lose("");
    let error = ours.claim(&claim).unwrap_err();
    assert!(error.is_away(), "{error}");
    assert_eq!(place.sets(ids[0]), ["running"]);
    let claimed = ours.claim(&claim).unwrap();
    assert_eq!((claimed.len(), claimed[0].fence.task.0), (1, ids[0]));
    assert_eq!(place.sets(ids[1]), ["open"]);
    let fence = claimed[0].fence.clone();
    let report = Report { fence: &fence, ending: Ending::Executed { output: b"x", error: b"" }, log: &[] };
    proxy.lose("");
    assert!(ours.report(&report).unwrap_err().is_away());
    assert_eq!(ours.report(&report).unwrap(), Reported::Already);
    assert_eq!(place.sets(ids[0]), ["executed"]);
    // Both in one: neither is done twice.
    let next = Claim { token: "twice", ..claim };
    let second = ours.claim(&next).unwrap()[0].fence.clone();
    place.original.open(&Order::default());
    let report = Report { fence: &second, ..report };
    let third = Claim { token: "thrice", ..claim };
    proxy.lose("");
    assert!(ours.report_all(&[report], Some(&third)).unwrap_err().is_away());
    let (reported, claimed) = ours.report_all(&[report], Some(&third)).unwrap();
    assert_eq!((reported, claimed[0].fence.task.0), (vec![Reported::Already], 4));
    let running: u64 = place.original.redis.zcard("MyProgram:running").unwrap();
    assert_eq!(running, 1);
}

#[test]
fn an_open_whose_reply_is_lost_opens_once() {
    let mut place = Place::new();
    let proxy = Proxy::to(place.redis.address());
    let text = config(proxy.address(), NAMESPACE, "[manager]\n[task_defaults]\n");
    let path = place.redis.folder().join("proxied.cfg");
    std::fs::write(&path, text).unwrap();
    let config = api::config::ManagerConfig::load(&path).unwrap();
    let mut ours = place.behind(&proxy);
    let order = [tdf::shell::Order::new("p", "s", "")];
    let open = |ours: &mut Namespace| ours.open(&order, &config.task_defaults, 7, || 0.5);
    // The script is known before, so that its reply is the one that is lost.
    ours.open(&order, &config.task_defaults, 6, || 0.5).unwrap();
    proxy.lose("");
    assert_eq!(open(&mut ours).unwrap()[0].0, 2);
    // The token of the nonce still says so.
    assert_eq!(open(&mut ours).unwrap()[0].0, 2);
    assert_eq!(proxy.lost(), 1);
    let open: u64 = place.original.redis.zcard("MyProgram:open").unwrap();
    assert_eq!(open, 2);
}

/// The first answer of each connection, the answer to a script that is not known yet, and that of the script itself.
#[test]
fn a_command_and_a_component_that_starts_ask_again_when_an_answer_is_lost() {
    let mut place = Place::new();
    let proxy = Proxy::to(place.redis.address());
    let cfg = |name: &str, rest: &str| {
        let path = place.redis.folder().join(name);
        std::fs::write(path, config(proxy.address(), NAMESPACE, rest)).unwrap();
    };
    cfg("manager.cfg", "[manager]\n[task_defaults]\n");
    cfg("server.cfg", "[server]\nround_duration=0.05\n");
    ["PING", "EVALSHA", "\r\nEVAL\r\n"].iter().for_each(|mark| proxy.lose(mark));
    let opened = place.run(&["open", "manager.cfg", "p", "s", "x"]).ok();
    assert_eq!((&*opened.out, proxy.lost()), ("1\n", 3));
    let open: u64 = place.original.redis.zcard("MyProgram:open").unwrap();
    assert_eq!(open, 1);
    for command in [&["stats", "manager.cfg"][..], &["list", "manager.cfg"], &["show", "manager.cfg", "1"]] {
        let lost = proxy.lost();
        proxy.lose("EVAL");
        place.run(command).ok();
        assert_eq!(proxy.lost(), lost + 1);
    }
    proxy.lose("PING");
    place.start(&["server", "s", "server.cfg"]).stop().ok();
    assert_eq!(proxy.lost(), 7);
}

#[test]
fn what_is_no_redis_is_not_believed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let _ = (&client).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let place = Place::new();
    let mut section = place.section();
    (section.redis.host, section.redis.port) = ("127.0.0.1".to_owned(), port);
    let mut ours = match Namespace::connect(&section.redis, NAMESPACE) {
        Ok(ours) => ours,
        Err(_) => return,
    };
    assert!(ours.stats().is_err());
}

#[test]
fn a_key_of_another_type_is_an_error_that_changes_nothing() {
    let mut place = Place::new();
    let () = place.original.redis.set("MyProgram:open", "a string").unwrap();
    let worker = name("w");
    let error = place.ours.claim(&Claim { worker: &worker, token: "t", count: 1 }).unwrap_err();
    assert!(matches!(&error, RedisError::Failed { message, .. } if message.contains("WRONGTYPE")), "{error}");
    let () = place.original.redis.del("MyProgram:open").unwrap();
    let id = place.original.open(&Order::default());
    assert_eq!(place.claim_one("w").task.0, id);
}
