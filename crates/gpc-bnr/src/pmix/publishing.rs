//! Publish, lookup and unpublish: the domain's global names. A value is deposited with its type and its publisher.

use std::collections::BTreeSet;
use std::time::Duration;

use gpc_pmix::server::{Answer as Reply, Info, Process, Value};

use super::directives::{FIRST_READ, PERSISTENCE, PREFIX, WAIT, find, number, timeout};
use super::pending::{Lookup, Part, Pending, Several};
use super::status::{self, status_of};
use super::{JOB_LIMIT, SERVER, Translation};
use crate::fault::{Fault, FaultKind};
use crate::request::{Answer, Client, Pair, Request};

/// Prefix of the global names, so that they are not those of PMI.
const NAMES: &str = "pmix:";

/// Longest wait of a lookup without a time limit: as long as fences have by default.
const WAIT_MAX: Duration = Duration::from_secs(600);

impl Translation {
    pub(super) fn publish(&mut self, upcall: u64, process: &Process, info: Vec<Info>) -> Result<(), i32> {
        let member = self.local_member(process).ok_or(status::BAD_PARAM)?;
        let once = find(&info, PERSISTENCE).and_then(number) == Some(FIRST_READ);
        let pairs: Vec<Info> = info.into_iter().filter(|info| !info.key.starts_with(PREFIX)).collect();
        if pairs.is_empty() {
            return Err(status::BAD_PARAM);
        }
        self.upcalls.insert(upcall, Pending::Several(Several { open: pairs.len(), error: None }));
        for Info { key, value, .. } in pairs {
            let pair = Pair { key: name(&key), value: encode(process, &value, once) };
            let part = match once {
                true => Part::One,
                false => Part::Published(process.clone(), key),
            };
            self.ask(Client::Process(member), upcall, part, Request::Deposit(pair));
        }
        Ok(())
    }

    pub(super) fn unpublish(&mut self, upcall: u64, process: &Process, keys: Vec<String>) -> Result<(), i32> {
        let member = self.local_member(process).ok_or(status::BAD_PARAM)?;
        let own = self.published.get_mut(process);
        let keys: Vec<String> = match (keys.is_empty(), own) {
            (true, own) => own.map(std::mem::take).unwrap_or_default().into_iter().collect(),
            (false, own) => {
                own.into_iter().for_each(|own| own.retain(|key| !keys.contains(key)));
                keys
            }
        };
        if keys.is_empty() {
            return Ok(());
        }
        self.upcalls.insert(upcall, Pending::Several(Several { open: keys.len(), error: None }));
        for key in keys {
            self.ask(Client::Process(member), upcall, Part::One, Request::Withdraw(name(&key)));
        }
        Ok(())
    }

    /// One of several requests is answered.
    pub(super) fn one_done(&mut self, upcall: u64, error: Option<i32>) {
        let Some(Pending::Several(several)) = self.upcalls.get_mut(&upcall) else { return };
        several.open = several.open.saturating_sub(1);
        several.error = several.error.or(error);
        if several.open == 0 {
            let answer = several.error.map_or(Ok(Reply::Done), Err);
            self.finish(upcall, answer);
        }
    }

    /// Counts requests that are answered together with [`one_done`](Self::one_done).
    pub(super) fn await_several(&mut self, upcall: u64, count: usize) {
        self.upcalls.insert(upcall, Pending::Several(Several { open: count, error: None }));
    }

    pub(super) fn lookup(
        &mut self,
        upcall: u64,
        process: Process,
        keys: Vec<String>,
        info: &[Info],
    ) -> Result<(), i32> {
        self.local_member(&process).ok_or(status::BAD_PARAM)?;
        let missing: BTreeSet<String> = keys.into_iter().collect();
        if missing.is_empty() {
            return Err(status::BAD_PARAM);
        }
        let limit = timeout(info).unwrap_or(WAIT_MAX).min(JOB_LIMIT);
        let wait = find(info, WAIT).and_then(number).map(|count| {
            // Zero stands for all.
            let all = missing.len();
            let count = usize::try_from(count).unwrap_or(all);
            (if count == 0 { all } else { count.min(all) }, limit)
        });
        let lookup = Lookup { process, open: 0, found: Vec::new(), missing, error: None, wait, waits: false };
        self.upcalls.insert(upcall, Pending::Lookup(lookup));
        self.look_up(upcall, None);
        Ok(())
    }

