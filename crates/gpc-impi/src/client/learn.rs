//! Interprets the broadcasts: divides values among clients, derives what all have in common, and rejects inconsistent
//! values.
//!
//! Source: IMPI, "Startup": the meaning of the labels.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::answers::{Answer, Answers, Parts, divide, infer, words};
use super::{ClientSettings, Cluster, Host, LearnError, Learned, Proc};
use crate::server::Rank;
use crate::wire::{self, Label};

/// The default of a parameter on which all clients agree.
fn default(label: Label) -> Option<i32> {
    match label {
        Label::C_COLL_XSIZE => Some(1024),
        Label::C_COLL_MAXLINEAR => Some(4),
        _ => None,
    }
}

/// Checks the values of a label on their own, as soon as they are broadcast.
pub(super) fn check(label: Label, answer: &Answer) -> Result<(), LearnError> {
    match (label, default(label)) {
        (Label::C_VERSION, _) => {
            wire::divide(&answer.values, answer.mask.count_ones() as usize)?;
        }
        (Label::C_JOB, _) => {
            job(answer)?;
        }
        (_, Some(_)) => {
            agreed(label, &words(label, answer)?)?;
        }
        (Label::C_NHOSTS | Label::C_NPROCS, _) => {
            let zero = words(label, answer)?.iter().position(|count| *count == Some(0));
            if let Some(client) = zero {
                return Err(LearnError::Zero { client: client as Rank, label });
            }
        }
        (Label::C_DATALEN | Label::C_TAGUB, _) => {
            words(label, answer)?;
        }
        _ => {}
    }
    Ok(())
}

/// The value on which all clients that sent one agree; the default if no client has.
fn agreed(label: Label, values: &[Option<u32>; 32]) -> Result<i32, LearnError> {
    let default = default(label).unwrap_or(-1);
    let said = || values.iter().zip(0..).filter_map(|(value, rank)| value.map(|value| (rank, value as i32)));
    let meant = |value: i32| if value == -1 { default } else { value };
    let first = said().next().map_or(default, |(_, value)| meant(value));
    match said().all(|(_, value)| meant(value) == first) {
        true => Ok(first),
        false => Err(LearnError::Differ { label, values: said().collect(), default }),
    }
}

fn job(answer: &Answer) -> Result<Option<[u8; 16]>, LearnError> {
    if answer.mask > 1 {
        return Err(LearnError::Job { clients: answer.ranks().filter(|rank| *rank > 0).collect() });
    }
    let (jobs, rest) = answer.values.as_chunks::<16>();
    match (jobs.len(), rest.is_empty()) {
        (count, true) if count == answer.mask as usize => Ok(jobs.first().copied()),
        _ => Err(LearnError::length(Label::C_JOB, answer.values.len(), answer.mask.into(), 16)),
    }
}

const HOST_LABELS: [Label; 5] =
    [Label::H_IPV6, Label::H_PORT, Label::H_NPROCS, Label::H_ACKMARK, Label::H_HIWATER];
const PROC_LABELS: [Label; 4] = [Label::P_IPV6, Label::P_PID, Label::P_PORT, Label::P_KEY];

/// Deviations from the source that were nevertheless understood.
pub(super) type Doubts = Vec<(Label, String)>;

