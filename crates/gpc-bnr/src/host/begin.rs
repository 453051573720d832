//! Starts the threads of a domain at a node: the event loop, and the writer of output.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};

use chained_gpc::Caller;
use chained_gpc::trees::Id;
use mio::Poll;

use super::engine::{Engine, Parts, host_name};
use super::listeners::Listeners;
use super::mailbox::{EngineMessage, Mailbox};
use super::outflow::{Destination, Outflow, Writer, Writing};
use super::shared::Shared;
use super::sources::WAKER;
use crate::domain::{Domain, Settings};
use crate::limits::Limits;

/// Starts the loop of a domain that another node leads.
pub(super) fn begin_elsewhere(
    shared: &Arc<Shared>,
    name: &str,
    me: Id,
    nodes: &[Id],
    limits: Limits,
    caller: Caller,
) -> io::Result<Mailbox> {
    let clock = shared.clock.clone();
    let poll = Poll::new()?;
    let (mailbox, inbox) = Mailbox::new(poll.registry(), WAKER)?;
    let settings = Settings {
        me,
        nodes: nodes.to_vec(),
        runs: true,
        name: name.into(),
        limits,
        slots: BTreeMap::new(),
        addresses: BTreeMap::new(),
        host: host_name(),
        dead_after: shared.dead_after.get().copied(),
    };
    let engine = Engine::new(Parts {
        poll,
        mailbox: mailbox.clone(),
        inbox,
        me,
        outflow: Outflow::new(me, nodes.to_vec(), Destination::Sent),
        nodes: nodes.to_vec(),
        name: name.into(),
        domain: Domain::new(settings, clock.now()),
        clock,
        supervisor: shared.command.clone(),
        pmix: shared.pmix.get().cloned(),
        starts_at_once: false,
        listeners: Listeners::default(),
        events: None,
        calls: shared.handles.get().copied(),
        caller: Some(caller),
    });
    shared.insert(name, engine.part());
    spawn(engine, name.into(), Some(shared.clone()))?;
    Ok(mailbox)
}

pub(super) fn spawn(engine: Engine, name: String, shared: Option<Arc<Shared>>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("bnr-domain".into()).spawn(move || {
        // From then on messages would not be read, while the supervisor may take some time to end.
        engine.run(|| shared.iter().for_each(|shared| shared.remove(&name)));
    })
}

/// Starts the thread that writes output; a slow reader blocks only this thread.
pub(super) fn start_writer(
    mut write: Writer,
    writings: Receiver<Writing>,
    mailbox: Mailbox,
) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("bnr-output".into()).spawn(move || {
        // Terminates with the loop that sends the batches.
        while let Ok(pieces) = writings.recv() {
            let result = pieces.iter().try_for_each(&mut write);
            if mailbox.send(EngineMessage::Written(result)).is_err() {
                return;
            }
        }
    })
}