    /// Asks for the missing keys.
    fn look_up(&mut self, upcall: u64, wait: Option<Duration>) {
        let Some(Pending::Lookup(lookup)) = self.upcalls.get_mut(&upcall) else { return };
        lookup.open = lookup.missing.len();
        let (process, missing) = (lookup.process.clone(), lookup.missing.clone());
        // The domain answers no process that has ended.
        let Some(member) = self.local_member(&process) else {
            return self.finish(upcall, Err(status::PROC_ABORTED));
        };
        for key in missing {
            let request = Request::Lookup { name: name(&key), wait };
            self.ask(Client::Process(member), upcall, Part::Key(key), request);
        }
    }

    /// Handles the answer to the lookup of a key.
    pub(super) fn looked_up(&mut self, upcall: u64, key: String, answer: Result<Answer, Fault>) {
        let Some(Pending::Lookup(lookup)) = self.upcalls.get_mut(&upcall) else { return };
        lookup.open = lookup.open.saturating_sub(1);
        let mut once = false;
        match answer {
            Ok(Answer::Value(bytes)) => match decode(&bytes) {
                Some((publisher, value, is_once)) => {
                    once = is_once;
                    lookup.missing.remove(&key);
                    lookup.found.push((publisher, Info::new(key.clone(), value)));
                }
                None => lookup.error = Some(status::ERROR),
            },
            Ok(_) => lookup.error = Some(status::ERROR),
            Err(fault) if fault.kind == FaultKind::NotFound => {}
            Err(fault) => lookup.error = Some(status_of(&fault)),
        }
        if once {
            self.ask(SERVER, 0, Part::Ignored, Request::Withdraw(name(&key)));
        }
        self.looked_up_all(upcall);
    }

    fn looked_up_all(&mut self, upcall: u64) {
        let Some(Pending::Lookup(lookup)) = self.upcalls.get_mut(&upcall) else { return };
        // A lookup that waits ends as soon as it has the number of names that `PMIX_WAIT` gives.
        let is_enough = lookup.waits && lookup.wait.is_some_and(|(wanted, _)| lookup.found.len() >= wanted);
        if lookup.open > 0 && !is_enough {
            return;
        }
        let answer = match (lookup.error, lookup.wait) {
            (Some(status), _) if !is_enough => Err(status),
            (_, Some((wanted, limit))) if lookup.found.len() < wanted => {
                lookup.waits = true;
                return self.look_up(upcall, Some(limit));
            }
            _ if lookup.found.is_empty() => Err(status::NOT_FOUND),
            _ => Ok(Reply::Found(std::mem::take(&mut lookup.found))),
        };
        self.finish(upcall, answer);
    }
}

fn name(key: &str) -> Vec<u8> {
    [NAMES, key].concat().into_bytes()
}

/// A value as it is deposited: its type, whether it is read once, the publisher, the bytes.
fn encode(publisher: &Process, value: &Value, once: bool) -> Vec<u8> {
    let namespace = publisher.namespace.as_bytes();
    let mut bytes = value.kind.to_le_bytes().to_vec();
    bytes.push(u8::from(once));
    bytes.extend_from_slice(&publisher.rank.to_le_bytes());
    // Namespaces have at most 255 bytes.
    bytes.push(u8::try_from(namespace.len()).unwrap_or(u8::MAX));
    bytes.extend(namespace.iter().take(usize::from(u8::MAX)));
    bytes.extend_from_slice(&value.bytes);
    bytes
}

/// `None` if the value was not deposited by a translation.
fn decode(bytes: &[u8]) -> Option<(Process, Value, bool)> {
    let (kind, rest) = bytes.split_first_chunk::<2>()?;
    let (once, rest) = rest.split_first()?;
    let (rank, rest) = rest.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first()?;
    let (namespace, bytes) = rest.split_at_checked(usize::from(*length))?;
    let namespace = str::from_utf8(namespace).ok()?.to_owned();
    let value = Value { kind: u16::from_le_bytes(*kind), bytes: bytes.to_vec() };
    Some((Process { namespace, rank: u32::from_le_bytes(*rank) }, value, *once != 0))
}
