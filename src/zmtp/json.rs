//! JSON objects over TCP, one after the other, for prompts and lists: a server, a client, and CURVE for both.

pub mod json_connection;
pub mod json_dial;
pub mod json_link;
pub mod json_server;
pub mod json_wire;
pub mod split;
