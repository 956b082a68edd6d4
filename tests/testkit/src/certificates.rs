//! Certificates of a server for tests, with the authority that they are checked with.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

/// `ca.pem` is the authority, `s.pem` and `s.key` are the server at this address, `c.pem` and `c.key` the client of this name.
const SCRIPT: &str = "set -e
    openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ca
    openssl req -newkey rsa:2048 -nodes -keyout s.key -out s.csr -subj /CN=server
    printf 'subjectAltName=IP:%s\\nbasicConstraints=CA:FALSE\\n' $1 > ext
    openssl x509 -req -in s.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out s.pem -days 2 -extfile ext
    printf 'basicConstraints=CA:FALSE\\n' > own
    openssl req -newkey rsa:2048 -nodes -keyout c.key -out c.csr -subj /CN=$2
    openssl x509 -req -in c.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out c.pem -days 2 -extfile own";

/// Makes them in a folder.
pub fn make_certificates(folder: &Path, ip: IpAddr, client: &str) {
    let made = Command::new("sh").args(["-c", SCRIPT, "sh", &ip.to_string(), client]).current_dir(folder).output();
    let made = made.expect("sh and openssl run");
    assert!(made.status.success(), "{made:?}");
}
