//! Commands that look into domains from outside, by a running node of theirs: `gpc ps --peers` and its kin. Whoever asks has no part in the domain; the node asks the head for it.
//!
//! A call of the function `bnr.look`, whose header is the name of a domain and whose data is a request as in a frame, is replied to with a report. Without a name, it is replied to with the names of the domains that have a part at the node. `docs/bnr-wire.md`, "Commands elsewhere".
#![allow(clippy::disallowed_methods, reason = "one limit for several calls, one after the other")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use chained_gpc::trees::Id;
use chained_gpc::{Call, Caller, Deferred, Tree};

use super::calls::{Handles, reports};
use super::engine::reply;
use super::mailbox::Told;
use super::serving::{Serving, Shared};
use crate::codec::{body_of, decode_up};
use crate::fault::{Fault, FaultKind};
use crate::names::is_domain;
use crate::order::Report;
use crate::request::{Answer, Request};

/// How many nodes are asked at a time, where they cannot be asked by a tree.
const AT_ONCE: usize = 64;

/// What those have who are asked when the time is over: they are named as such, not left out.
const SHORTEST: Duration = Duration::from_millis(1);

/// Whether a request may come from elsewhere: it looks, or kills. Who starts something takes part in a domain.
fn is_for_all(request: &Request) -> bool {
    matches!(
        request,
        Request::Groups
            | Request::Status(_)
            | Request::Size(_)
            | Request::Databases
            | Request::Get { .. }
            | Request::Iterate(_)
            | Request::Lookup(_)
            | Request::Limits
            | Request::Kill(_)
    )
}

impl Shared {
    /// Answers a command elsewhere.
    pub(super) fn look(&self, request: &chained_gpc::Request<'_>, answer: Deferred) {
        let respond = |answer: Deferred, said| answer.reply(reply(&Report::Answer(said)));
        if request.header().is_empty() {
            return respond(answer, Ok(Answer::Names(self.names())));
        }
        let asked = match decode_up(request.data()) {
            Ok((_, asked)) => asked,
            Err(error) => return answer.fail(format!("a request that makes no sense: {error}")),
        };
        let Some(post) = self.find(request.header()) else {
            let message = "this node has no part in such a domain, or not any more";
            return respond(answer, Err(Fault::new(FaultKind::DomainEnded, message)));
        };
        if !is_for_all(&asked) {
            let message = "that is not for commands elsewhere";
            return respond(answer, Err(Fault::new(FaultKind::Unsupported, message)));
        }
        let then = Box::new(move |said| respond(answer, said));
        // A loop that has ended drops the answer, and so says that there is none.
        drop(post.tell(Told::Ask { request: Box::new(asked), then }));
    }
}

/// For a process that has no part in any domain, but whose node is linked with nodes that have.
impl Serving {
    /// The domains that nodes have a part in, as each says it. Who does not answer within the limit is not there.
    pub fn domains_of(&self, ids: &[Id], limit: Duration) -> Vec<(Id, Result<Vec<String>, Fault>)> {
        let asked = self.look(ids, "", Bytes::new(), limit);
        let names = |(id, said)| match said {
            // What is no name of a domain is shown to nobody.
            Ok(Answer::Names(names)) => (id, Ok(names.into_iter().filter(|name| is_domain(name)).collect())),
            Ok(_) => (id, Err(Fault::at(id, FaultKind::Link, format!("node {id} answers something else")))),
            Err(fault) => (id, Err(fault)),
        };
        asked.into_iter().map(names).collect()
    }

    /// Asks the head of a domain, by a node that has a part in it: for anything that looks, or kills.
    ///
    /// # Errors
    /// Those of the request; [`NodeLost`](FaultKind::NodeLost) when the node is not reached, and [`DomainEnded`](FaultKind::DomainEnded) when it has no part in the domain.
    pub fn ask_by(&self, id: Id, domain: &str, request: &Request, limit: Duration) -> Result<Answer, Fault> {
        let data = body_of(0, request)?;
        let said = self.look(&[id], domain, data, limit).pop().map(|(_, said)| said);
        said.unwrap_or_else(|| Err(Fault::at(id, FaultKind::NodeLost, format!("node {id} was not asked"))))
    }

    fn look(
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
        let call = |ids: &[Id]| looking(handles, ids, domain, data.clone(), limit);
        let whole = caller.call(call(ids)).and_then(|handle| handle.wait());
        if whole.is_ok() || ids.len() < 2 {
            return reports(ids, &whole).into_iter().map(answered).collect();
        }
        // Somebody has held up the others: each alone, and all within the limit.
        let until = Instant::now() + limit;
        let left = || until.saturating_duration_since(Instant::now()).max(SHORTEST);
        let call = |ids: &[Id]| looking(handles, ids, domain, data.clone(), left());
        ids.chunks(AT_ONCE).flat_map(|ids| apart(caller, ids, call)).collect()
    }
}

fn apart(caller: &Caller, ids: &[Id], call: impl Fn(&[Id]) -> Call) -> Vec<(Id, Result<Answer, Fault>)> {
    let flying: Vec<_> = ids.iter().map(|id| (*id, caller.call(call(&[*id])))).collect();
    let ended = |(id, handle): (Id, Result<chained_gpc::CallHandle, _>)| {
        reports(&[id], &handle.and_then(|handle| handle.wait()))
    };
    flying.into_iter().flat_map(ended).map(answered).collect()
}

fn looking(handles: &Handles, ids: &[Id], domain: &str, data: Bytes, limit: Duration) -> Call {
    let header = Bytes::copy_from_slice(domain.as_bytes());
    let call = Call::new(handles.look).ids(ids.to_vec()).tree(Tree::Binomial).header(header).data(data);
    call.limit(limit).partial().watch()
}

fn answered((id, report): (Id, Result<Report, Fault>)) -> (Id, Result<Answer, Fault>) {
    let said = match report {
        Ok(Report::Answer(said)) => said,
        Ok(_) => Err(Fault::at(id, FaultKind::Link, format!("node {id} answers something else"))),
        Err(fault) => Err(fault),
    };
    (id, said)
}
