//! The ways of agents and clients to a controller: one address, or several addresses and names.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::sections::ControllerSection;
use crate::types::Host;

impl ControllerSection {
    /// The ways of agents and clients to the requests: `tcp://IP:PORT`, or `tcp://HOST:PORT,HOST:PORT`.
    #[must_use]
    pub fn ways_of_requests(&self) -> Option<String> {
        self.ways(self.requests?)
    }

    /// The same, to the broadcasts.
    #[must_use]
    pub fn ways_of_broadcasts(&self) -> Option<String> {
        self.ways(self.broadcasts?)
    }

    /// The first of several ways to the requests, for programs that know one only; `None` if there is only one.
    #[must_use]
    pub fn first_way(&self) -> Option<String> {
        let (host, port) = (self.hosts.first()?, self.requests?.port());
        Some(format!("tcp://{host}:{port}"))
    }

    /// Finds the controller at these hosts, `HOST:PORT,HOST:PORT` with this port, and its broadcasts at the other port; `None` if the
    /// text is not such a list.
    pub(super) fn find_at(&mut self, hosts: &str, (port, broadcasts): (u16, Option<u16>)) -> Option<()> {
        let host = |text: &str| Host::parse(text.rsplit_once(':')?.0).map(|host| host.in_endpoint());
        let hosts = hosts.split(',').map(host).collect::<Option<Vec<_>>>()?;
        let ip = ip_of(&hosts);
        self.requests = Some(SocketAddr::new(ip, port));
        self.broadcasts = broadcasts.map(|port| SocketAddr::new(ip, port));
        self.hosts = if hosts == [Host::Ip(ip).in_endpoint()] { Vec::new() } else { hosts };
        Some(())
    }

    fn ways(&self, address: SocketAddr) -> Option<String> {
        if self.hosts.is_empty() {
            return Some(format!("tcp://{address}"));
        }
        let hosts: Vec<String> = self.hosts.iter().map(|host| format!("{host}:{}", address.port())).collect();
        Some(format!("tcp://{}", hosts.join(",")))
    }
}

/// The address that stands for some hosts: what other machines reach goes before loopback, and a name may be any address.
pub(super) fn ip_of(hosts: &[String]) -> IpAddr {
    let ips: Vec<Option<IpAddr>> = hosts.iter().map(|host| host.trim_matches(['[', ']']).parse().ok()).collect();
    let is_outside = |ip: &&IpAddr| !ip.to_canonical().is_loopback();
    let any = || IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    match ips.iter().flatten().find(is_outside) {
        Some(ip) => *ip,
        None => ips.first().copied().flatten().filter(|_| ips.iter().all(Option::is_some)).unwrap_or_else(any),
    }
}
