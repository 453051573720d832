//! A chained-GPC node that serves domains: its functions, and the loops of the domains that other nodes have begun
//! here.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::trees::Id;
use chained_gpc::{Access, Caller, Deferred, Functions, FunctionsError, Placement, Request as Call};

use super::begin::begin_elsewhere;
use super::calls::Handles;
use super::helper::PmixCommand;
use super::mailbox::{EngineMessage, Mailbox};
use super::programs::NO_PART;
use super::shared::Shared;
use super::supervisor::SupervisorCommand;
use crate::codec::decode_order;
use crate::limits::Limits;
use crate::names::is_domain;
use crate::order::Order;

/// Most domains at one node. Each is the job of one user.
const DOMAINS_MAX: usize = 256;

/// A node's part in domains. It runs processes only for nodes whose link proves that they belong to the job.
#[derive(Clone, Debug)]
pub struct Serving {
    shared: Arc<Shared>,
}

impl Serving {
    /// Registers the functions by which nodes of a domain call each other. They require an authenticated link: over
    /// TCP, the secret of the job.
    ///
    /// # Errors
    /// The names are already registered.
    pub fn register(
        functions: &Functions,
        command: SupervisorCommand,
        limits: Limits,
    ) -> Result<Serving, FunctionsError> {
        Serving::with(functions, Shared::new(command, limits))
    }

    /// As [`register`](Self::register), for a node that leads a domain of its own or only asks others: it begins no
    /// domain for another node. So no member of the job starts programs here.
    ///
    /// # Errors
    /// The names are already registered.
    pub fn register_head(
        functions: &Functions,
        command: SupervisorCommand,
        limits: Limits,
    ) -> Result<Serving, FunctionsError> {
        let mut shared = Shared::new(command, limits);
        shared.begins = false;
        Serving::with(functions, shared)
    }

    fn with(functions: &Functions, shared: Shared) -> Result<Serving, FunctionsError> {
        let shared = Arc::new(shared);
        // The functions are short: they pass requests to the loop of a domain, in order of arrival.
        let functions = functions.at(Placement::Inline).access(Access::Proved);
        let register = |name: &str, give: fn(&Call<'_>, Deferred, &Mailbox)| {
            let shared = shared.clone();
            functions.deferring(name, move |request: &Call<'_>, answer: Deferred| {
                match shared.find(request.header()) {
                    Some(mailbox) => give(request, answer, &mailbox),
                    None => answer.fail("this node has no part in such a domain, or not any more"),
                }
            })
        };
        let ordered = shared.clone();
        let order = functions.deferring("bnr.order", move |request: &Call<'_>, answer: Deferred| {
            ordered.order(request, answer);
        })?;
        let output = register("bnr.output", |request, answer, mailbox| {
            send(mailbox, EngineMessage::Batches { data: request.data_bytes(), answer });
        })?;
        let flush =
            register("bnr.flush", |_, answer, mailbox| send(mailbox, EngineMessage::Flush { answer }))?;
        let input = register("bnr.input", |request, answer, mailbox| {
            send(mailbox, EngineMessage::Input { data: request.data_bytes(), answer });
        })?;
        let queries = shared.clone();
        let query = functions.deferring("bnr.look", move |request: &Call<'_>, answer: Deferred| {
            queries.answer_query(request, answer);
        })?;
        // This is the only place that sets it.
        let _ = shared.handles.set(Handles { order, output, flush, input, query });
        Ok(Serving { shared })
    }

    /// Sets the caller that this node uses if it is the head of a domain itself.
    pub fn attach(&self, caller: Caller) {
        // The first caller wins.
        let _ = self.shared.caller.set(caller);
    }

    /// Sets the time of silence after which this node takes a peer for lost, if it is not the default. A node that was
    /// not watched for longer ends its part in a domain.
    pub fn dead_after(&self, silence: Duration) {
        // The first value wins.
        let _ = self.shared.dead_after.set(silence);
    }

    /// Sets the command of the PMIx server. Without it, this node starts no programs that need one.
    pub fn serve_pmix(&self, command: PmixCommand) {
        // The first value wins.
        let _ = self.shared.pmix.set(command);
    }

    /// Adds a program to those of a domain, or replaces it: the processes of specs whose hint `image` is this number
    /// execute it. It must be an executable file that is not open for writing. The domain drops it when its part here
    /// ends. The domain is given by its name and the node that sends the program: only its head may.
    ///
    /// # Errors
    /// This node has no part in such a domain, or the domain has too many programs.
    pub fn give_program(
        &self,
        (domain, sender): (&str, Id),
        number: u64,
        file: Arc<File>,
    ) -> Result<(), &'static str> {
        let part = self.shared.part(domain.as_bytes()).filter(|part| part.head == sender);
        part.ok_or(NO_PART)?.programs.insert(number, file)
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Shared {
    fn order(self: &Arc<Self>, request: &Call<'_>, answer: Deferred) {
        let order = match decode_order(request.data()) {
            Ok(order) => order,
            Err(error) => return answer.fail(format!("an order that makes no sense: {error}")),
        };
        let mailbox = match (self.find(request.header()), &order) {
            (Some(mailbox), _) => mailbox,
            (None, Order::Begin { nodes, limits }) => match self.begin(request, nodes, *limits) {
                Ok(mailbox) => mailbox,
                Err(why) => return answer.fail(why),
            },
            (None, _) => return answer.fail("this node has no part in such a domain, or not any more"),
        };
        send(&mailbox, EngineMessage::Order { root: request.root(), order: Box::new(order), answer });
    }

    fn begin(
        self: &Arc<Self>,
        request: &Call<'_>,
        nodes: &[chained_gpc::Id],
        limits: Limits,
    ) -> Result<Mailbox, String> {
        if !self.begins {
            return Err("this node begins no domains for others, as `gpc node --exec-allowed` does".into());
        }
        let name = str::from_utf8(request.header()).map_err(|_| "the name of a domain is text")?;
        if !is_domain(name) {
            return Err("the name of a domain has 1 to 64 letters and digits".into());
        }
        if nodes.first() != Some(&request.root()) || !nodes.contains(&request.me()) {
            return Err("a domain is begun by its head, at its nodes".into());
        }
        if self.count() >= DOMAINS_MAX {
            return Err(format!("this node has a part in {DOMAINS_MAX} domains already"));
        }
        if let Some(what) = limits.beyond(&self.limits) {
            return Err(format!("the domain is to have more {what} than this node allows"));
        }
        // The caller's time limit applies only to calls without one, and calls of a domain always have one.
        let begun = begin_elsewhere(self, name, request.me(), nodes, limits, request.caller());
        begun.map_err(|error| format!("the domain cannot begin here: {error}"))
    }
}

/// Sends a message to a loop. If the loop has ended, the reply handle is dropped, which fails the call.
fn send(mailbox: &Mailbox, message: EngineMessage) {
    drop(mailbox.send(message));
}

#[cfg(test)]
mod tests;
