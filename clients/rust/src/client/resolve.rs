//! The address of a controller as sentences show it: `tcp://IP:PORT` for `tcp://NAME:PORT`, so that a user sees what a name means. Each
//! connection looks the name up anew.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::ClientError;
use base::{Host, split_tcp};
use zmtp::sockets::Address;

/// Parses an endpoint, and resolves its name if it has one, within `patience`. Several addresses and names stay as they are.
pub(super) fn resolve(endpoint: &str, patience: Duration) -> Result<String, ClientError> {
    if let Ok(address) = Address::parse(endpoint) {
        return Ok(address.to_string());
    }
    if let Some((first, others)) = endpoint.split_once(',') {
        let mut all = std::iter::once(first.to_owned()).chain(others.split(',').map(|host| format!("tcp://{host}")));
        return match all.all(|one| split_tcp(&one).is_ok()) {
            true => Ok(endpoint.to_owned()),
            false => Err(ClientError::BadEndpoint { endpoint: endpoint.to_owned() }),
        };
    }
    let unresolved = |why: String| ClientError::Unresolved { endpoint: endpoint.to_owned(), why };
    let address = match split_tcp(endpoint) {
        Ok((Host::Ip(ip), port)) => (ip, port).into(),
        // A connection tries each address of a name.
        Ok((Host::Name(name), port)) => *look_up(name, port, patience)
            .map_err(unresolved)?
            .first()
            .ok_or_else(|| unresolved("the name has no address".to_owned()))?,
        Err(_) => return Err(ClientError::BadEndpoint { endpoint: endpoint.to_owned() }),
    };
    Ok(Address::Tcp(address).to_string())
}

/// A name server that does not answer blocks its caller for longer than a user waits, hence the thread.
fn look_up(name: String, port: u16, patience: Duration) -> Result<Vec<SocketAddr>, String> {
    let (sender, answer) = mpsc::channel();
    let ask = move || {
        let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
        // The caller may have given up.
        let _ = sender.send(found);
    };
    std::thread::Builder::new().name("resolve".into()).spawn(ask).map_err(|error| error.to_string())?;
    match answer.recv_timeout(patience) {
        Ok(found) => found.map_err(|error: io::Error| error.to_string()),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            Err(format!("the name is not resolved within {} ms", patience.as_millis()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn an_address_stays_as_it_is_and_a_name_is_looked_up() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        for endpoint in [format!("tcp://{address}"), format!("tcp://localhost:{}", address.port())] {
            assert_eq!(resolve(&endpoint, PATIENCE).unwrap(), format!("tcp://{address}"), "{endpoint}");
        }
        assert_eq!(resolve("ipc://a", PATIENCE).unwrap(), "ipc://a");
        assert_eq!(resolve("tcp://a:1,[::1]:2", PATIENCE).unwrap(), "tcp://a:1,[::1]:2");
    }

    #[test]
    fn a_name_is_looked_up() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let named = |host: &str| resolve(&format!("tcp://{host}:{port}"), PATIENCE);
        assert_eq!(named("localhost").unwrap(), format!("tcp://127.0.0.1:{port}"));
        assert_eq!(named("127.0.0.1").unwrap(), format!("tcp://127.0.0.1:{port}"));
        assert_eq!(named("[::1]").unwrap(), format!("tcp://[::1]:{port}"));
        let unknown = named("there-is-no-such-host.invalid").unwrap_err();
        assert!(matches!(unknown, ClientError::Unresolved { .. }), "{unknown}");
        assert!(unknown.to_string().contains("there-is-no-such-host.invalid"), "{unknown}");
    }

    #[test]
    fn what_is_no_endpoint_is_refused_with_what_to_write() {
        for endpoint in [
            "",
            "x",
            "tcp://",
            "tcp://a:1,",
            "tcp://a:1,b",
            "tcp://:1",
            "tcp://*:1",
            "tcp://a:0",
            "tcp://a:65536",
            "tcp://a b:1",
            "ipc://",
            "tcp://no..name:1",
            "tcp://127.1:1",
        ] {
            let error = resolve(endpoint, PATIENCE).unwrap_err();
            assert!(matches!(error, ClientError::BadEndpoint { .. }), "{endpoint}: {error}");
            assert!(error.to_string().contains("write tcp://IP:PORT, tcp://NAME:PORT or ipc://PATH"), "{error}");
        }
    }
}
