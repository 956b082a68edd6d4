//! The pushes, without sockets: a change of a task to a connected receiver, among other connected receivers.

use std::sync::Arc;
use std::time::Duration;

use base::{AddressPolicy, Mono, PushAddress};
use divan::counter::ItemsCount;
use zmtp::engine::KeyPair;
use zmtp::push::{Delivery, Effect, Progress, PushConfig, Served};

#[global_allocator]
static ALLOC: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}

const NOW: Mono = Mono::from_nanos(0);

/// The number of pushes in one sample.
const PUSHES: usize = 1000;

fn delivery() -> Delivery {
    let config = PushConfig {
        sockets_max: 900,
        queue_max: 10_000,
        queue_bytes_max: 1 << 24,
        connect_timeout: Duration::from_secs(30),
        idle_timeout: Duration::from_secs(60),
        linger: Duration::from_secs(1),
        acknowledgements_max: 0,
        policy: AddressPolicy::everything(),
    };
    Delivery::new(config, KeyPair::from_bytes([1; 32]).public())
}

/// The part of the shell, with streams that accept everything.
fn perform(delivery: &mut Delivery) {
    delivery.handle_flush();
    while let Some(effect) = delivery.poll_effect(NOW) {
        let Effect::Serve { id, .. } = effect else { continue };
        let Some(mut exchange) = delivery.exchange(NOW, id) else { continue };
        let mut sent = 0;
        while exchange.poll_transmit().is_some() {
            divan::black_box(exchange.handle_transmitted(NOW));
            sent += 1;
        }
        let served = Served {
            progress: Progress::Settled,
            sent,
            received: 0,
            bytes: sent,
            is_up: true,
            has_written: sent > 0,
            is_blocked: false,
            is_drained: true,
            is_reached: true,
        };
        delivery.handle_served(NOW, id, &served);
    }
}

/// Each push is flushed separately, as for a task that changes alone. The one allocation of each is the frame.
#[divan::bench(args = [1, 100, 800])]
fn push(bencher: divan::Bencher<'_, '_>, receivers: u16) {
    let policy = AddressPolicy::everything();
    let address = |port| Arc::new(PushAddress::parse(&format!("tcp://127.0.0.1:{port}"), &policy).expect("an address"));
    let addresses: Vec<Arc<PushAddress>> = (1..=receivers).map(address).collect();
    let mut delivery = delivery();
    for address in &addresses {
        delivery.handle_turn();
        delivery.handle_push(NOW, NOW, address, vec![0; 200]);
        perform(&mut delivery);
    }
    bencher.counter(ItemsCount::new(PUSHES)).bench_local(|| {
        for address in addresses.iter().cycle().take(PUSHES) {
            delivery.handle_turn();
            delivery.handle_push(NOW, NOW, address, vec![0; 200]);
            perform(&mut delivery);
        }
    });
    assert_eq!(delivery.counts().dropped(), 0);
}
