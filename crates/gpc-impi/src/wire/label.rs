//! Labels under which values are collected.

use std::fmt;

/// The label of a value. Known clients send labels in ascending order; the server collects them in any order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub u32);

/// What a label has one value for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Per {
    /// One value for each client.
    Client,
    /// One value for each host of each client.
    Host,
    /// One value for each process of each client.
    Proc,
}

impl Label {
    /// No label; never sent.
    pub const NONE: Label = Label(0);
    /// Versions that a client supports: [`Version`](super::Version)s, strictly ascending from 0.0.
    pub const C_VERSION: Label = Label(0x1000);
    /// Number of hosts of a client: 4 bytes, at least 1.
    pub const C_NHOSTS: Label = Label(0x1100);
    /// Number of processes of a client: 4 bytes, at least 1.
    pub const C_NPROCS: Label = Label(0x1200);
    /// Longest packet of data, bytes: 4 bytes, at least 1. The draft calls it `C_PKTLEN`.
    pub const C_DATALEN: Label = Label(0x1300);
    /// Largest tag: 4 bytes, at least 32767.
    pub const C_TAGUB: Label = Label(0x1400);
    /// Bytes from which on collectives count as long: 4 bytes, -1 for 1024.
    pub const C_COLL_XSIZE: Label = Label(0x1500);
    /// Most hosts for linear collectives: 4 bytes, -1 for 4.
    pub const C_COLL_MAXLINEAR: Label = Label(0x1600);
    /// Address of a host: 16 bytes.
    pub const H_IPV6: Label = Label(0x2000);
    /// Port of a host: 4 bytes.
    pub const H_PORT: Label = Label(0x2100);
    /// Number of processes on a host: 4 bytes.
    pub const H_NPROCS: Label = Label(0x2200);
    /// Number of packets after which a host acknowledges: 4 bytes, at least 1.
    pub const H_ACKMARK: Label = Label(0x2300);
    /// Most packets that may be unacknowledged: 4 bytes, at least the ackmark.
    pub const H_HIWATER: Label = Label(0x2400);
    /// Address of a process: 16 bytes.
    pub const P_IPV6: Label = Label(0x3000);
    /// Number of a process, unique among the processes of its address: 8 bytes, as every implementation sends it,
    /// although the source says 4.
    pub const P_PID: Label = Label(0x3100);

    /// Of this project: the job of all nodes, 16 bytes, from client 0 alone.
    pub const C_JOB: Label = Label(0x4750_4301);
    /// Of this project: port of a process, 4 bytes.
    pub const P_PORT: Label = Label(0x4750_4302);
    /// Of this project: public key of a process, 32 bytes, all zero if it has none.
    pub const P_KEY: Label = Label(0x4750_4303);

    /// The labels of the source, in the order in which a client sends them.
    pub const KNOWN: [Label; 14] = [
        Label::C_VERSION,
        Label::C_NHOSTS,
        Label::C_NPROCS,
        Label::C_DATALEN,
        Label::C_TAGUB,
        Label::C_COLL_XSIZE,
        Label::C_COLL_MAXLINEAR,
        Label::H_IPV6,
        Label::H_PORT,
        Label::H_NPROCS,
        Label::H_ACKMARK,
        Label::H_HIWATER,
        Label::P_IPV6,
        Label::P_PID,
    ];

    /// The labels of this project, which are sent only to clients that know them.
    pub const OWN: [Label; 3] = [Label::C_JOB, Label::P_PORT, Label::P_KEY];

    /// Whether the source defines this label.
    pub fn is_known(self) -> bool {
        Label::KNOWN.contains(&self)
    }

    /// What the label has one value for, and the size of a value in bytes. `None` for unknown labels, and for
    /// `C_VERSION`, of which each client has any number.
    pub fn shape(self) -> Option<(Per, usize)> {
        Some(match self {
            Label::C_NHOSTS
            | Label::C_NPROCS
            | Label::C_DATALEN
            | Label::C_TAGUB
            | Label::C_COLL_XSIZE
            | Label::C_COLL_MAXLINEAR => (Per::Client, 4),
            Label::H_IPV6 => (Per::Host, 16),
            Label::H_PORT | Label::H_NPROCS | Label::H_ACKMARK | Label::H_HIWATER => (Per::Host, 4),
            Label::P_IPV6 => (Per::Proc, 16),
            Label::P_PID => (Per::Proc, 8),
            Label::C_JOB => (Per::Client, 16),
            Label::P_PORT => (Per::Proc, 4),
            Label::P_KEY => (Per::Proc, 32),
            _ => return None,
        })
    }

    /// Name of the label in the source.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Label::C_VERSION => "C_VERSION",
            Label::C_NHOSTS => "C_NHOSTS",
            Label::C_NPROCS => "C_NPROCS",
            Label::C_DATALEN => "C_DATALEN",
            Label::C_TAGUB => "C_TAGUB",
            Label::C_COLL_XSIZE => "C_COLL_XSIZE",
            Label::C_COLL_MAXLINEAR => "C_COLL_MAXLINEAR",
            Label::H_IPV6 => "H_IPV6",
            Label::H_PORT => "H_PORT",
            Label::H_NPROCS => "H_NPROCS",
            Label::H_ACKMARK => "H_ACKMARK",
            Label::H_HIWATER => "H_HIWATER",
            Label::P_IPV6 => "P_IPV6",
            Label::P_PID => "P_PID",
            Label::C_JOB => "C_JOB",
            Label::P_PORT => "P_PORT",
            Label::P_KEY => "P_KEY",
            _ => return None,
        })
    }
}

/// Its name, or else its number: `H_PORT`, `0x9000`.
impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => f.pad(&format!("{:#06x}", self.0)),
        }
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_in_the_order_in_which_they_are_sent() {
        let all: Vec<Label> = Label::KNOWN.into_iter().chain(Label::OWN).collect();
        assert!(all.is_sorted() && all[0] > Label::NONE);
        for label in &all {
            assert!(label.name().is_some());
            assert_eq!(label.shape().is_none(), *label == Label::C_VERSION);
        }
    }

    #[test]
    fn labels_are_shown_by_name_or_number() {
        assert_eq!(format!("{} {:?} {}", Label::H_PORT, Label::P_PID, Label(0x9000)), "H_PORT P_PID 0x9000");
        assert_eq!(Label(0x12).to_string(), "0x0012");
    }
}
