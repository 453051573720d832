//! Errors of interpreting the broadcasts.

use std::fmt;

use crate::server::Rank;
use crate::wire::{Label, VersionsError};

/// The clients' values are inconsistent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LearnError {
    /// Values cannot be divided, because a count is missing.
    #[error("COLL {label} cannot be divided among the clients, since {count} of {} is missing", Clients(.clients))]
    Missing {
        /// The label of the values.
        label: Label,
        /// The missing label.
        count: Label,
        /// The clients that have left it out.
        clients: Vec<Rank>,
    },
    /// The number of values differs from the clients' counts.
    #[error("COLL {label}: {found} bytes of values, and {count} values of {size} bytes were counted{}", SuspectedClient(.suspect))]
    Length {
        /// The label.
        label: Label,
        /// Length of the values, bytes.
        found: usize,
        /// Expected number of values.
        count: u64,
        /// Size of each value, bytes.
        size: usize,
        /// A client, and a size of its values that would explain the length.
        suspect: Option<(Rank, usize)>,
    },
    /// The versions are invalid.
    #[error("COLL C_VERSION: {0}")]
    Versions(#[from] VersionsError),
    /// The clients do not agree.
    #[error("the clients do not agree on {label}: {}", Values(.values, *.default))]
    Differ {
        /// The label.
        label: Label,
        /// The value of each client that has sent one, -1 for the default.
        values: Vec<(Rank, i32)>,
        /// The default.
        default: i32,
    },
    /// A client other than 0 has sent the job.
    #[error("{} said the job of all nodes (C_JOB), and client 0 alone says it", ClientSubject(.clients))]
    Job {
        /// The clients that have sent it.
        clients: Vec<Rank>,
    },
    /// A client without hosts, or without processes.
    #[error("client {client} says 0 under {label}, and it has at least 1")]
    Zero {
        /// The client.
        client: Rank,
        /// The label.
        label: Label,
    },
    /// Two counts of a client's processes differ.
    #[error("client {client} has {procs} processes (C_NPROCS), and its hosts have {hosts} (H_NPROCS)")]
    Sum {
        /// The client.
        client: Rank,
        /// The client's own count.
        procs: u64,
        /// The sum over its hosts.
        hosts: u64,
    },
    /// The hosts of some processes are unknown.
    #[error(
        "on which of its hosts the {procs} processes of client {client} are cannot be told, since its {label} is missing"
    )]
    Homeless {
        /// The client.
        client: Rank,
        /// Number of its processes.
        procs: u64,
        /// The missing label.
        label: Label,
    },
    /// More hosts or processes than the settings accept.
    #[error(
        "client {client} has {count} {}, and all clients together {all}; at most {most} are taken",
        CountedNoun(.label)
    )]
    Many {
        /// The label of the count: C_NHOSTS or C_NPROCS.
        label: Label,
        /// The client that has most.
        client: Rank,
        /// Number that this client has.
        count: u64,
        /// Number that all have.
        all: u64,
        /// The limit.
        most: usize,
    },
    /// The broadcast does not contain what this client has sent.
    #[error("COLL {0}: the values of this client are not those that it has sent")]
    Altered(Label),
}

impl LearnError {
    pub(super) fn length(label: Label, found: usize, count: u64, size: usize) -> LearnError {
        LearnError::Length { label, found, count, size, suspect: None }
    }
}

struct CountedNoun<'a>(&'a Label);
struct Clients<'a>(&'a [Rank]);
struct ClientSubject<'a>(&'a [Rank]);
struct SuspectedClient<'a>(&'a Option<(Rank, usize)>);
struct Values<'a>(&'a [(Rank, i32)], i32);

impl fmt::Display for CountedNoun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self.0 == Label::C_NHOSTS { "hosts" } else { "processes" })
    }
}

impl fmt::Display for Clients<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranks: Vec<String> = self.0.iter().map(Rank::to_string).collect();
        write!(f, "{} {}", if ranks.len() == 1 { "client" } else { "clients" }, ranks.join(", "))
    }
}

impl fmt::Display for ClientSubject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", Clients(self.0), if self.0.len() == 1 { "has" } else { "have" })
    }
}

impl fmt::Display for SuspectedClient<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((rank, width)) = self.0 else { return Ok(()) };
        write!(f, "; it would be right if those of client {rank} had {width} bytes each")
    }
}

impl fmt::Display for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (rank, value)) in self.0.iter().enumerate() {
            write!(f, "{}client {rank} says {value}", if i == 0 { "" } else { ", " })?;
            if *value == -1 {
                write!(f, " (the default, {})", self.1)?;
            }
        }
        Ok(())
    }
}
