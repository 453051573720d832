//! Whether values under known labels can be. The source has the server know nothing of them; a wrong value is easier to find where it is said than at every client.
//!
//! Source: IMPI, "Startup": the per-client, per-host and per-proc labels, and what is allowed of each.

use std::ops::RangeInclusive;

use bytes::Bytes;

use crate::wire::{Label, Per, ascending};

/// Most processes whose numbers are compared: what is compared is sorted, and all others wait while it is.
const COMPARED_MAX: usize = 1 << 17;

/// What is done about values that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Check {
    /// They are broadcast.
    Off,
    /// They are broadcast, and the server's user is told.
    #[default]
    Warn,
    /// The client broke the protocol.
    Refuse,
}

/// What one client has said that later values are compared with. It holds no copies: the bytes are those that came.
#[derive(Default, Debug)]
pub(super) struct Said {
    /// C_NHOSTS.
    hosts: Option<u32>,
    /// C_NPROCS.
    procs: Option<u32>,
    /// The sum of H_NPROCS.
    procs_of_hosts: Option<u64>,
    /// H_ACKMARK, as long as H_HIWATER may come.
    ackmarks: Option<Bytes>,
    /// P_IPV6, as long as P_PID may come.
    addresses: Option<Bytes>,
}

impl Said {
    /// Remembers what later labels are compared with, and forgets what nothing is compared with any more.
    pub(super) fn learn(&mut self, label: Label, values: &Bytes) {
        let number = || values[..].try_into().map(u32::from_be_bytes).ok();
        match label {
            Label::C_NHOSTS => self.hosts = number(),
            Label::C_NPROCS => self.procs = number(),
            Label::H_NPROCS => self.procs_of_hosts = Some(words(values).map(u64::from).sum()),
            Label::H_ACKMARK => self.ackmarks = Some(values.clone()),
            Label::P_IPV6 => self.addresses = Some(values.clone()),
            _ => {}
        }
        if label >= Label::H_HIWATER {
            self.ackmarks = None;
        }
        if label >= Label::P_PID {
            self.addresses = None;
        }
    }

    /// Nothing more will come.
    pub(super) fn done(&mut self) {
        *self = Said::default();
    }

    /// Of which labels the bytes are kept, and how many.
    pub(super) fn kept(&self) -> impl Iterator<Item = (Label, usize)> {
        let kept = [(Label::H_ACKMARK, &self.ackmarks), (Label::P_IPV6, &self.addresses)];
        kept.into_iter().filter_map(|(label, bytes)| Some((label, bytes.as_ref()?.len())))
    }
}

/// What is wrong with the values of one client under a label, if that can be told; `highest` is the highest label that it has sent before, and `said` what it has said under them.
pub(super) fn wrong(label: Label, values: &[u8], highest: Option<Label>, said: &Said) -> Option<String> {
    if let Some(highest) = highest.filter(|highest| label < *highest) {
        return Some(format!("it comes after {highest}, and labels ascend"));
    }
    if label == Label::C_VERSION {
        if values.is_empty() {
            return Some("it has no version, and 0.0 is one that each client speaks".into());
        }
        return ascending(values).err().map(|error| error.to_string());
    }
    let (per, size) = label.shape()?;
    length(per, size, values, said).or_else(|| range(label, per, values)).or_else(|| match label {
        Label::H_NPROCS => sum(values, said),
        Label::H_HIWATER => marks(values, said),
        Label::P_PID => pids(values, said),
        _ => None,
    })
}

/// Whether there is one value of each client, host or process: the client has said how many there are.
fn length(per: Per, size: usize, values: &[u8], said: &Said) -> Option<String> {
    let found = values.len();
    let (count, what) = match per {
        Per::Client if found == size => return None,
        Per::Client => return Some(format!("it has {found} bytes, and its value has {size}")),
        Per::Host => (said.hosts.map(u64::from), "hosts"),
        Per::Proc => (said.procs.map(u64::from).or(said.procs_of_hosts), "processes"),
    };
    match count.map(|count| (count, count.saturating_mul(size as u64))) {
        Some((count, len)) if len != found as u64 => {
            Some(format!("it has {found} bytes, and {count} {what} with {size} bytes each have {len}"))
        }
        Some(_) => None,
        None if !found.is_multiple_of(size) => {
            Some(format!("it has {found} bytes, which are no values of {size} bytes each"))
        }
        // The values of all clients come as one piece, and only that number says where those of the next client begin.
        None => Some(format!("the client has not said how many {what} it has")),
    }
}

