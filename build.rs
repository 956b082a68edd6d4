//! Reads the built-in configuration with the code that reads it when the program starts. A file that lacks a key, that has one
//! which nothing reads, or whose values are refused ends the build.

#[path = "src/config/mod.rs"]
#[expect(dead_code, unreachable_pub, unused_imports, reason = "the build only asks whether the defaults are read")]
mod config;
#[path = "src/types/mod.rs"]
#[expect(dead_code, unreachable_pub, unused_imports, reason = "what the configuration needs of it is little")]
mod types;

fn main() {
    for read in ["build.rs", "src/config", "src/types"] {
        println!("cargo::rerun-if-changed={read}");
    }
    if let Err(error) = config::Config::from_parts(None, []) {
        println!("cargo::error=src/config/defaults.toml: {error}");
    }
}