/// Interprets all broadcasts, for a client with these settings among `clients` clients.
pub(super) fn learn(
    settings: &ClientSettings,
    clients: u32,
    answers: &Answers,
    own_labels: bool,
) -> Result<(Learned, Doubts), LearnError> {
    let (rank, said) = (settings.rank, &settings.cluster);
    let mut doubts = Doubts::new();
    let shape = Shape::of((rank, clients), answers, settings.procs_max, &mut doubts)?;
    let each = |label| match answers.get(&label) {
        Some(answer) => words(label, answer),
        None => Ok([None; 32]),
    };
    let (datalen, tag_ub) = (each(Label::C_DATALEN)?, each(Label::C_TAGUB)?);
    let (xsize, maxlinear) = (each(Label::C_COLL_XSIZE)?, each(Label::C_COLL_MAXLINEAR)?);
    let versions = versions(answers)?;
    let mut clusters = Vec::with_capacity(clients as usize);
    for (client, mut versions) in (0..clients as usize).zip(versions) {
        clusters.push(Cluster {
            versions: std::mem::take(&mut versions),
            hosts: shape.hosts(client)?,
            datalen: datalen[client],
            tag_ub: tag_ub[client].map(|value| value as i32),
            coll_xsize: xsize[client].map(|value| value as i32),
            coll_maxlinear: maxlinear[client].map(|value| value as i32),
        });
    }
    for label in answers.iter().filter(|(_, answer)| answer.has(rank)).map(|(label, _)| *label) {
        let came = clusters.get(rank as usize).and_then(|cluster| cluster.values(label));
        let same = match (settings.extra.get(&label), answers.get(&label)) {
            (Some(extra), Some(answer)) => answer.may_have(rank, extra),
            _ => label == Label::C_JOB || came == said.values(label),
        };
        if !same {
            return Err(LearnError::Altered(label));
        }
    }
    let learned = Learned {
        rank,
        clusters,
        datalen: datalen.iter().flatten().min().copied(),
        tag_ub: tag_ub.iter().flatten().map(|value| *value as i32).min(),
        coll_xsize: agreed(Label::C_COLL_XSIZE, &xsize)?,
        coll_maxlinear: agreed(Label::C_COLL_MAXLINEAR, &maxlinear)?,
        job: answers.get(&Label::C_JOB).map_or(Ok(None), job)?,
        own_labels,
        others: BTreeMap::new(),
    };
    Ok((learned, doubts))
}

/// Versions of each client, by rank.
pub(super) fn versions(answers: &Answers) -> Result<Vec<Vec<wire::Version>>, LearnError> {
    let mut by_rank = vec![Vec::new(); 32];
    if let Some(answer) = answers.get(&Label::C_VERSION) {
        let lists = wire::divide(&answer.values, answer.mask.count_ones() as usize)?;
        answer.ranks().zip(lists).for_each(|(rank, list)| by_rank[rank as usize] = list);
    }
    Ok(by_rank)
}

/// Numbers of hosts and processes of each client, and their values.
struct Shape {
    /// Number of processes on each host, by client.
    procs: Vec<Vec<u32>>,
    /// In the order of `HOST_LABELS`.
    of_hosts: Vec<Parts>,
    /// In the order of `PROC_LABELS`.
    of_procs: Vec<Parts>,
}

impl Shape {
    fn of(
        (own, clients): (Rank, u32),
        answers: &Answers,
        procs_max: usize,
        doubts: &mut Doubts,
    ) -> Result<Shape, LearnError> {
        let mut parts = |labels: &[Label], count: Label, counts: &mut Vec<Option<u64>>| {
            infer(counts, labels, answers);
            crowded(count, counts, procs_max)?;
            let mut parts = Vec::with_capacity(labels.len());
            for label in labels {
                parts.push(match answers.get(label) {
                    Some(answer) => divide(*label, answer, counts, own, doubts)?,
                    None => vec![None; counts.len()],
                });
            }
            Ok::<Vec<Parts>, LearnError>(parts)
        };
        let mut hosts = counts(Label::C_NHOSTS, clients, answers)?;
        let of_hosts = parts(&HOST_LABELS, Label::C_NHOSTS, &mut hosts)?;
        let said = counts(Label::C_NPROCS, clients, answers)?;
        let by_host: Vec<Option<Vec<u32>>> =
            of_hosts[2].iter().map(|part| part.as_ref().map(|part| numbers(part).collect())).collect();
        let mut procs = Vec::with_capacity(said.len());
        for (client, (said, by_host)) in said.into_iter().zip(&by_host).enumerate() {
            let sum = by_host.as_ref().map(|hosts| hosts.iter().map(|procs| u64::from(*procs)).sum());
            match (said, sum) {
                (Some(procs), Some(hosts)) if procs != hosts => {
                    return Err(LearnError::Sum { client: client as Rank, procs, hosts });
                }
                _ => procs.push(sum.or(said)),
            }
        }
        let of_procs = parts(&PROC_LABELS, Label::C_NPROCS, &mut procs)?;
        let mut spread = Vec::with_capacity(by_host.len());
        for (client, by_host) in by_host.into_iter().enumerate() {
            spread.push(match by_host {
                Some(by_host) => by_host,
                None => spread_over(client as Rank, hosts[client], procs[client])?,
            });
        }
        Ok(Shape { procs: spread, of_hosts, of_procs })
    }

