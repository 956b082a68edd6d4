//! What those ask who look after tasks, agents and gates: explain, retry, hold, drain, gates.

use super::{Client, ClientError};
use crate::protocol::client::{self as wire, Explanation, GateChange, GateRow, Listing};

impl Client {
    /// Why a task stands where it does, and its log.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn explain(&self, task: &str) -> Result<Explanation, ClientError> {
        self.request(&wire::explain(task)).map(Explanation::from)
    }

    /// Asks for another round of a task that has finished.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn retry(&self, task: &str) -> Result<(), ClientError> {
        self.request(&wire::retry(task)).map(drop)
    }

    /// Keeps a task from starting, or lets it.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn hold(&self, task: &str, hold: bool) -> Result<(), ClientError> {
        self.request(&wire::hold(task, hold)).map(drop)
    }

    /// Gives an agent no more tasks, or does again. The agent need not be there.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn drain(&self, agent: &str, drain: bool) -> Result<(), ClientError> {
        self.request(&wire::drain(agent, drain)).map(drop)
    }

    /// How a gate stands. One that nobody has set or named is open.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn gate(&self, name: &str) -> Result<GateRow, ClientError> {
        self.request(&wire::gate(name)).map(GateRow::from)
    }

    /// How all gates stand that are known, by their names.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn gates(&self) -> Result<Listing<GateRow>, ClientError> {
        Ok(wire::decode_listing(&self.ask(&wire::gates())?)?)
    }

    /// Changes what a gate lets pass.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn set_gate(&self, name: &str, change: &GateChange) -> Result<(), ClientError> {
        self.request(&wire::set_gate(name, change)).map(drop)
    }
}
