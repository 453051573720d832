//! Determines which users own the other ends of loopback connections. The system knows the user, so the other end
//! cannot lie.
//!
//! The kernel is queried for one socket (`NETLINK_SOCK_DIAG`), which takes some microseconds whatever others do. Its
//! tables of all sockets are searched only if the kernel supports no such queries: every user of the machine fills
//! these tables, with connections that have ended, too.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};

use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// Message types and flags of `linux/netlink.h` and `linux/sock_diag.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;

/// The error of a query for a socket that does not exist.
const NOT_FOUND: i32 = -rustix::io::Errno::NOENT.raw_os_error();

/// The state of an established connection, the address families, and the protocol.
const ESTABLISHED: u8 = 1;
const INET: u8 = 2;
const INET6: u8 = 10;
const TCP: u8 = 6;

/// Bytes of a request, and of an answer up to the user: `nlmsghdr` with `inet_diag_req_v2`, and with `inet_diag_msg`.
const REQUEST: usize = 16 + 56;
const ANSWER: usize = 16 + 68;

/// Most lines of the tables per search: 131,072 sockets take about 0.1 s, in which the node does nothing else.
const LINES_MAX: usize = 1 << 17;

/// The other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    /// An established connection of this user.
    User(u32),
    /// The other end has closed the connection. The system no longer knows its user.
    Ended,
    /// The system does not report the user.
    Unknown,
}

/// The source of the users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Users {
    /// A query for each connection.
    Queries,
    /// One search of the tables of all sockets for many connections.
    Tables,
}

impl Users {
    /// Queries the kernel for a socket that exists, the listener at `own`, to find out whether it supports queries. A
    /// later query cannot tell: the error of an unsupported query is the error for a missing socket.
    pub(super) fn with_listener(own: SocketAddr) -> Users {
        let nobody = SocketAddr::new(if own.is_ipv4() { [0; 4].into() } else { [0; 16].into() }, 0);
        match query(own, nobody) {
            Some(answer) if socket_in(&answer).is_some() => Users::Queries,
            _ => Users::Tables,
        }
    }

    /// The other ends of connections between `own` and each of `peers`.
    pub(super) fn of(self, own: SocketAddr, peers: &[SocketAddr]) -> Vec<Peer> {
        match self {
            Users::Queries => peers.iter().map(|peer| queried(*peer, own)).collect(),
            Users::Tables => {
                let open = |table| Ok(BufReader::new(File::open(table)?));
                search(own, peers, ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(open))
            }
        }
    }
}

fn queried(peer: SocketAddr, own: SocketAddr) -> Peer {
    query(peer, own).map_or(Peer::Unknown, |answer| peer_in(&answer))
}

/// Queries the kernel for one socket. `None` if the system has no socket for the query, or no answer.
fn query(peer: SocketAddr, own: SocketAddr) -> Option<Vec<u8>> {
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
    answer.get(..count).map(<[u8]>::to_vec)
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

/// The type of an answer.
fn kind_of(answer: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?))
}

/// The state and the user of the socket in an answer.
fn socket_in(answer: &[u8]) -> Option<(u8, u32)> {
    if kind_of(answer)? != SOCK_DIAG_BY_FAMILY || answer.len() < ANSWER {
        return None;
    }
    Some((answer[17], u32::from_ne_bytes(*answer[80..].first_chunk()?)))
}

fn peer_in(answer: &[u8]) -> Peer {
    let code = || Some(i32::from_ne_bytes(*answer.get(16..)?.first_chunk()?));
    match socket_in(answer) {
        Some((ESTABLISHED, user)) => Peer::User(user),
        // A closed socket belongs to no user, whatever number is stored.
        Some(_) => Peer::Ended,
        None if kind_of(answer) == Some(NLMSG_ERROR) && code() == Some(NOT_FOUND) => Peer::Ended,
        None => Peer::Unknown,
    }
}

/// Searches the tables of all sockets once for all `peers`.
fn search(
    own: SocketAddr,
    peers: &[SocketAddr],
    tables: impl IntoIterator<Item = io::Result<impl BufRead>>,
) -> Vec<Peer> {
    let own = in_table(own);
    let wanted: BTreeMap<String, usize> = peers.iter().map(|peer| in_table(*peer)).zip(0..).collect();
    let mut found = vec![None; peers.len()];
    let mut missing = wanted.len();
    // A table that cannot be opened may be absent, such as that of IPv6.
    let lines = tables.into_iter().flatten().flat_map(|table| table.lines().map_while(Result::ok));
    let mut count = 0;
    for line in lines.take(LINES_MAX) {
        count += 1;
        let Some((at, peer)) = peer_of_line(&line, &wanted, &own) else { continue };
        missing -= usize::from(found[at].replace(peer).is_none());
        if missing == 0 {
            break;
        }
    }
    // A table is never empty: its first line names the columns.
    let is_complete = (1..LINES_MAX).contains(&count);
    let other = if is_complete { Peer::Ended } else { Peer::Unknown };
    found.into_iter().map(|peer| peer.unwrap_or(other)).collect()
}

/// An address in the format of the tables: words of 4 bytes, each in this machine's byte order.
fn in_table(address: SocketAddr) -> String {
    let word = |bytes: &[u8; 4]| format!("{:08X}", u32::from_ne_bytes(*bytes));
    let words: String = octets(address).as_chunks::<4>().0.iter().map(word).collect();
    format!("{words}:{:04X}", address.port())
}

