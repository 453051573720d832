//! Messages between a node and its helper, the process that runs a PMIx server for the node's processes.
//!
//! The node sends [`Order`]s and makes all decisions. The helper sends [`Event`]s; it translates between these messages
//! and the calls and upcalls of libpmix.

/// A process as PMIx names it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Process {
    /// Its namespace: the job.
    pub namespace: String,
    /// Its rank there; [`ALL`] for all processes of the namespace.
    pub rank: u32,
}

/// The rank that stands for all processes of a namespace (`PMIX_RANK_WILDCARD`).
pub const ALL: u32 = u32::MAX - 1;

/// A value with its PMIx type. Numbers are little-endian and as wide as their type; texts have no zero byte at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Value {
    /// The type (`pmix_data_type_t`).
    pub kind: u16,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A key and its value (`pmix_info_t`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Info {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Value,
    /// A directive that must be obeyed, or the call fails (`PMIX_INFO_REQD`).
    pub required: bool,
}

impl Info {
    /// A pair that is not required.
    pub fn new(key: impl Into<String>, value: Value) -> Info {
        Info { key: key.into(), value, required: false }
    }
}

/// The processes of a namespace on one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeRanks {
    /// The name that `gethostname` gives there.
    pub host: String,
    /// Their ranks, in ascending order.
    pub ranks: Vec<u32>,
    /// One above the largest node rank (`PMIX_NODE_RANK`) of the live groups there: that of the first process.
    pub before: u32,
}

/// All that the server tells about a job (`PMIx_server_register_nspace`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// Its namespace.
    pub namespace: String,
    /// The process that spawned it.
    pub parent: Option<Process>,
    /// Number of processes that could run at once (`PMIX_UNIV_SIZE`).
    pub slots: u32,
    /// Its nodes, each with the ranks there.
    pub nodes: Vec<NodeRanks>,
    /// Index of this node in `nodes`; `None` if it has no process of the job.
    pub here: Option<u32>,
    /// For each application (a part of the command line), the number of its processes, in rank order.
    pub applications: Vec<u32>,
}

/// An application to spawn (`pmix_app_t`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Application {
    /// The program.
    pub program: Vec<u8>,
    /// Its arguments, without its name.
    pub arguments: Vec<Vec<u8>>,
    /// Variables that are added to its environment.
    pub environment: Variables,
    /// Its folder.
    pub folder: Option<Vec<u8>>,
    /// Number of processes.
    pub count: u32,
    /// Further wishes.
    pub info: Vec<Info>,
}

/// A message from the node to the helper.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Order {
    /// Register a job; answered by [`Event::Registered`].
    Register(Job),
    /// Prepare a process of this node; answered by [`Event::Environment`].
    Prepare {
        /// The process.
        process: Process,
        /// Its user and group.
        user: (u32, u32),
    },
    /// A process has ended. Requests for its data that are open are answered by [`Event::Data`] with an error.
    ///
    /// If the process had connected, collective calls no longer wait for it once its connection has closed; with a
    /// child that holds the connection, that may be later. If it had not, libpmix goes on waiting for it: the node must
    /// end the job.
    Ended(Process),
    /// A job has ended: deregister it. Open fetches of its data fail, and so do open requests.
    Forget(String),
    /// The answer to an [`Event::Upcall`].
    Answer {
        /// The number of the upcall.
        serial: u64,
        /// The answer.
        answer: Result<Answer, i32>,
    },
    /// Fetch the data of a local process for another node (`PMIx_server_dmodex_request`); answered by [`Event::Data`].
    Data {
        /// The number of the request.
        serial: u64,
        /// The process.
        process: Process,
    },
    /// Notify the local processes of an event (`PMIx_Notify_event`).
    Notify {
        /// The event (`pmix_status_t`).
        code: i32,
        /// The process that it concerns.
        source: Process,
        /// The namespace whose local processes are notified.
        to: String,
        /// Further facts.
        info: Vec<Info>,
    },
}

/// The answer to an upcall.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// It has been carried out.
    Done,
    /// The data of a fence or of a process.
    Data(Vec<u8>),
    /// The pairs that were found, each with the process that published it.
    Found(Vec<(Process, Info)>),
    /// The namespace of the spawned job.
    Spawned(String),
    /// The reply to a construct of a group.
    Infos(Vec<Info>),
}

/// Variables of an environment: names and values.
pub type Variables = Vec<(Vec<u8>, Vec<u8>)>;

