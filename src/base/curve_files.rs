//! The paths of CURVE keys.

use std::path::PathBuf;

/// Paths of a controller's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurveServerFiles {
    /// The file with its secret key.
    pub secret_key: PathBuf,
    /// The folder with one file for each authorised public key.
    pub authorised_keys: PathBuf,
}

/// Paths of the keys of an agent or a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurveClientFiles {
    /// The file with its secret key.
    pub secret_key: PathBuf,
    /// The file with the public key of the controller.
    pub server_key: PathBuf,
}
