//! ZMTP 3.1 and CURVE: connections without I/O, sockets around them, pushes, and JSON over TCP.
//!
//! The crate speaks the protocol of ZeroMQ without libzmq. A state machine consumes and produces bytes, and sockets
//! carry them inside the caller's loop. Threads are used only for calls that would block, such as looking up a host
//! name. Every queue, frame and connection count has a limit. Within the workspace, the crate depends on `base` and
//! `proc` only.
//!
//! | module | content |
//! |---|---|
//! | [`engine`] | one connection: bytes in, events and bytes out (pure) |
//! | [`endpoint`] | which connections are accepted, which give way, when one is made again (pure) |
//! | [`push`] | which address gets a socket, and when its frames are written or dropped (pure) |
//! | [`sockets`] | the sockets of a loop: ports of a server, an agent's link, a client's requester and pipe |
//! | [`push_io`] | the sockets of pushes, and the thread that looks up host names |
//! | [`envelope`] | the frames around a request |
//! | [`curve_keys`] | keys in files, and the folder of authorised keys |
//! | [`port`] | errors, limits, and connections as data for another version of the program |
//! | [`json`] | a server and a client for JSON objects over TCP, with CURVE for both |
//!
//! # States and events
//!
//! An [`engine::Connection`] is in its greeting, in its handshake, open, or at its end. Input becomes an
//! [`engine::Event`], such as a message or a subscription. An [`engine::DisconnectReason`] ends the connection. A
//! receiver of pushes ([`push::Delivery`]) waits for a socket, connects, is served, or is given up; each
//! [`push::Effect`] tells the shell what to do.
//!
//! # Callers
//!
//! Controllers use [`sockets::Ports`] and [`push_io::Pusher`], agents [`sockets::Link`], clients [`sockets::Requester`] and
//! [`sockets::Pipe`]. Masters of prompts and task lists use [`json::json_server::JsonServer`].
//!
//! # The way of a request
//!
//! 1. [`sockets::Ports::wait`] finds a readable peer. The [`sockets::Endpoint`] reads a chunk from it, then turns to
//!    the next peer.
//! 2. [`engine::Connection::handle_input`] checks each length before it stores a byte, and returns an [`engine::Event`].
//! 3. [`sockets::Ports::receive`] returns the frames of a message. [`envelope::open`] separates the return address
//!    ([`envelope::ReplyTo`]).
//! 4. The caller decides, and puts the answer into the same envelope.
//! 5. [`sockets::Ports::send`] queues it in the outbox of the peer. [`sockets::Ports::flush`] writes many messages at once.
//! 6. A change of a task with a push address goes to [`push_io::Pusher::push`]. Each turn of the loop does a bounded
//!    part of the pushes, whatever the receivers do.
//!
//! Two connections that talk to each other, without a socket:
//!
//! ```
//! use std::time::Duration;
//!
//! use base::Mono;
//! use zmtp::engine::{Connection, Event, Kind, Limits, Security, Settings};
//!
//! /// Carries the output of one side to the other one.
//! fn carry(from: &mut Connection, to: &mut Connection, now: Mono) -> Vec<Event> {
//!     let bytes = from.output().to_vec();
//!     from.handle_written(now, bytes.len());
//!     let (mut input, mut events) = (&bytes[..], Vec::new());
//!     while let Some(event) = to.handle_input(now, &mut input).expect("valid bytes") {
//!         events.push(event);
//!     }
//!     events
//! }
//!
//! /// Carries bytes both ways until both sides are silent; the events of the server.
//! fn converse(client: &mut Connection, server: &mut Connection, now: Mono) -> Vec<Event> {
//!     let mut events = Vec::new();
//!     while !(client.output().is_empty() && server.output().is_empty()) {
//!         events.extend(carry(client, server, now));
//!         carry(server, client, now);
//!     }
//!     events
//! }
//!
//! let limits = Limits {
//!     message_bytes_max: 1000,
//!     long: None,
//!     parts_max: 4,
//!     queue_messages_max: 8,
//!     queue_bytes_max: 4000,
//!     handshake_timeout: Duration::from_secs(3),
//!     stall_timeout: Duration::from_secs(30),
//!     ping_interval: None,
//! };
//! let settings = |kind| Settings { kind, limits: limits.clone(), security: Security::Null };
//! let now = Mono::from_nanos(0);
//! let mut client = Connection::new(now, settings(Kind::Req), [1; 32]);
//! let mut server = Connection::accepted(now, settings(Kind::Rep), [2; 32]);
//!
//! let events = converse(&mut client, &mut server, now);
//! assert!(matches!(events[..], [Event::Opened(_)]));
//!
//! client.send(now, &[b"".as_slice(), b"hello".as_slice()]).expect("room in the queue");
//! let events = converse(&mut client, &mut server, now);
//! assert_eq!(events, [Event::Message(vec![b"".to_vec(), b"hello".to_vec()])]);
//! ```

pub mod curve_keys;
pub mod endpoint;
pub mod engine;
pub mod envelope;
pub mod port;
pub mod push;
pub mod push_io;
pub mod sockets;

pub mod json;