/// A message from the helper to the node.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The server runs: the version of libpmix.
    Ready(String),
    /// The server cannot run: the reason, and what to do. The helper ends.
    Failed(String),
    /// A job was registered, or not.
    Registered {
        /// The job.
        namespace: String,
        /// The error of libpmix in words.
        failed: Option<String>,
    },
    /// The variables that a process needs to find the server.
    Environment {
        /// The process.
        process: Process,
        /// The variables, or the error of libpmix in words.
        variables: Result<Variables, String>,
    },
    /// The data of a local process, or libpmix's status.
    Data {
        /// The number of the request.
        serial: u64,
        /// The data.
        data: Result<Vec<u8>, i32>,
    },
    /// A process requests something. Each upcall needs one [`Order::Answer`], except
    /// [`Upcall::Connected`] and [`Upcall::Event`].
    Upcall {
        /// Its number; never used twice.
        serial: u64,
        /// The request.
        upcall: Upcall,
    },
}

/// A directive of [`Upcall::Fence`], [`Upcall::Connect`], [`Upcall::Disconnect`] and [`Upcall::Group`]: a status other
/// than 0 means that the call fails at all nodes. libpmix sets it if a local member is lost.
pub const LOCAL_STATUS: &str = "pmix.loc.col.st";

/// A directive of [`Upcall::Group`]: all members of the group are on this node.
pub const LOCAL_ONLY: &str = "pmix.grp.lcl";

/// A request or a report of a process (`pmix_server_module_t`).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Upcall {
    /// A process has connected (`PMIx_Init`). The helper has answered it: the node sends no answer.
    Connected(Process),
    /// A process has finalized.
    Finalized(Process),
    /// A process aborts.
    Abort {
        /// The process.
        process: Process,
        /// The exit status.
        status: i32,
        /// The reason.
        message: Vec<u8>,
        /// The processes to end; its whole job if empty.
        processes: Vec<Process>,
    },
    /// All local members of a set have arrived at a fence; answered by [`Answer::Data`], the data of all nodes, one
    /// after another.
    Fence {
        /// The set.
        processes: Vec<Process>,
        /// The data of the local members.
        data: Vec<u8>,
        /// `PMIX_COLLECT_DATA`, `PMIX_TIMEOUT` and other directives.
        info: Vec<Info>,
    },
    /// A local process needs the data of a process on another node; answered by [`Answer::Data`].
    Fetch {
        /// The process.
        process: Process,
        /// Directives.
        info: Vec<Info>,
    },
    /// Publishes pairs.
    Publish {
        /// The publisher.
        process: Process,
        /// Pairs and directives together, as PMIx passes them; keys that begin with `pmix.` are directives.
        info: Vec<Info>,
    },
    /// Looks keys up; answered by [`Answer::Found`].
    Lookup {
        /// The requester.
        process: Process,
        /// The keys.
        keys: Vec<String>,
        /// Directives.
        info: Vec<Info>,
    },
    /// Withdraws keys.
    Unpublish {
        /// The publisher.
        process: Process,
        /// The keys; all that it has published if empty.
        keys: Vec<String>,
        /// Directives.
        info: Vec<Info>,
    },
    /// Spawns a job; answered by [`Answer::Spawned`].
    Spawn {
        /// The parent.
        process: Process,
        /// Wishes for the whole job.
        info: Vec<Info>,
        /// Its applications.
        applications: Vec<Application>,
    },
    /// All local members of a set connect with each other.
    Connect {
        /// The set.
        processes: Vec<Process>,
        /// Directives.
        info: Vec<Info>,
    },
    /// All local members of a set disconnect.
    Disconnect {
        /// The set.
        processes: Vec<Process>,
        /// Directives.
        info: Vec<Info>,
    },
    /// All local members of a set construct a group of PMIx, answered by [`Answer::Infos`], or destruct one.
    Group {
        /// Whether it is constructed.
        constructs: bool,
        /// Its name.
        name: String,
        /// The set.
        processes: Vec<Process>,
        /// Directives, and what the local members give to the others.
        info: Vec<Info>,
    },
    /// Controls processes: kill, signal, terminate.
    Control {
        /// The requester.
        process: Process,
        /// The processes; all of its job if empty.
        targets: Vec<Process>,
        /// What to do with them.
        info: Vec<Info>,
    },
    /// A process notifies others of an event. The helper has answered it: the node sends no answer.
    Event {
        /// The event.
        code: i32,
        /// The notifier.
        source: Process,
        /// The set of processes to notify (`pmix_data_range_t`).
        range: u8,
        /// Further facts.
        info: Vec<Info>,
    },
}
