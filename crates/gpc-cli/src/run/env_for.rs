//! The addresses of nodes, for the variables of `--env-for`. The node of rank 0 finds the port.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};

use chained_gpc::runtime::{Address, Peers};
use gpc_trees::Id;

/// Returns the address by which the others reach each of these nodes. Nodes without a TCP port are on this machine.
pub(super) fn addresses(nodes: &[Id], peers: &Peers) -> BTreeMap<Id, String> {
    let own = loopback();
    let address = |id: &Id| match peers.address(*id) {
        Some(Address::Tcp(address)) => (*id, address.ip().to_string()),
        _ => (*id, own.to_string()),
    };
    nodes.iter().map(address).collect()
}

/// The loopback address of this machine, which may have that of IPv6 alone.
fn loopback() -> IpAddr {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, 0)) {
        Err(_) if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() => Ipv6Addr::LOCALHOST.into(),
        _ => Ipv4Addr::LOCALHOST.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_the_address_that_the_others_know() {
        let mut peers = Peers::new();
        peers.insert(1, "10.0.0.1:7000".parse().unwrap());
        peers.insert(2, "[fd00::2]:7000".parse().unwrap());
        peers.insert(3, "unix:/tmp/s".parse().unwrap());
        let known = addresses(&[0, 1, 2, 3], &peers);
        let known: Vec<&str> = known.values().map(String::as_str).collect();
        assert_eq!(known, ["127.0.0.1", "10.0.0.1", "fd00::2", "127.0.0.1"]);
    }
}