/// Whether each value is one that is allowed.
fn range(label: Label, per: Per, values: &[u8]) -> Option<String> {
    let allowed = allowed(label)?;
    let signed = [Label::C_TAGUB, Label::C_COLL_XSIZE, Label::C_COLL_MAXLINEAR].contains(&label);
    let number = |word: u32| if signed { i64::from(word as i32) } else { i64::from(word) };
    let (index, value) = words(values).map(number).enumerate().find(|(_, value)| !allowed.contains(value))?;
    let whose = match per {
        Per::Client => "its value".into(),
        Per::Host => format!("that of host {index}"),
        Per::Proc => format!("that of process {index}"),
    };
    Some(format!("{whose} is {value}, and {} to {} are allowed", allowed.start(), allowed.end()))
}

/// The values that a label allows, where not every number is one.
fn allowed(label: Label) -> Option<RangeInclusive<i64>> {
    const INT4: i64 = i32::MAX as i64;
    const UINT4: i64 = u32::MAX as i64;
    Some(match label {
        Label::C_NHOSTS => 1..=INT4,
        Label::C_NPROCS | Label::C_DATALEN | Label::H_ACKMARK | Label::H_HIWATER => 1..=UINT4,
        Label::C_TAGUB => 32_767..=INT4,
        Label::C_COLL_XSIZE | Label::C_COLL_MAXLINEAR => -1..=INT4,
        Label::H_PORT => 1..=65_535,
        _ => return None,
    })
}

/// Whether the hosts have as many processes as the client.
fn sum(values: &[u8], said: &Said) -> Option<String> {
    let (sum, procs) = (words(values).map(u64::from).sum::<u64>(), said.procs?);
    let differ = sum != u64::from(procs);
    differ.then(|| format!("its hosts have {sum} processes in all, and by C_NPROCS there are {procs}"))
}

/// Whether each host acknowledges before the other side has to stop.
fn marks(values: &[u8], said: &Said) -> Option<String> {
    let pairs = words(said.ackmarks.as_ref()?).zip(words(values));
    let (host, (ackmark, hiwater)) = pairs.enumerate().find(|(_, (ackmark, hiwater))| ackmark > hiwater)?;
    Some(format!("that of host {host} is {hiwater}, and it is at least its H_ACKMARK, {ackmark}"))
}

/// Of how many processes the numbers are not compared, since they are too many.
pub(super) fn too_many(label: Label, values: &[u8]) -> Option<usize> {
    let processes = values.len() / 8;
    (label == Label::P_PID && processes > COMPARED_MAX).then_some(processes)
}

/// Whether the processes of each address have different numbers. Takes 32 bytes for each while it looks.
fn pids(values: &[u8], said: &Said) -> Option<String> {
    if too_many(Label::P_PID, values).is_some() {
        return None;
    }
    let addresses = said.addresses.as_ref()?.as_chunks::<16>().0;
    let pids = values.as_chunks::<8>().0;
    let mut all: Vec<([u8; 16], [u8; 8], u32)> = (0..)
        .zip(addresses.iter().zip(pids))
        .map(|(index, (address, pid))| (*address, *pid, index))
        .collect();
    all.sort_unstable();
    let same = |pair: &&[([u8; 16], [u8; 8], u32)]| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1);
    // The first process that has the number of another one.
    let pair = all.windows(2).filter(same).min_by_key(|pair| pair[1].2)?;
    let (first, second, pid) = (pair[0].2, pair[1].2, u64::from_be_bytes(pair[0].1));
    Some(format!(
        "processes {first} and {second} have the same P_IPV6 and both are {pid}, and those of one address differ"
    ))
}

fn words(values: &[u8]) -> impl Iterator<Item = u32> {
    values.as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word))
}
