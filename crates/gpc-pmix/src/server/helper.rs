//! The helper process: reads orders from its socket and carries them out.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

use chained_gpc::channel::{Sender, channel};

use super::codec::Orders;
use super::folder::{JobFolders, SessionFolder, remove, remove_leftovers};
use super::job_data;
use super::native::libpmix::Libpmix;
use super::native::upcalls;
use super::open_mpi;
use super::orders::{Event, Job, Order, Process, Variables};
use super::outbox::Outbox;

/// Longest time of an orderly end. libpmix writes what is queued for its clients, and some versions have hung there.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// A server and its jobs.
struct Helper {
    server: Libpmix,
    host: String,
    folder: SessionFolder,
    outbox: Arc<Outbox>,
    /// The folders of the registered jobs.
    folders: BTreeMap<String, JobFolders>,
    /// Number of jobs that were registered.
    jobs: u32,
}

/// Runs a PMIx server until the node closes the socket. `host` is the name of this node in all jobs, and `own` the
/// libpmix of their programs.
///
/// # Errors
/// The socket fails, or its bytes are invalid.
pub(super) fn serve(socket: OwnedFd, host: &str, own: Option<&Path>) -> io::Result<()> {
    let mut socket = File::from(socket);
    let outbox = Arc::new(Outbox::new());
    let (queue, writing) = (Arc::clone(&outbox), socket.try_clone()?);
    let writer =
        thread::Builder::new().name("gpc-pmix-out".to_owned()).spawn(move || queue.write_to(writing))?;
    let (result, limit) = match start(host, own, &outbox) {
        Ok(mut helper) => {
            helper.tell(&Event::Ready(helper.server.version().to_owned()));
            let result = helper.read_orders(&mut socket);
            (result, Some(helper.end()))
        }
        Err(why) => {
            // The queue is empty, and the reason is short.
            let _ = outbox.put(&Event::Failed(why));
            (Ok(()), None)
        }
    };
    outbox.close();
    // If the node has gone, there is no reader.
    let _ = writer.join();
    drop(limit);
    result
}

fn start(host: &str, own: Option<&Path>, outbox: &Arc<Outbox>) -> Result<Helper, String> {
    remove_leftovers();
    let folder = SessionFolder::create()
        .map_err(|error| format!("creating a session folder in /dev/shm and /tmp: {error}"))?;
    let server = Libpmix::start(folder.path(), host, own, outbox)?;
    Ok(Helper {
        server,
        host: host.to_owned(),
        folder,
        outbox: Arc::clone(outbox),
        folders: BTreeMap::new(),
        jobs: 0,
    })
}

impl Helper {
    /// Carries out orders until the node closes the socket.
    fn read_orders(&mut self, socket: &mut File) -> io::Result<()> {
        let mut orders = Orders::default();
        let mut bytes = vec![0; READ_BYTES];
        loop {
            let length = match socket.read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // The node was killed with unread events.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => return Err(error),
            };
            orders.push(&bytes[..length]);
            while let Some(order) = orders.next_order().map_err(io::Error::other)? {
                self.carry_out(order);
            }
        }
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Register(job) => {
                let failed = self.register(&job).err();
                self.tell(&Event::Registered { namespace: job.namespace, failed });
            }
            Order::Prepare { process, user } => {
                let variables = self.prepare(&process, user);
                self.tell(&Event::Environment { process, variables });
            }
            Order::Ended(process) => self.server.forget(&process),
            Order::Forget(namespace) => {
                self.server.deregister(&namespace);
                if let Some(folders) = self.folders.remove(&namespace) {
                    folders.remove();
                }
            }
            Order::Answer { serial, answer } => {
                // An upcall that needs no answer, or that was answered, has none open.
                if let Some(reply) = upcalls::take(serial) {
                    self.server.reply(reply, answer);
                }
            }
            Order::Data { serial, process } => self.server.request_data(serial, &process),
            Order::Notify { code, source, to, info } => {
                // No process waits for it, and the node cannot do more.
                if let Err(why) = self.server.notify(code, &source, &to, info) {
                    self.complain(&format!("notifying {to} of event {code}: {why}"));
                }
            }
        }
    }

    fn register(&mut self, job: &Job) -> Result<(), String> {
        job_data::check(job, &self.host)?;
        let local = job_data::local(job).map(|node| node.ranks.as_slice()).unwrap_or_default();
        self.jobs += 1;
        let folders = self
            .folder
            .create_job(self.jobs, local)
            .map_err(|error| format!("creating the folders of a job: {error}"))?;
        let infos = job_data::infos(job, self.jobs, &folders);
        let registered = self.server.register(&job.namespace, local.len(), &infos);
        if let Err(why) = registered {
            folders.remove();
            return Err(why);
        }
        self.folders.insert(job.namespace.clone(), folders);
        Ok(())
    }

    /// The variables of a process: those of libpmix, and those of Open MPI.
    fn prepare(&self, process: &Process, user: (u32, u32)) -> Result<Variables, String> {
        let folders = self.folders.get(&process.namespace);
        let folders = folders.ok_or_else(|| format!("the job {} is not registered", process.namespace))?;
        let mut variables = self.server.prepare(process, user)?;
        variables.extend(open_mpi::variables(&folders.segments));
        Ok(variables)
    }

    /// Queues an event that answers an order. It is short.
    fn tell(&self, event: &Event) {
        let _ = self.outbox.put(event);
    }

    #[allow(clippy::print_stderr, reason = "the helper's standard error is the node's")]
    fn complain(&self, what: &str) {
        eprintln!("gpc: the PMIx server of {}: {what}", self.host);
    }

    /// Ends the server. Its end and that of this process have a limit, until the returned sender is dropped.
    fn end(self) -> Sender<()> {
        let path = self.folder.path().to_owned();
        let (ended, end) = channel::<()>();
        // If the thread cannot be started, the end has no limit.
        let _ = thread::Builder::new().name("gpc-pmix-end".to_owned()).spawn(move || {
            if end.recv_timeout(END_LIMIT) == Err(RecvTimeoutError::Timeout) {
                remove(&path);
                std::process::exit(1);
            }
        });
        if let Err(why) = self.server.finalize() {
            self.complain(&format!("ending it: {why}"));
        }
        ended
    }
}
