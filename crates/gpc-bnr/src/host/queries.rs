//! Commands that inspect domains from outside, through a running node: `gpc ps --peers` and similar commands. The
//! command takes no part in the domain; the node asks the head on its behalf.
//!
//! The function `bnr.look` takes the name of a domain as its header and an encoded request as its data; the reply is a
//! report. Without a name, the reply lists the domains that the node serves. `docs/bnr-wire.md`, "Commands elsewhere".

use std::time::Duration;

use bytes::Bytes;
use chained_gpc::trees::Id;
use chained_gpc::{Call, Caller, Deferred, Tree};

use super::calls::{Handles, reply, reports};
use super::mailbox::EngineMessage;
use super::serving::Serving;
use super::shared::Shared;
use crate::codec::{body_of, decode_up};
use crate::fault::{Fault, FaultKind};
use crate::names::is_domain;
use crate::order::Report;
use crate::request::{Answer, Request};

/// Most nodes asked at the same time, each alone.
const AT_ONCE: usize = 64;

/// Limit of calls made after the time is over: these nodes are reported as late instead of being omitted.
const SHORTEST: Duration = Duration::from_millis(1);

/// Whether a request may come from outside: it reads state, or kills. Starting something is for members of the domain.
fn is_for_all(request: &Request) -> bool {
    matches!(
        request,
        Request::Groups
            | Request::Status(_)
            | Request::Size(_)
            | Request::Databases
            | Request::Get { .. }
            | Request::Iterate(_)
            | Request::Lookup { wait: None, .. }
            | Request::Limits
            | Request::Kill(_)
    )
}

impl Shared {
    /// Answers a command from outside.
    pub(super) fn answer_query(&self, request: &chained_gpc::Request<'_>, answer: Deferred) {
        let respond = |answer: Deferred, result| answer.reply(reply(&Report::Answer(result)));
        if request.header().is_empty() {
            return respond(answer, Ok(Answer::Names(self.names())));
        }
        let query = match decode_up(request.data()) {
            Ok((_, query)) => query,
            Err(error) => return answer.fail(format!("a request that makes no sense: {error}")),
        };
        let Some(mailbox) = self.find(request.header()) else {
            let message = "this node has no part in such a domain, or not any more";
            return respond(answer, Err(Fault::new(FaultKind::DomainEnded, message)));
        };
        if !is_for_all(&query) {
            let message = "that is not for commands elsewhere";
            return respond(answer, Err(Fault::new(FaultKind::Unsupported, message)));
        }
        let callback = Box::new(move |result| respond(answer, result));
        // If the loop has ended, the reply handle is dropped, which fails the call.
        drop(mailbox.send(EngineMessage::Ask { request: Box::new(query), callback }));
    }
}

/// For a process outside all domains whose node is linked with nodes of domains.
impl Serving {
    /// The domains that each node serves. A node that does not answer within the limit has a fault.
    pub fn domains_of(&self, ids: &[Id], limit: Duration) -> Vec<(Id, Result<Vec<String>, Fault>)> {
        let answers = self.query(ids, "", Bytes::new(), limit);
        let names = |(id, result)| match result {
            // Invalid names are dropped before they are shown.
            Ok(Answer::Names(names)) => (id, Ok(names.into_iter().filter(|name| is_domain(name)).collect())),
            Ok(_) => (id, Err(Fault::at(id, FaultKind::Link, format!("node {id} answers something else")))),
            Err(fault) => (id, Err(fault)),
        };
        answers.into_iter().map(names).collect()
    }

    /// Sends a request to the head of a domain, through a node of the domain: any request that reads state, or kills.
    ///
    /// # Errors
    /// Those of the request; [`NodeLost`](FaultKind::NodeLost) if the node is not reached, and
    /// [`DomainEnded`](FaultKind::DomainEnded) if it does not serve the domain.
    pub fn ask_by(&self, id: Id, domain: &str, request: &Request, limit: Duration) -> Result<Answer, Fault> {
        let data = body_of(0, request)?;
        let result = self.query(&[id], domain, data, limit).pop().map(|(_, result)| result);
        result.unwrap_or_else(|| Err(Fault::at(id, FaultKind::NodeLost, format!("node {id} was not asked"))))
    }

    fn query(
        &self,
        ids: &[Id],
        domain: &str,
        data: Bytes,
        limit: Duration,
    ) -> Vec<(Id, Result<Answer, Fault>)> {
        let shared = self.shared();
        let (Some(caller), Some(handles)) = (shared.caller.get(), shared.handles.get()) else {
            let unlinked = || Fault::new(FaultKind::System, "this process has no node to ask others by");
            return ids.iter().map(|id| (*id, Err(unlinked()))).collect();
        };
        let call = |ids: &[Id], limit| query_call(handles, ids, domain, data.clone(), limit);
        // In a tree, a node that does not answer keeps those below it from being asked. Half of the time is for asking
        // each of the rest alone.
        let share = if ids.len() < 2 { limit } else { limit / 2 };
        let limit = shared.clock.limit(limit);
        let whole = caller.call(call(ids, share)).and_then(|handle| handle.wait());
        let mut answers = reports(ids, &whole);
        if ids.len() > 1 {
            let late = |(_, report): &&mut (Id, Result<Report, Fault>)| report.is_err();
            let asked: Vec<Id> = answers.iter_mut().filter(late).map(|(id, _)| *id).collect();
            let left = || limit.left().unwrap_or_default().max(SHORTEST);
            let again =
                asked.chunks(AT_ONCE).flat_map(|ids| query_each(caller, ids, |ids| call(ids, left())));
            for (answer, again) in answers.iter_mut().filter(late).zip(again) {
                *answer = again;
            }
        }
        answers.into_iter().map(answer_of).collect()
    }
}

fn query_each(caller: &Caller, ids: &[Id], call: impl Fn(&[Id]) -> Call) -> Vec<(Id, Result<Report, Fault>)> {
    let in_flight: Vec<_> = ids.iter().map(|id| (*id, caller.call(call(&[*id])))).collect();
    let ended = |(id, handle): (Id, Result<chained_gpc::CallHandle, _>)| {
        reports(&[id], &handle.and_then(|handle| handle.wait()))
    };
    in_flight.into_iter().flat_map(ended).collect()
}

fn query_call(handles: &Handles, ids: &[Id], domain: &str, data: Bytes, limit: Duration) -> Call {
    let header = Bytes::copy_from_slice(domain.as_bytes());
    let call = Call::new(handles.query).ids(ids.to_vec()).tree(Tree::Binomial).header(header).data(data);
    call.limit(limit).partial().watch()
}

fn answer_of((id, report): (Id, Result<Report, Fault>)) -> (Id, Result<Answer, Fault>) {
    let result = match report {
        Ok(Report::Answer(result)) => result,
        Ok(_) => Err(Fault::at(id, FaultKind::Link, format!("node {id} answers something else"))),
        Err(fault) => Err(fault),
    };
    (id, result)
}
