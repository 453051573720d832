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

    #[test]
    fn free_addresses_differ_and_can_be_bound() {
        let [one, other] = free();
        assert_ne!(one.port(), other.port());
        assert!(TcpListener::bind(one).is_ok());
    }
}
