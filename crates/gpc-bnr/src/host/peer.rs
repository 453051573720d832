//! Determines which user owns the other end of a loopback connection. The system knows the user, so the other end
//! cannot lie.
//!
//! The kernel is queried for one socket (`NETLINK_SOCK_DIAG`); if it does not support that, its table of all sockets is
//! read.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, SocketAddr};

use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// Message types and flags of `linux/netlink.h` and `linux/sock_diag.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;

/// The state of an established connection, the address families, and the protocol.
const ESTABLISHED: u8 = 1;
const INET: u8 = 2;
const INET6: u8 = 10;
const TCP: u8 = 6;

/// Bytes of a request, and of an answer up to the user: `nlmsghdr` with `inet_diag_req_v2`, and with `inet_diag_msg`.
const REQUEST: usize = 16 + 56;
const ANSWER: usize = 16 + 68;

/// Most lines of the table that are read: 4 million sockets.
const LINES_MAX: usize = 1 << 22;

/// The user of the socket at the other end of a connection between `peer` and `own`. `None` if the system does not
/// report it, or the connection is no longer established.
pub(super) fn user_of(peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    asked(peer, own).or_else(|| listed(peer, own))
}

/// Queries the kernel for one socket.
fn asked(peer: SocketAddr, own: SocketAddr) -> Option<u32> {
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

/// The bytes of an address, in network order.
fn octets(address: SocketAddr) -> Vec<u8> {
    match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn request(peer: SocketAddr, own: SocketAddr) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(0, &(REQUEST as u32).to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &NLM_F_REQUEST.to_ne_bytes());
    put(16, &[if peer.is_ipv4() { INET } else { INET6 }, TCP]);
    put(20, &u32::MAX.to_ne_bytes());
    // The wanted socket is the peer's: its own address is the source.
    put(24, &peer.port().to_be_bytes());
    put(26, &own.port().to_be_bytes());
    put(28, &octets(peer));
    put(44, &octets(own));
    // Any socket cookie.
    put(64, &[u8::MAX; 8]);
    bytes
}

fn user_in(answer: &[u8]) -> Option<u32> {
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    if kind == NLMSG_ERROR || answer.len() < ANSWER {
        return None;
    }
    // A closed socket belongs to no user, whatever number is stored.
    let stands = answer[17] == ESTABLISHED;
    stands.then(|| answer[80..].first_chunk().map(|user| u32::from_ne_bytes(*user)))?
}

/// Searches the tables of all sockets.
fn listed(peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    let (peer, own) = (in_table(peer), in_table(own));
    // An IPv6 socket may have a mapped IPv4 address, which ends with the IPv4 address.
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"].iter().find_map(|table| {
        let lines = BufReader::new(File::open(table).ok()?).lines().take(LINES_MAX);
        lines.map_while(Result::ok).find_map(|line| user_of_line(&line, &peer, &own))
    })
}

/// An address in the format of the tables: words of 4 bytes, each in this machine's byte order.
fn in_table(address: SocketAddr) -> String {
    let word = |bytes: &[u8; 4]| format!("{:08X}", u32::from_ne_bytes(*bytes));
    let words: String = octets(address).as_chunks::<4>().0.iter().map(word).collect();
    format!("{words}:{:04X}", address.port())
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
        finds_the_user(&TcpListener::bind("127.0.0.1:0").unwrap());
        // If the machine has IPv6.
        if let Ok(listener) = TcpListener::bind("[::1]:0") {
            finds_the_user(&listener);
        }
    }

    fn finds_the_user(listener: &TcpListener) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, peer) = listener.accept().unwrap();
        let own = stream.local_addr().unwrap();
        let me = geteuid().as_raw();
        assert_eq!(user_of(peer, own), Some(me));
        assert_eq!(listed(peer, own), Some(me));
        // A kernel without the protocol yields no answer.
        assert!(asked(peer, own).is_none_or(|user| user == me));
        drop((client, stream));
        assert_eq!(user_of(SocketAddr::new(peer.ip(), 1), own), None);
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
        // In the state TIME_WAIT the number is 0, which would be root.
        answer[17] = 6;
        assert_eq!(user_in(&answer), None);
    }
}
