//! A small HTTP server that a test plays.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a client asks for.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) path: String,
    headers: Vec<(String, String)>,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<String> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }
}

/// What it is answered.
pub(super) struct Answer {
    head: String,
    body: Vec<u8>,
    /// What follows the body.
    rest: Rest,
}

#[derive(PartialEq)]
enum Rest {
    /// The end.
    None,
    /// The body, again and again.
    Endless,
    /// Nothing, without an end.
    Silence,
}

impl Answer {
    pub(super) fn ok(body: &[u8]) -> Self {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", body.len());
        Self { head, body: body.to_vec(), rest: Rest::None }
    }

    pub(super) fn status(status: &str) -> Self {
        let length = if status.starts_with("304") { "" } else { "Content-Length: 0\r\n" };
        Self { head: format!("HTTP/1.1 {status}\r\n{length}"), body: Vec::new(), rest: Rest::None }
    }

    /// Less than it says.
    pub(super) fn cut(body: &[u8], length: usize) -> Self {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n");
        Self { head, body: body.to_vec(), rest: Rest::None }
    }

    /// Less than it says, and then nothing.
    pub(super) fn stuck(body: &[u8]) -> Self {
        Self { rest: Rest::Silence, ..Self::cut(body, 1000) }
    }

    /// Of no length, until the client goes.
    pub(super) fn endless() -> Self {
        Self { head: "HTTP/1.1 200 OK\r\n".to_owned(), body: vec![b'#'; 1000], rest: Rest::Endless }
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.head.push_str(&format!("{name}: {value}\r\n"));
        self
    }
}

#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<Request>>,
    one_more: Condvar,
}

/// Answers until it is dropped.
pub(super) struct Server {
    address: SocketAddr,
    seen: Arc<Seen>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, stop) = (Arc::<Seen>::default(), Arc::<AtomicBool>::default());
        let (their_seen, their_stop, answer) = (Arc::clone(&seen), Arc::clone(&stop), Arc::new(answer));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if their_stop.load(Ordering::SeqCst) {
                    return;
                }
                let (seen, stop, answer) = (Arc::clone(&their_seen), Arc::clone(&their_stop), Arc::clone(&answer));
                std::thread::spawn(move || serve(&stream, &seen, &stop, &*answer));
            }
        });
        Self { address, seen, stop, thread: Some(thread) }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.seen.requests.lock().unwrap().clone()
    }

    pub(super) fn wait_for_requests(&self, count: usize) {
        let requests = self.seen.requests.lock().unwrap();
        let patience = Duration::from_mins(1);
        let (_requests, timeout) =
            self.seen.one_more.wait_timeout_while(requests, patience, |seen| seen.len() < count).unwrap();
        assert!(!timeout.timed_out(), "no request");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes it.
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn serve(stream: &TcpStream, seen: &Seen, stop: &AtomicBool, answer: &dyn Fn(&Request) -> Answer) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    let headers = lines.by_ref().take_while(|line| !line.is_empty());
    let headers = headers.filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_ascii_lowercase(), value.to_owned()))
    });
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let request = Request { path, headers: headers.collect() };
    let said = answer(&request);
    seen.requests.lock().unwrap().push(request);
    seen.one_more.notify_all();
    let mut out = stream;
    let head = format!("{}Connection: close\r\n\r\n", said.head);
    if out.write_all(head.as_bytes()).and_then(|()| out.write_all(&said.body)).is_err() {
        return;
    }
    while said.rest == Rest::Silence && !stop.load(Ordering::SeqCst) {
        std::thread::park_timeout(Duration::from_millis(5));
    }
    while said.rest == Rest::Endless && !stop.load(Ordering::SeqCst) && out.write_all(&said.body).is_ok() {}
}
