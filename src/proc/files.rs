//! Files and folders: written as a whole, replaced atomically, watched, and removed without entering mounts.

pub mod disk_room;
pub mod draft;
pub mod file_copy;
pub mod file_digest;
pub mod file_part;
pub mod file_stamp;
pub mod folder_watch;
pub mod privacy;
pub mod removal;
pub mod rename;
pub mod state_file;
