//! Unix sockets between nodes of the same host that know each other by TCP addresses.
//!
//! A node that listens on TCP also listens at a Unix socket whose abstract name contains the TCP address. A node that
//! connects to an address of its own host tries that name first. If no process of an allowed user listens there, it
//! uses TCP.
//!
//! Abstract names belong to a network namespace, as TCP addresses do, so the name identifies the same node. Any process
//! can bind a name, so the system's report of the listener's user is checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tracing::debug;

use super::users::Users;
use crate::transport::{Accepting, Address, Listener, Socket};

/// The socket name of a TCP address.
fn name(address: SocketAddr) -> Address {
    Address::Abstract(format!("gpc-tcp-{address}"))
}

/// Listens for nodes of this host beside a TCP address; `None` if that fails: they connect over TCP then.
pub(super) fn listen(address: &Address) -> Option<Accepting> {
    let Address::Tcp(address) = address else { return None };
    match Listener::bind(&name(*address)).and_then(Listener::into_accepting) {
        Ok(listener) => Some(listener),
        Err(error) => {
            debug!(%error, "nodes of this host will connect over TCP");
            None
        }
    }
}

/// Connects to the node at a TCP address by its socket name; `None` if the node must use TCP. `own_address` is the
/// listener of this node.
pub(super) fn connect(
    to: &Address,
    own_address: Option<&Address>,
    rings: bool,
    users: &Users,
) -> Option<Socket> {
    let Address::Tcp(to) = *to else { return None };
    if !is_same_host(to.ip(), own_address) {
        return None;
    }
    // The peer may listen at the unspecified address.
    let all = match to.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    [to, SocketAddr::new(all, to.port())].into_iter().find_map(|address| {
        let socket = Socket::connect(&name(address), rings).ok()?;
        users.check(&socket).is_ok().then_some(socket)
    })
}

/// Whether an address surely belongs to this host: a loopback address, or the address of this node's own listener.
fn is_same_host(ip: IpAddr, own_address: Option<&Address>) -> bool {
    let same =
        |own_address: &Address| matches!(own_address, Address::Tcp(own_address) if own_address.ip() == ip);
    ip.is_loopback() || (!ip.is_unspecified() && own_address.is_some_and(same))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::SharedMemory as _;

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn only_addresses_of_this_host_use_unix_sockets() {
        let own_address = address("10.1.2.3:80");
        for (ip, here) in [("127.0.0.1", true), ("127.9.9.9", true), ("::1", true), ("10.1.2.3", true)] {
            assert_eq!(is_same_host(ip.parse().unwrap(), Some(&own_address)), here, "{ip}");
        }
        for ip in ["10.1.2.4", "0.0.0.0", "::", "192.0.2.1"] {
            assert!(!is_same_host(ip.parse().unwrap(), Some(&own_address)), "{ip}");
            assert!(!is_same_host(ip.parse().unwrap(), Some(&address("0.0.0.0:80"))), "{ip}");
        }
        assert!(!is_same_host("10.1.2.3".parse().unwrap(), None));
        assert!(!is_same_host("10.1.2.3".parse().unwrap(), Some(&address("unix:@x"))));
    }

    #[test]
    fn a_node_is_found_by_its_address_and_by_that_of_all() {
        let users = Users::new(Vec::new());
        // The bound TCP port reserves the socket name.
        for (listens, called) in [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("[::1]", "[::1]")] {
            let Ok(tcp) = Listener::bind(&address(&format!("{listens}:0"))) else { continue };
            let there = tcp.address().unwrap();
            let Address::Tcp(socket) = there else { panic!("{there}") };
            let target = address(&format!("{called}:{}", socket.port()));
            assert!(connect(&target, None, true, &users).is_none(), "there is no listener yet");
            let accepting = listen(&there).unwrap();
            assert!(connect(&target, None, true, &users).is_some_and(|socket| socket.offers_memory()));
            assert!(connect(&target, None, false, &users).is_some_and(|socket| !socket.offers_memory()));
            assert!(listen(&there).is_none(), "a name that is taken is left alone");
            drop(accepting);
            assert!(connect(&target, None, true, &users).is_none(), "the name goes with its node");
        }
        assert!(listen(&address("unix:@gpc-near-test")).is_none(), "a Unix socket needs no second one");
    }
}