    /// The hosts of a client.
    fn hosts(&self, client: usize) -> Result<Vec<Host>, LearnError> {
        let words = |parts: &Parts| parts[client].clone().map(numbers_of);
        let mut addresses = self.of_hosts[0][client].clone().map(chunks::<16>);
        let mut ports = words(&self.of_hosts[1]);
        let mut ackmarks = words(&self.of_hosts[3]);
        let mut hiwaters = words(&self.of_hosts[4]);
        let mut proc_addresses = self.of_procs[0][client].clone().map(chunks::<16>);
        let mut pids = self.of_procs[1][client].clone().map(chunks::<8>);
        let mut proc_ports = words(&self.of_procs[2]);
        let mut keys = self.of_procs[3][client].clone().map(chunks::<32>);
        let mut proc = || Proc {
            address: next(&mut proc_addresses).map(Into::into),
            pid: next(&mut pids).map(u64::from_be_bytes),
            port: next(&mut proc_ports),
            key: next(&mut keys).filter(|key| *key != [0; 32]).map(chained_gpc::PublicKey),
        };
        let hosts = self.procs[client].iter().map(|procs| Host {
            address: next(&mut addresses).map(Into::into),
            port: next(&mut ports),
            ackmark: next(&mut ackmarks),
            hiwater: next(&mut hiwaters),
            procs: (0..*procs).map(|_| proc()).collect(),
        });
        Ok(hosts.collect())
    }
}

/// Value of each client under a label, by rank.
fn counts(label: Label, clients: u32, answers: &Answers) -> Result<Vec<Option<u64>>, LearnError> {
    let words = answers.get(&label).map_or(Ok([None; 32]), |answer| words(label, answer))?;
    Ok(words.into_iter().take(clients as usize).map(|count| count.map(u64::from)).collect())
}

/// Rejects more than `most` hosts or processes: storing one takes many times the bytes that were sent for it.
fn crowded(label: Label, counts: &[Option<u64>], most: usize) -> Result<(), LearnError> {
    let counted = || counts.iter().zip(0..).filter_map(|(count, client)| count.map(|count| (count, client)));
    let all = counted().fold(0, |all: u64, (count, _)| all.saturating_add(count));
    match counted().max() {
        Some((count, client)) if all > most as u64 => {
            Err(LearnError::Many { label, client, count, all, most })
        }
        _ => Ok(()),
    }
}

/// Number of processes on each host, for a client that has not sent it.
fn spread_over(client: Rank, hosts: Option<u64>, procs: Option<u64>) -> Result<Vec<u32>, LearnError> {
    let homeless = |label| Err(LearnError::Homeless { client, procs: procs.unwrap_or(0), label });
    match (hosts, procs) {
        (None, None) => Ok(Vec::new()),
        (None, Some(_)) => homeless(Label::C_NHOSTS),
        // Bounded: `crowded` has checked the number of hosts.
        (Some(hosts), None | Some(0)) => Ok(vec![0; hosts as usize]),
        (Some(1), Some(procs)) => Ok(vec![u32::try_from(procs).unwrap_or(u32::MAX)]),
        (Some(_), Some(_)) => homeless(Label::H_NPROCS),
    }
}

fn numbers(part: &[u8]) -> impl Iterator<Item = u32> {
    part.as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word))
}

fn numbers_of(part: Bytes) -> impl Iterator<Item = u32> {
    chunks::<4>(part).map(u32::from_be_bytes)
}

/// The elements of a part, which has a whole number of them.
fn chunks<const N: usize>(part: Bytes) -> impl Iterator<Item = [u8; N]> {
    (0..part.len() / N).filter_map(move |i| part[i * N..].first_chunk().copied())
}

fn next<T>(values: &mut Option<impl Iterator<Item = T>>) -> Option<T> {
    values.as_mut().and_then(Iterator::next)
}
