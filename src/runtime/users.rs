//! The users whose processes a node links with over Unix sockets: its own user, and others that the application names.
//!
//! Any process on a machine may connect to an abstract name, or bind one. The system reports the user of the other
//! process, which is checked before any byte is written or trusted. TCP has no such report.

use std::io;

use crate::transport::{ByteStream as _, Socket};

/// Users by their ids.
#[derive(Debug)]
pub(super) struct Users {
    own: u32,
    others: Box<[u32]>,
}

impl Users {
    /// Creates the set of this process's user and `others`.
    pub(super) fn new(others: Vec<u32>) -> Users {
        Users { own: rustix::process::geteuid().as_raw(), others: others.into() }
    }

    /// Checks that the user of the other process is allowed, the one that connects or listens at the other end. Only
    /// Unix sockets are checked.
    ///
    /// # Errors
    /// If it is not allowed, in words for both sides.
    pub(super) fn check(&self, socket: &Socket) -> io::Result<()> {
        match socket.peer_user()? {
            Some(user) if !self.admits(user) => {
                let text = format!(
                    "between processes of users {} and {user} there is no link over Unix sockets, unless the builder of each node allows the other's user",
                    self.own
                );
                Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
            }
            _ => Ok(()),
        }
    }

    fn admits(&self, user: u32) -> bool {
        user == self.own || self.others.contains(&user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_own_user_and_those_that_are_named_are_linked_with() {
        let users = Users { own: 5, others: Box::new([7, 9]) };
        assert_eq!(
            [4, 5, 6, 7, 8, 9].map(|user| users.admits(user)),
            [false, true, false, true, false, true]
        );
        let builder = crate::runtime::Node::builder(0).allow_users([7]).allow_users([8, 9]);
        let node = builder.polled().unwrap();
        let users = &node.event_loop().connections.local.users;
        assert_eq!([7, 8, 9, 10].map(|user| users.admits(user)), [true, true, true, users.own == 10]);
        let (here, _there) = mio::net::UnixStream::pair().unwrap();
        assert!(Users::new(Vec::new()).check(&Socket::Unix(here)).is_ok());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn another_user_is_refused_in_words() {
        let (here, _there) = mio::net::UnixStream::pair().unwrap();
        let me = Users::new(Vec::new()).own;
        let users = Users { own: me + 1, others: Box::default() };
        let error = users.check(&Socket::Unix(here)).unwrap_err();
        assert!(error.to_string().contains(&format!("users {} and {me}", me + 1)), "{error}");
    }
}
