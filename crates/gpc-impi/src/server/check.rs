//! Plausibility checks of values under known labels. In the source the server does not interpret values; but a wrong
//! value is easier to find at the server than at every client.
//!
//! Source: IMPI, "Startup": the per-client, per-host and per-proc labels, and what is allowed of each.

use std::ops::RangeInclusive;

use bytes::Bytes;

use crate::wire::{Label, Per, ascending};

/// Most processes whose numbers are compared. The comparison sorts them, and all clients wait meanwhile.
const COMPARED_MAX: usize = 1 << 17;

/// What to do about implausible values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Check {
    /// Broadcast them.
    Off,
    /// Broadcast them, and report them to the server's user.
    #[default]
    Warn,
    /// Treat them as a violation of the protocol.
    Refuse,
}

/// Values of one client that its other values are compared with, in any order of arrival. The bytes are shared, not
/// copied.
#[derive(Default, Debug)]
pub(super) struct CheckedValues {
    /// C_NHOSTS.
    hosts: Option<u32>,
    /// C_NPROCS.
    procs: Option<u32>,
    /// Sum of H_NPROCS.
    procs_of_hosts: Option<u64>,
    /// Labels of hosts and processes whose count is unknown so far, and the length of their values.
    uncounted: Vec<(Label, usize)>,
    /// H_ACKMARK or H_HIWATER, until the other arrives.
    mark: Option<(Label, Bytes)>,
    /// P_IPV6 or P_PID, until the other arrives.
    proc: Option<(Label, Bytes)>,
}

impl CheckedValues {
    /// Returns what is wrong with the values of a label, or with earlier values in view of these. Retains the values
    /// that later ones are compared with, and drops those that are no longer needed.
    pub(super) fn check(&mut self, label: Label, values: &Bytes) -> Vec<(Label, String)> {
        let own = self.wrong(label, values).map(|why| (label, why));
        let number = || values[..].try_into().map(u32::from_be_bytes).ok();
        match label {
            Label::C_NHOSTS => self.hosts = number(),
            Label::C_NPROCS => self.procs = number(),
            Label::H_NPROCS => self.procs_of_hosts = Some(words(values).map(u64::from).sum()),
            _ => {}
        }
        own.into_iter().chain(self.counted()).chain(self.paired(label, values)).collect()
    }

    /// The client is done: returns what is wrong with values whose count it never sent.
    pub(super) fn done(&mut self) -> Vec<(Label, String)> {
        // Without C_NPROCS the sum of H_NPROCS counts.
        self.procs = self.procs.or_else(|| self.procs_of_hosts.and_then(|sum| u32::try_from(sum).ok()));
        let mut doubts = self.counted();
        let said = std::mem::take(self);
        // The values of all clients are broadcast in one piece, and only this count tells where those of the next
        // client begin.
        let missing = |(label, _): (Label, usize)| {
            let (_, what) = said.count(label.shape()?.0)?;
            Some((label, format!("the client has not said how many {what} it has")))
        };
        doubts.extend(said.uncounted.iter().copied().filter_map(missing));
        doubts
    }

    /// The labels whose bytes are retained, and their lengths.
    pub(super) fn retained(&self) -> impl Iterator<Item = (Label, usize)> {
        let kept = [&self.mark, &self.proc];
        kept.into_iter().flatten().map(|(label, bytes)| (*label, bytes.len()))
    }

    /// What is wrong with the values of a label on their own, as far as that is known.
    fn wrong(&mut self, label: Label, values: &[u8]) -> Option<String> {
        if label == Label::C_VERSION {
            if values.is_empty() {
                return Some("it has no version, and 0.0 is one that each client speaks".into());
            }
            return ascending(values).err().map(|error| error.to_string());
        }
        let (per, size) = label.shape()?;
        self.length(label, per, size, values.len()).or_else(|| range(label, per, values))
    }

    /// Number of hosts or processes, if the client has sent it; `None` for labels of the client.
    fn count(&self, per: Per) -> Option<(Option<u64>, &'static str)> {
        match per {
            Per::Client => None,
            Per::Host => Some((self.hosts.map(u64::from), "hosts")),
            Per::Proc => Some((self.procs.map(u64::from), "processes")),
        }
    }

