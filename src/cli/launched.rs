//! The other side of a [launch](super::launch): what a started process finds.
//!
//! Standard input is its listening socket, standard output the control link to its parent. The parent is trusted to be the same program, but
//! may die at any moment, and somebody may run the hidden flag by hand: everything is checked, bounded and limited in time.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use gpc_trees::Id;

use super::launch::TABLE_END;
use crate::runtime::{Listener, Peers, PeersError};

/// Longest table: 4,096 lines of an id and the longest address of a socket, with room.
const TABLE_MAX: usize = 1 << 20;

/// How long the table may take: all other processes are started before it is written.
const TABLE_LIMIT: Duration = Duration::from_secs(30);

/// What a launched process is to be.
#[derive(Debug)]
pub struct Launched {
    /// Its id.
    pub id: Id,
    /// Where it listens.
    pub listener: Listener,
    /// Where everybody listens.
    pub peers: Peers,
    /// The link to the parent.
    pub control: Control,
}

/// The child's end of the control link. It stays open as long as the process lives, since the parent takes its end for the process's end.
#[derive(Debug)]
pub struct Control(UnixStream);

/// Why a process cannot be the node that it was launched to be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchedError {
    /// Not started by `gpc call`.
    #[error(
        "--launched is for processes that `gpc call` starts; to run a node write gpc node --id I --listen ADDR --peers FILE"
    )]
    ByHand,
    /// The parent died, or closed the link.
    #[error("the process that started this node has gone")]
    ParentGone,
    /// The parent did not write in time.
    #[error("the process that started this node did not say within {} s where the others are", TABLE_LIMIT.as_secs())]
    Late,
    /// The table does not end.
    #[error("the table of addresses is longer than {TABLE_MAX} bytes")]
    TooLong,
    /// The table is not text.
    #[error("the table of addresses is not UTF-8")]
    NotText,
    /// The table is wrong.
    #[error("the table of addresses from the process that started this node: {0}")]
    Table(#[from] PeersError),
    /// The table does not have the id.
    #[error("id {0} is not in the table of addresses")]
    NotListed(Id),
    /// Standard input is not the socket.
    #[error("the listening socket of id {id}: {error}")]
    Socket {
        /// The id.
        id: Id,
        /// What is wrong.
        error: io::Error,
    },
    /// The system fails.
    #[error("the control link: {0}")]
    Link(#[source] io::Error),
}

/// Takes what the parent hands over. Standard input is empty afterwards.
///
/// # Errors
/// See [`LaunchedError`].
pub fn launched(id: Id) -> Result<Launched, LaunchedError> {
    let link = io::stdout().as_fd().try_clone_to_owned().map_err(LaunchedError::Link)?;
    let mut link = UnixStream::from(link);
    let table = read_table(&mut link, Instant::now() + TABLE_LIMIT)?;
    let peers: Peers = table.parse()?;
    let address = peers.address(id).ok_or(LaunchedError::NotListed(id))?;
    let socket = |error| LaunchedError::Socket { id, error };
    let fd = io::stdin().as_fd().try_clone_to_owned().map_err(socket)?;
    let listener = Listener::from_fd(fd, address).map_err(socket)?;
    // So that the socket is closed with the listener.
    let nothing = File::open("/dev/null").map_err(socket)?;
    rustix::stdio::dup2_stdin(nothing).map_err(|error| socket(error.into()))?;
    link.set_read_timeout(None).map_err(LaunchedError::Link)?;
    Ok(Launched { id, listener, peers, control: Control(link) })
}

impl Control {
    /// Blocks until the parent closes the link or dies: the node is to end then.
    pub fn wait_for_end(&mut self) {
        let mut ignored = [0; 512];
        loop {
            match self.0.read(&mut ignored) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A link that cannot be read says nothing any more; a node without a parent ends.
                Err(_) => return,
            }
        }
    }
}

/// Reads up to the line that ends the table, and leaves that out.
fn read_table(link: &mut UnixStream, deadline: Instant) -> Result<String, LaunchedError> {
    let mut table = Vec::new();
    let mut chunk = [0; 8192];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(LaunchedError::Late);
        }
        let read = link.set_read_timeout(Some(left)).and_then(|()| link.read(&mut chunk));
        match read {
            Ok(0) => return Err(LaunchedError::ParentGone),
            Ok(count) => table.extend_from_slice(&chunk[..count]),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => {}
                ErrorKind::WouldBlock | ErrorKind::TimedOut => return Err(LaunchedError::Late),
                ErrorKind::ConnectionReset => return Err(LaunchedError::ParentGone),
                // ENOTSOCK and its like: a terminal, a file, a pipe.
                _ => return Err(LaunchedError::ByHand),
            },
        }
        if let Some(lines) = table.strip_suffix(TABLE_END.as_bytes()).filter(|lines| ends_line(lines)) {
            return String::from_utf8(lines.to_vec()).map_err(|_| LaunchedError::NotText);
        }
        if table.len() > TABLE_MAX {
            return Err(LaunchedError::TooLong);
        }
    }
}

fn ends_line(lines: &[u8]) -> bool {
    lines.is_empty() || lines.ends_with(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn table_of(parts: &[&[u8]], close: bool) -> Result<String, LaunchedError> {
        let (mut parent, mut child) = UnixStream::pair().unwrap();
        for part in parts {
            parent.write_all(part).unwrap();
        }
        if close {
            drop(parent);
            return read_table(&mut child, Instant::now() + TABLE_LIMIT);
        }
        let table = read_table(&mut child, Instant::now() + TABLE_LIMIT);
        drop(parent);
        table
    }

    #[test]
    fn a_table_is_read_to_its_end() {
        let table = b"1 127.0.0.1:5\n2 127.0.0.1:6\n";
        assert_eq!(table_of(&[table, b"end\n"], false).unwrap().as_bytes(), table);
        assert_eq!(table_of(&[b"1 unix:@a", b"\ne", b"nd\n"], false).unwrap(), "1 unix:@a\n");
        assert_eq!(table_of(&[b"end\n"], false).unwrap(), "");
    }

    #[test]
    fn a_table_that_is_not_one_is_refused() {
        assert!(matches!(table_of(&[b"1 127.0.0.1:5\n"], true), Err(LaunchedError::ParentGone)));
        assert!(matches!(table_of(&[b"1 unix:@friend\n"], true), Err(LaunchedError::ParentGone)));
        assert!(matches!(table_of(&[b"\xff\nend\n"], true), Err(LaunchedError::NotText)));
        let (_parent, mut child) = UnixStream::pair().unwrap();
        assert!(matches!(read_table(&mut child, Instant::now()), Err(LaunchedError::Late)));
    }

    #[test]
    fn a_table_without_an_end_costs_no_more_than_its_bound() {
        let (mut parent, mut child) = UnixStream::pair().unwrap();
        let writer = std::thread::spawn(move || while parent.write_all(&[b'#'; 8192]).is_ok() {});
        let read = read_table(&mut child, Instant::now() + TABLE_LIMIT);
        assert!(matches!(read, Err(LaunchedError::TooLong)));
        drop(child);
        writer.join().unwrap();
    }

    #[test]
    fn a_node_is_to_end_when_the_link_closes() {
        let (mut parent, child) = UnixStream::pair().unwrap();
        parent.write_all(b"more").unwrap();
        drop(parent);
        Control(child).wait_for_end();
    }
}
