//! A stream of JSON objects over TCP, for prompts and lists: a server and a client, both with optional CURVE.

pub mod json_connection;
pub mod json_dial;
pub mod json_link;
pub mod json_server;
pub mod json_wire;
pub mod split;
