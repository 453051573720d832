//! A change of the membership that a node announces, and its text in the header of a call.

use gpc_trees::Id;

use super::{Peer, Peers};

/// A change of the membership.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Announce(Peer),
    Withdraw(Id),
}

impl Change {
    /// The id to announce or withdraw.
    pub(super) fn id(&self) -> Id {
        match self {
            Change::Announce(peer) => peer.id,
            Change::Withdraw(id) => *id,
        }
    }

    /// The header of the call.
    pub(super) fn text(&self) -> String {
        match self {
            Change::Announce(Peer { id, address, key: None }) => format!("+{id} {address}"),
            Change::Announce(Peer { id, address, key: Some(key) }) => format!("+{id} {address} {key}"),
            Change::Withdraw(id) => format!("-{id}"),
        }
    }

    /// Parses a header.
    pub(super) fn parse(header: &[u8]) -> Option<Change> {
        let text = str::from_utf8(header).ok()?;
        if let Some(id) = text.strip_prefix('-') {
            return Some(Change::Withdraw(id.parse().ok()?));
        }
        let peers: Peers = text.strip_prefix('+')?.parse().ok()?;
        let (id, address) = peers.iter().next()?;
        let peer = Peer { id, address, key: peers.key(id) };
        // Exactly one line of a peers file.
        Some(Change::Announce(peer)).filter(|change| change.text() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::peering::PublicKey;

    #[test]
    fn a_change_reads_as_it_is_written() {
        let peer = |address: &str| Peer::new(5, address.parse().unwrap());
        for change in [
            Change::Announce(peer("127.0.0.1:7005")),
            Change::Announce(peer("unix:@five")),
            Change::Announce(peer("[::1]:7").known_by(PublicKey([7; 32]))),
            Change::Withdraw(Id::MAX),
        ] {
            assert_eq!(Change::parse(change.text().as_bytes()), Some(change));
        }
    }

    #[test]
    fn nothing_else_is_a_change() {
        let line = "5 127.0.0.1:7005";
        for text in ["", "+", "-", "5", "-x", "-4294967296", line, "+5", "+5 nowhere", "+x 127.0.0.1:1"] {
            assert_eq!(Change::parse(text.as_bytes()), None, "{text}");
        }
        for text in [
            format!("+{line}\n6 unix:@six"),
            format!("+{line} # five"),
            format!("+job x\n{line}"),
            format!("+ {line}"),
        ] {
            assert_eq!(Change::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Change::parse(&[b'-', 0xff]), None);
    }
}
