//! Homes, with the real binary: which service a command means from which folder, what a fresh home begins with, and what is no home.
//! `HOME` and the folders of XDG are temporary.

mod bad_input;
mod contexts;
mod elsewhere;
mod files;
mod fresh;
mod full;
mod init;
mod interrupts;
mod join;
mod outputs;
mod places;
mod transfers;
mod travel;
mod user;
