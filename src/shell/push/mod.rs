//! Pushes states of tasks to the addresses that submitters named.
//!
//! [`PushAddress`](crate::types::PushAddress) is what a submitter may name, under a policy; [`Pusher`] delivers to it, inside the loop
//! of its caller. What a frame says is not looked at here.
//!
//! An address with a key is somebody else than the same one without: it is connected to with CURVE, and nothing that is for it
//! ever goes any other way. Who does not prove to have the secret to the key is to us as if nobody were there.
//!
//! One DEALER socket for each address stays open while it is used. Frames for an address arrive in the order of the pushes
//! while its connection lasts. A frame may be lost: when the connection breaks, those that the transport and the kernel have taken
//! are gone ([`wire`] says how many); all other losses are counted in [`PushCounts`].
//!
//! ```text
//! push  --> table: peer with its queue       turn:  poller --> who has news --> marked
//! flush --> marked peers: queue --> wire            timers --> marked, closed, given up
//!                                                   marked --> wire: one socket --> inbox
//!                                                   line   --> room: who gets a socket
//!                                                              resolve: names, on a thread
//! ```
//!
//! # What an address may cost
//!
//! Addresses are dead, slow or hostile, and the loop has other things to do. Nothing here waits: no socket ever blocks, and names
//! are looked up elsewhere. A turn, with the flushes that belong to it, does at the most ([`turn`]):
//!
//! | what | at the most | why it ends |
//! |---|---|---|
//! | sockets served | 64, and none after 1 MiB; each 16 KiB in, 256 KiB out; a step of a handshake with keys counts for 64 KiB | endless input, fast readers with long queues, floods of keys |
//! | timers | 64, each of which may close a socket | thousands of addresses given up at the same time |
//! | admissions to a socket | 16, each with a look at all addresses if somebody has to make room | floods of dead addresses |
//! | answers of the resolver | 16, each with a look at all addresses | floods of names |
//!
//! With 256 frames that one turn pushes to one address comes one more service of its socket: that is paid by the pushes. What is left
//! comes first in the next turn, and everybody has a turn before anybody has a second one; meanwhile the loop has seen to its other
//! peers. So an address can take a share of the processor, but neither delay the others for long nor stop the loop.

mod complaints;
mod counts;
mod deadlines;
mod inbox;
mod pace;
mod peer;
mod poller;
mod pusher;
mod queue;
mod resolve;
mod room;
mod table;
mod turn;
mod wire;

pub use counts::PushCounts;
pub use inbox::Received;
pub use pusher::{PushConfig, Pusher};
