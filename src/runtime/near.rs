//! Unix sockets chosen by themselves: nodes that know each other by TCP addresses, and live on one host.
//!
//! A node that listens on TCP listens at a Unix socket as well, whose name follows from the TCP address. Whoever wants
//! to connect to an address of its own host tries that name first; if nobody of its own user (or another one that it
//! links with) listens there, which shows at once, it takes TCP. Abstract names belong to a network namespace, as TCP
//! addresses do, so the name is found where the address means the same, and nowhere else. A name can be taken by
//! anybody, so who listens there must be of such a user: the system says who.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tracing::debug;

use super::users::Users;
use crate::transport::{Accepting, Address, Listener, Socket};

/// The name that belongs to a TCP address.
fn name(address: SocketAddr) -> Address {
    Address::Abstract(format!("gpc-tcp-{address}"))
}

/// Listens for the nodes of this host beside a TCP address; `None` where it cannot be, which does no harm.
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

/// A connection to the node at a TCP address, if it listens for nodes of this host. `mine` is where this node listens.
pub(super) fn connect(to: &Address, mine: Option<&Address>, rings: bool, users: &Users) -> Option<Socket> {
    let Address::Tcp(to) = *to else { return None };
    if !is_here(to.ip(), mine) {
        return None;
    }
    // A node may listen at all addresses of its host.
    let all = match to.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    [to, SocketAddr::new(all, to.port())].into_iter().find_map(|address| {
        let socket = Socket::connect(&name(address), rings).ok()?;
        users.check(&socket).is_ok().then_some(socket)
    })
}

/// Whether an address surely is one of this host: loopback, or the one where this node listens itself.
fn is_here(ip: IpAddr, mine: Option<&Address>) -> bool {
    let same = |mine: &Address| matches!(mine, Address::Tcp(mine) if mine.ip() == ip);
    ip.is_loopback() || (!ip.is_unspecified() && mine.is_some_and(same))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::SharedMemory as _;

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn only_addresses_of_this_host_are_looked_for_here() {
        let mine = address("10.1.2.3:80");
        for (ip, here) in [("127.0.0.1", true), ("127.9.9.9", true), ("::1", true), ("10.1.2.3", true)] {
            assert_eq!(is_here(ip.parse().unwrap(), Some(&mine)), here, "{ip}");
        }
        for ip in ["10.1.2.4", "0.0.0.0", "::", "192.0.2.1"] {
            assert!(!is_here(ip.parse().unwrap(), Some(&mine)), "{ip}");
            assert!(!is_here(ip.parse().unwrap(), Some(&address("0.0.0.0:80"))), "{ip}");
        }
        assert!(!is_here("10.1.2.3".parse().unwrap(), None));
        assert!(!is_here("10.1.2.3".parse().unwrap(), Some(&address("unix:@x"))));
    }

    #[test]
    fn a_node_is_found_by_its_address_and_by_that_of_all() {
        let users = Users::new(Vec::new());
        // A port of the system's choice, held by its TCP socket, so that nobody else has the names.
        for (listens, called) in [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("[::1]", "[::1]")] {
            let Ok(tcp) = Listener::bind(&address(&format!("{listens}:0"))) else { continue };
            let there = tcp.address().unwrap();
            let Address::Tcp(socket) = there else { panic!("{there}") };
            let target = address(&format!("{called}:{}", socket.port()));
            assert!(connect(&target, None, true, &users).is_none(), "nobody listens yet");
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