/// The place of a line's socket in `wanted`, and what the line says about it.
fn peer_of_line(line: &str, wanted: &BTreeMap<String, usize>, own: &str) -> Option<(usize, Peer)> {
    let mut words = line.split_ascii_whitespace();
    let (local, remote, state) = (words.nth(1)?, words.next()?, words.next()?);
    if !remote.ends_with(own) {
        return None;
    }
    // An IPv6 socket may have a mapped IPv4 address, which ends with the IPv4 address.
    let at = *wanted.get(local.get(local.len().checked_sub(own.len())?..)?)?;
    match state {
        "01" => Some((at, Peer::User(words.nth(3)?.parse().ok()?))),
        _ => Some((at, Peer::Ended)),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use rustix::process::geteuid;

    use super::*;

    #[test]
    fn both_sources_report_the_user_of_an_established_connection() {
        reports_the_user(&TcpListener::bind("127.0.0.1:0").unwrap());
        // If the machine has IPv6.
        if let Ok(listener) = TcpListener::bind("[::1]:0") {
            reports_the_user(&listener);
        }
    }

    /// The sources that this system supports.
    fn sources(own: SocketAddr) -> Vec<Users> {
        let mut sources = vec![Users::with_listener(own), Users::Tables];
        sources.dedup();
        sources
    }

    fn reports_the_user(listener: &TcpListener) {
        let own = listener.local_addr().unwrap();
        let client = TcpStream::connect(own).unwrap();
        let (stream, peer) = listener.accept().unwrap();
        let absent = SocketAddr::new(peer.ip(), 1);
        for users in sources(own) {
            let expected = [Peer::Ended, Peer::User(geteuid().as_raw())];
            assert_eq!(users.of(own, &[absent, peer]), expected, "{users:?}");
        }
        drop((client, stream));
    }

    /// 100 connections a second of another user, each closed at once, locked the processes out of their port. The
    /// kernel answered with a socket that had ended. That counted as no answer, so the tables of all sockets were
    /// searched, which the same connections filled.
    #[test]
    fn a_connection_that_has_ended_is_known_from_the_first_source() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap();
        let accept = |_| {
            drop(TcpStream::connect(own).unwrap());
            listener.accept().unwrap()
        };
        let (streams, peers): (Vec<_>, Vec<_>) = (0..20).map(accept).unzip();
        for users in sources(own) {
            assert_eq!(users.of(own, &peers), [Peer::Ended; 20], "{users:?}");
        }
        // Both ends are closed: the system may have forgotten the sockets.
        drop(streams);
        for users in sources(own) {
            assert_eq!(users.of(own, &peers), [Peer::Ended; 20], "{users:?}");
        }
    }

    #[test]
    fn an_answer_of_the_kernel_is_parsed() {
        let mut answer = [0; ANSWER];
        answer[4] = 20;
        answer[17] = ESTABLISHED;
        answer[80..84].copy_from_slice(&1000_u32.to_ne_bytes());
        assert_eq!(peer_in(&answer), Peer::User(1000));
        assert_eq!(peer_in(&answer[..ANSWER - 1]), Peer::Unknown);
        // The number of a socket in TIME_WAIT is 0, which would be root.
        answer[17] = 6;
        assert_eq!(peer_in(&answer), Peer::Ended);
        // A listener that has the port of a peer that is gone.
        answer[17] = 10;
        assert_eq!(peer_in(&answer), Peer::Ended);
        let mut error = [0; 36];
        error[4] = 2;
        error[16..20].copy_from_slice(&(-2_i32).to_ne_bytes());
        assert_eq!((peer_in(&error), socket_in(&error)), (Peer::Ended, None));
        error[16..20].copy_from_slice(&(-12_i32).to_ne_bytes());
        assert_eq!((peer_in(&error), peer_in(&[0; 5])), (Peer::Unknown, Peer::Unknown));
    }

    const HEADER: &str = "  sl  local_address rem_address   st\n";

    /// A line of the table about a socket of user 1000 that is connected to port 8080.
    fn line(port: u16, state: &str) -> String {
        format!("  12: 0100007F:{port:04X} 0100007F:1F90 {state} 0:0 00:0 00000000  1000        0 123 1\n")
    }

    fn found(peers: &[u16], tables: &[io::Result<String>]) -> Vec<Peer> {
        let address = |port: &u16| SocketAddr::from(([127, 0, 0, 1], *port));
        let tables = tables.iter().map(|table| table.as_ref().map(String::as_bytes));
        let peers: Vec<_> = peers.iter().map(address).collect();
        search(address(&8080), &peers, tables.map(|table| table.map_err(|_| io::ErrorKind::NotFound.into())))
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_tables_are_searched_once_for_all_connections() {
        let mapped = line(3, "01").replace(" 0100007F", " 0000000000000000FFFF00000100007F");
        let tables =
            [Ok(HEADER.to_owned() + &line(1, "01") + &line(2, "06")), Ok(HEADER.to_owned() + &mapped)];
        let user = Peer::User(1000);
        assert_eq!(found(&[3, 4, 2, 1], &tables), [user, Peer::Ended, Peer::Ended, user]);
        let absent = || Err(io::ErrorKind::NotFound.into());
        assert_eq!(found(&[4], &[Ok(HEADER.into()), absent()]), [Peer::Ended]);
        assert_eq!(found(&[4], &[absent(), absent()]), [Peer::Unknown]);
    }

    /// Any user of the machine can fill the tables with closed connections.
    #[test]
    #[cfg(target_endian = "little")]
    fn a_search_of_the_tables_is_bounded() {
        let full = line(1, "06").repeat(LINES_MAX);
        assert_eq!(found(&[1, 2], &[Ok(full + &line(2, "01"))]), [Peer::Ended, Peer::Unknown]);
    }
}