    /// Checks that there is one value for each client, host or process. If the count is unknown so far, the check is
    /// deferred.
    fn length(&mut self, label: Label, per: Per, size: usize, found: usize) -> Option<String> {
        let Some((count, what)) = self.count(per) else {
            return (found != size).then(|| format!("it has {found} bytes, and its value has {size}"));
        };
        let Some(count) = count else {
            if found.is_multiple_of(size) {
                self.uncounted.push((label, found));
                return None;
            }
            return Some(format!("it has {found} bytes, which are no values of {size} bytes each"));
        };
        let len = count.saturating_mul(size as u64);
        (len != found as u64)
            .then(|| format!("it has {found} bytes, and {count} {what} with {size} bytes each have {len}"))
    }

    /// Deferred checks of values that arrived before the count of hosts or processes.
    fn counted(&mut self) -> Vec<(Label, String)> {
        let lengths = std::mem::take(&mut self.uncounted).into_iter();
        let wrong = |(label, found): (Label, usize)| {
            let (per, size) = label.shape()?;
            Some((label, self.length(label, per, size, found)?))
        };
        lengths.filter_map(wrong).collect()
    }

    /// What is wrong with this label in combination with another one that arrived before.
    fn paired(&mut self, label: Label, values: &Bytes) -> Option<(Label, String)> {
        let pair = |kept: &mut Option<(Label, Bytes)>| match kept.take() {
            Some((_, other)) => Some(other),
            None => {
                *kept = Some((label, values.clone()));
                None
            }
        };
        let why = match label {
            Label::C_NPROCS | Label::H_NPROCS => return Some((Label::H_NPROCS, self.sum()?)),
            Label::H_HIWATER => marks(&pair(&mut self.mark)?, values),
            Label::H_ACKMARK => return Some((Label::H_HIWATER, marks(values, &pair(&mut self.mark)?)?)),
            Label::P_PID => pids(&pair(&mut self.proc)?, values),
            Label::P_IPV6 => return Some((Label::P_PID, pids(values, &pair(&mut self.proc)?)?)),
            _ => None,
        };
        Some((label, why?))
    }

    /// Checks that the hosts have as many processes as the client.
    fn sum(&self) -> Option<String> {
        let (sum, procs) = (self.procs_of_hosts?, self.procs?);
        let differ = sum != u64::from(procs);
        differ.then(|| format!("its hosts have {sum} processes in all, and by C_NPROCS there are {procs}"))
    }
}

/// Checks that each value is in the allowed range.
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

/// The allowed values of a label, if these are restricted.
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

/// Checks that each host acknowledges before its sender has to stop.
fn marks(ackmarks: &[u8], hiwaters: &[u8]) -> Option<String> {
    let pairs = words(ackmarks).zip(words(hiwaters));
    let (host, (ackmark, hiwater)) = pairs.enumerate().find(|(_, (ackmark, hiwater))| ackmark > hiwater)?;
    Some(format!("that of host {host} is {hiwater}, and it is at least its H_ACKMARK, {ackmark}"))
}

/// The number of processes, if that is too large to compare their numbers.
pub(super) fn too_many(label: Label, values: &[u8]) -> Option<usize> {
    let processes = values.len() / 8;
    (label == Label::P_PID && processes > COMPARED_MAX).then_some(processes)
}

/// Checks that the processes of each address have different numbers. Uses 32 bytes for each process meanwhile.
fn pids(addresses: &[u8], pids: &[u8]) -> Option<String> {
    if too_many(Label::P_PID, pids).is_some() {
        return None;
    }
    let addresses = addresses.as_chunks::<16>().0;
    let pids = pids.as_chunks::<8>().0;
    let mut all: Vec<([u8; 16], [u8; 8], u32)> = (0..)
        .zip(addresses.iter().zip(pids))
        .map(|(index, (address, pid))| (*address, *pid, index))
        .collect();
    all.sort_unstable();
    let same = |pair: &&[([u8; 16], [u8; 8], u32)]| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1);
    // The first process with the number of another one.
    let pair = all.windows(2).filter(same).min_by_key(|pair| pair[1].2)?;
    let (first, second, pid) = (pair[0].2, pair[1].2, u64::from_be_bytes(pair[0].1));
    Some(format!(
        "processes {first} and {second} have the same P_IPV6 and both are {pid}, and those of one address differ"
    ))
}

fn words(values: &[u8]) -> impl Iterator<Item = u32> {
    values.as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word))
}
