//! When a worker of ours is lost, and when only Redis was away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::tdf::Fence;
use redis::Commands as _;
use rustix::process::Signal;
use tdf::shell::Namespace;

use super::ground::{self, Redis};
use super::original::{Order, now};
use super::proxy::Proxy;
use super::{NAMESPACE, Place, name};
use testkit::{eventually, pass};

/// An outage longer than the rest of a lease, and longer than the pauses of a Redis that answers.
const OUTAGE: Duration = Duration::from_secs(5);

/// The rest of a lease when the outage begins.
const LEFT: f64 = 3.0;

impl Place {
    /// The lease of a run ends then, in unix seconds.
    fn lease_until(&mut self, fence: &Fence, end: f64) {
        let lease = format!("{} {} {end} {}", fence.round, fence.started, fence.worker);
        let () = self.original.redis.hset("MyProgram:llts:leases", fence.task.0, lease).unwrap();
    }

    /// A server has looked at everything that runs, after this was called.
    fn has_a_round(&mut self) {
        let id = self.original.open(&Order { end_before: "1", ..Order::default() });
        eventually("a round of the server", || self.sets(id) == ["expired"]);
    }
}

fn seconds() -> f64 {
    now().parse().unwrap()
}

#[test]
fn the_worker_of_an_expired_lease_is_lost_and_counts_nothing() {
    let mut place = Place::new();
    place.configs();
    let id = place.original.open(&Order::default());
    let server = place.start(&["server", "one", "server.cfg"]);
    for loss in 1..=4_u32 {
        let fence = place.claim_one("w");
        // As if it had not renewed it for long.
        place.lease_until(&fence, 1000.0);
        if loss == 1 {
            place.has_a_round();
            assert_eq!(place.sets(id), ["running"], "the server has just begun: the worker may renew it");
        }
        let set = if loss <= 3 { "open" } else { "failed" };
        eventually("the loss", || place.sets(id) == [set]);
        if loss <= 3 {
            assert_eq!(place.get(id, "round").unwrap(), "0");
            assert_eq!((place.get(id, "fails").unwrap(), place.get(id, "timeouts").unwrap()), ("0".into(), "0".into()));
            assert_eq!(place.log(id).last().unwrap(), "moving task 1: running -> open (worker w lost)");
        }
    }
    assert_eq!(place.get(id, "0:error").unwrap(), "worker w lost; that is one loss more than the 3 that are allowed\n");
    place.original.assert_readable(id);
    server.stop().ok();
}

/// Leases end while Redis is away, and a server may be the first to reach it again.
fn a_worker_keeps_its_run_over(outage: impl FnOnce(&mut Place)) {
    let mut place = Place::on(Redis::durable());
    place.configs();
    let server = place.start(&["server", "one", "server.cfg"]);
    let lost = place.original.open(&Order::default());
    let fence = place.claim_one("w");
    place.lease_until(&fence, 1000.0);
    eventually("a server that judges leases", || place.sets(lost) == ["open"]);
    let fence = place.claim_one("w");
    assert_eq!(fence.task.0, lost);

    place.lease_until(&fence, seconds() + LEFT);
    outage(&mut place);
    place.has_a_round();
    assert_eq!(place.sets(lost), ["running"]);
    let mut renewed = || place.ours.renew(&name("w"), std::slice::from_ref(&fence));
    eventually("a renewal", || renewed().is_ok_and(|lost| lost.is_empty()));
    drop(server);
}

#[test]
fn a_worker_is_not_lost_because_redis_was_frozen() {
    a_worker_keeps_its_run_over(|place| {
        place.redis.signal(Signal::STOP);
        pass(OUTAGE);
        place.redis.signal(Signal::CONT);
    });
}

#[test]
fn a_worker_is_not_lost_because_redis_was_restarted() {
    a_worker_keeps_its_run_over(|place| {
        place.redis.kill();
        pass(OUTAGE);
        place.redis.start_again();
        place.original.redis = place.redis.connect();
    });
}

/// Between the look of a server and its move.
#[test]
fn a_worker_that_renews_its_lease_late_keeps_its_run() {
    let mut place = Place::new();
    let proxy = Proxy::to(place.redis.address());
    let server = ground::config(proxy.address(), NAMESPACE, "[server]\nround_duration=0.05\n");
    std::fs::write(place.redis.folder().join("proxied.cfg"), server).unwrap();
    let id = place.original.open(&Order::default());
    let fence = place.claim_one("w");
    place.lease_until(&fence, 1000.0);
    let is_late = Arc::new(AtomicBool::new(false));
    proxy.before("[\"lost\",", {
        let (section, is_late) = (place.section(), Arc::clone(&is_late));
        move || {
            let mut worker = Namespace::connect(&section.redis, NAMESPACE).unwrap();
            assert!(worker.renew(&fence.worker, std::slice::from_ref(&fence)).unwrap().is_empty());
            is_late.store(true, Ordering::SeqCst);
        }
    });
    let server = place.start(&["server", "one", "proxied.cfg"]);
    eventually("a renewal", || is_late.load(Ordering::SeqCst));
    place.has_a_round();
    assert_eq!(place.sets(id), ["running"]);
    server.stop().ok();
}
