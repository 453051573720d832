//! Which user has made a connection of the loopback interface: the system knows it, and the other end cannot lie about it.
//!
//! The kernel is asked for the one socket (`NETLINK_SOCK_DIAG`); where it does not serve that, its table of all sockets is read.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, SocketAddrV4};

use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// Message types and flags of `linux/netlink.h` and `linux/sock_diag.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;

/// The states of a connection that stands, and the protocol.
const ESTABLISHED: u8 = 1;
const INET: u8 = 2;
const TCP: u8 = 6;

/// Bytes of a request, and of an answer up to the user: `nlmsghdr` with `inet_diag_req_v2`, and with `inet_diag_msg`.
const REQUEST: usize = 16 + 56;
const ANSWER: usize = 16 + 68;

/// Most lines of the table that are read: 4 million sockets.
const LINES_MAX: usize = 1 << 22;

/// The user whose socket is at the other end of a connection, between `peer` and `own`. None where the system does not say it, or the connection does not stand any more.
pub(super) fn user_of(peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    let (SocketAddr::V4(peer), SocketAddr::V4(own)) = (peer, own) else { return None };
    asked(peer, own).or_else(|| listed(peer, own))
}

/// Asks the kernel for one socket.
fn asked(peer: SocketAddrV4, own: SocketAddrV4) -> Option<u32> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Some(SOCK_DIAG),
    )
    .ok()?;
    send(&socket, &request(peer, own), SendFlags::empty()).ok()?;
    let mut answer = [0; 512];
    // The kernel answers before `send` returns.
    let (count, _) = recv(&socket, &mut answer[..], RecvFlags::empty()).ok()?;
    user_in(answer.get(..count)?)
}

fn request(peer: SocketAddrV4, own: SocketAddrV4) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(0, &(REQUEST as u32).to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &NLM_F_REQUEST.to_ne_bytes());
    put(16, &[INET, TCP]);
    put(20, &u32::MAX.to_ne_bytes());
    // The socket is the peer's: its own address is the source.
    put(24, &peer.port().to_be_bytes());
    put(26, &own.port().to_be_bytes());
    put(28, &peer.ip().octets());
    put(44, &own.ip().octets());
    // Whichever socket has these addresses.
    put(64, &[u8::MAX; 8]);
    bytes
}

fn user_in(answer: &[u8]) -> Option<u32> {
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    if kind == NLMSG_ERROR || answer.len() < ANSWER {
        return None;
    }
    // One that has been closed belongs to nobody, whatever number stands there.
    let stands = answer[17] == ESTABLISHED;
    stands.then(|| answer[80..].first_chunk().map(|user| u32::from_ne_bytes(*user)))?
}

/// Looks for the socket in the tables of all.
fn listed(peer: SocketAddrV4, own: SocketAddrV4) -> Option<u32> {
    let hex = |address: SocketAddrV4| {
        format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
    };
    let (peer, own) = (hex(peer), hex(own));
    // A socket of IPv6 may have an address of IPv4, of which its own ends so.
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"].iter().find_map(|table| {
        let lines = BufReader::new(File::open(table).ok()?).lines().take(LINES_MAX);
        lines.map_while(Result::ok).find_map(|line| user_of_line(&line, &peer, &own))
    })
}

fn user_of_line(line: &str, peer: &str, own: &str) -> Option<u32> {
    let mut words = line.split_ascii_whitespace();
    let (local, remote, state) = (words.nth(1)?, words.next()?, words.next()?);
    if !local.ends_with(peer) || !remote.ends_with(own) || state != "01" {
        return None;
    }
    words.nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use rustix::process::geteuid;

    use super::*;

    #[test]
    fn both_ways_find_the_user_of_a_connection_that_stands() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, peer) = listener.accept().unwrap();
        let own = stream.local_addr().unwrap();
        let (SocketAddr::V4(peer4), SocketAddr::V4(own4)) = (peer, own) else { panic!() };
        let me = geteuid().as_raw();
        assert_eq!(user_of(peer, own), Some(me));
        assert_eq!(listed(peer4, own4), Some(me));
        // Kernels without the protocol exist: what they say is nothing.
        assert!(asked(peer4, own4).is_none_or(|user| user == me));
        drop((client, stream));
        let nowhere = "127.0.0.1:1".parse().unwrap();
        assert_eq!(user_of(nowhere, own), None);
    }

    #[test]
    fn a_line_of_the_table_and_an_answer_are_read() {
        let line = "  12: 0100007F:A1B2 0200007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 123 1 0000 20 4 30 10 -1";
        assert_eq!(user_of_line(line, "0100007F:A1B2", "0200007F:1F90"), Some(1000));
        assert_eq!(user_of_line(line, "0200007F:1F90", "0100007F:A1B2"), None);
        assert_eq!(user_of_line(&line.replace(" 01 ", " 06 "), "0100007F:A1B2", "0200007F:1F90"), None);
        assert_eq!(user_of_line("  sl  local_address rem_address   st", "", ""), None);
        assert_eq!(user_in(&[0; 20]), None);
        let mut answer = [0; ANSWER];
        answer[4] = 20;
        answer[17] = ESTABLISHED;
        answer[80..84].copy_from_slice(&1000_u32.to_ne_bytes());
        assert_eq!(user_in(&answer), Some(1000));
        // In the state TIME_WAIT the number is 0, which is root's.
        answer[17] = 6;
        assert_eq!(user_in(&answer), None);
    }
}
