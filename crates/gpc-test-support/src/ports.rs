//! Free addresses for processes that get their address to listen at.

use std::net::{SocketAddr, TcpListener};

/// Addresses on loopback whose ports are free at the moment, all different.
///
/// # Panics
/// If the system has none.
#[must_use]
pub fn free<const N: usize>() -> [SocketAddr; N] {
    // All are held at once, so that the system gives none twice.
    let sockets = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    sockets.map(|socket| socket.local_addr().expect("it is bound"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection of another process may take a port at any moment, but not all of them.
    #[test]
    fn free_addresses_differ_and_can_be_bound() {
        let mut addresses = free::<8>();
        assert!(addresses.iter().any(|address| TcpListener::bind(address).is_ok()), "{addresses:?}");
        addresses.sort_unstable();
        assert!(addresses.windows(2).all(|two| two[0] != two[1]), "{addresses:?}");
    }
}
