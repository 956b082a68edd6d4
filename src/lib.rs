//! llts
