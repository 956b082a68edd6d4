//! The certificates that HTTPS clients of llts trust.

use ureq::tls::{RootCerts, TlsConfig};

/// Trust in the certificates that this machine trusts, which include those of a company's own authority.
pub fn of_machine() -> TlsConfig {
    TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build()
}
