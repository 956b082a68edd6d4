//! The certificates that HTTPS clients of llts trust.

use ureq::tls::{RootCerts, TlsConfig};

/// Trusts the certificates that this machine trusts, including those of a company's own authority.
pub fn of_machine() -> TlsConfig {
    TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build()
}
