//! The labels by which values are collected.

use std::fmt;

/// What a value is collected under. Clients of the field send labels in ascending order; a server collects them in any.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub u32);

/// What there is one value of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Per {
    /// Of each client.
    Client,
    /// Of each host of each client.
    Host,
    /// Of each process of each client.
    Proc,
}

impl Label {
    /// No label: never sent.
    pub const NONE: Label = Label(0);
    /// The versions that a client speaks: [`Version`](super::Version)s, strictly ascending, of which 0.0 is the first.
    pub const C_VERSION: Label = Label(0x1000);
    /// How many hosts a client has: 4 bytes, at least 1.
    pub const C_NHOSTS: Label = Label(0x1100);
    /// How many processes a client has: 4 bytes, at least 1.
    pub const C_NPROCS: Label = Label(0x1200);
    /// Longest packet of data, bytes: 4 bytes, at least 1; the draft calls it `C_PKTLEN`.
    pub const C_DATALEN: Label = Label(0x1300);
    /// Largest tag: 4 bytes, at least 32767.
    pub const C_TAGUB: Label = Label(0x1400);
    /// From how many bytes on collectives are long: 4 bytes, -1 for 1024.
    pub const C_COLL_XSIZE: Label = Label(0x1500);
    /// Up to how many hosts collectives are linear: 4 bytes, -1 for 4.
    pub const C_COLL_MAXLINEAR: Label = Label(0x1600);
    /// Address of a host: 16 bytes.
    pub const H_IPV6: Label = Label(0x2000);
    /// Port of a host: 4 bytes.
    pub const H_PORT: Label = Label(0x2100);
    /// How many processes a host has: 4 bytes.
    pub const H_NPROCS: Label = Label(0x2200);
    /// After how many packets a host acknowledges: 4 bytes, at least 1.
    pub const H_ACKMARK: Label = Label(0x2300);
    /// How many packets may be unacknowledged: 4 bytes, at least the ackmark.
    pub const H_HIWATER: Label = Label(0x2400);
    /// Address of a process: 16 bytes.
    pub const P_IPV6: Label = Label(0x3000);
    /// Number of a process, one of its own among those of its address: 8 bytes, as every implementation sends it, though the source says 4.
    pub const P_PID: Label = Label(0x3100);

    /// Of this project: the job of all nodes, 16 bytes, from client 0 alone.
    pub const C_JOB: Label = Label(0x4750_4301);
    /// Of this project: port of a process, 4 bytes.
    pub const P_PORT: Label = Label(0x4750_4302);
    /// Of this project: public key of a process, 32 bytes, all zero for none.
    pub const P_KEY: Label = Label(0x4750_4303);

    /// The labels that the source knows, in the order in which a client sends them.
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

    /// The labels of this project, which are sent only to those who know them.
    pub const OWN: [Label; 3] = [Label::C_JOB, Label::P_PORT, Label::P_KEY];

    /// Whether the source knows it.
    pub fn is_known(self) -> bool {
        Label::KNOWN.contains(&self)
    }

    /// What there is one value of, and the bytes of one; `None` for labels that are not known, and for `C_VERSION`, of which each client has any number.
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

    /// The name that the source has for it.
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

/// By its name, or else its number: `H_PORT`, `0x9000`.
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
