//! A way to Redis that loses an answer: the connection breaks when the script has run.

use std::io::{Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What a test does before a request is passed on.
type Hook = Box<dyn FnOnce() + Send>;

/// What the next answer to a matching request is worth.
#[derive(Default)]
struct Plan {
    /// What a request must hold for the hook to be called first.
    hooks: std::sync::Mutex<Vec<(Vec<u8>, Hook)>>,
    /// What a request must hold for its answer to be lost.
    marks: std::sync::Mutex<Vec<Vec<u8>>>,
    lost: AtomicUsize,
    is_over: AtomicBool,
}

impl Plan {
    /// The next hook of a request that `holds` its mark. It is called without the lock, so that it holds up this connection alone.
    fn hook(&self, holds: impl Fn(&[u8]) -> bool) -> Option<Hook> {
        let mut hooks = self.hooks.lock().expect("a lock");
        let at = hooks.iter().position(|(mark, _)| holds(mark))?;
        Some(hooks.remove(at).1)
    }
}

pub(crate) struct Proxy {
    address: SocketAddr,
    plan: Arc<Plan>,
}

impl Proxy {
    pub(crate) fn to(redis: SocketAddr) -> Self {
        let listener = TcpListener::bind((redis.ip(), 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let plan = Arc::<Plan>::default();
        let theirs = Arc::clone(&plan);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if theirs.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let plan = Arc::clone(&theirs);
                std::thread::spawn(move || {
                    if let Ok(server) = TcpStream::connect(redis) {
                        pass(&client, &server, &plan);
                    }
                    let _ = client.shutdown(Shutdown::Both);
                });
            }
        });
        Self { address, plan }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Loses the answer to the next request that holds this; once, however often it was said before.
    pub(crate) fn lose(&self, mark: &str) {
        let mut marks = self.plan.marks.lock().expect("a lock");
        if !marks.iter().any(|known| known == mark.as_bytes()) {
            marks.push(mark.into());
        }
    }

    /// Does this before the next request that holds `mark` is passed on.
    pub(crate) fn before(&self, mark: &str, hook: impl FnOnce() + Send + 'static) {
        self.plan.hooks.lock().expect("a lock").push((mark.into(), Box::new(hook)));
    }

    /// Answers that were lost.
    pub(crate) fn lost(&self) -> usize {
        self.plan.lost.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.plan.is_over.store(true, Ordering::SeqCst);
        // Wakes it.
        let _ = TcpStream::connect(self.address);
    }
}

/// Passes requests on from one thread and answers from another, so that a subscription is passed on, too.
fn pass(client: &TcpStream, server: &TcpStream, plan: &Arc<Plan>) {
    let is_cut = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            each_piece(client, |bytes| {
                let holds = |mark: &[u8]| mark.is_empty() || bytes.windows(mark.len()).any(|window| window == mark);
                while let Some(hook) = plan.hook(holds) {
                    hook();
                }
                let mut marks = plan.marks.lock().expect("a lock");
                let found = marks.iter().position(|mark| holds(mark));
                if let Some(at) = found {
                    marks.remove(at);
                    is_cut.store(true, Ordering::SeqCst);
                }
                let mut server = server;
                server.write_all(bytes).is_ok()
            });
            let _ = server.shutdown(Shutdown::Both);
        });
        each_piece(server, |bytes| {
            if is_cut.load(Ordering::SeqCst) {
                plan.lost.fetch_add(1, Ordering::SeqCst);
                return false;
            }
            let mut client = client;
            client.write_all(bytes).is_ok()
        });
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    });
}

fn each_piece(mut from: &TcpStream, mut take: impl FnMut(&[u8]) -> bool) {
    let mut bytes = vec![0; 1 << 20];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        if !take(&bytes[..length]) {
            return;
        }
    }
}
