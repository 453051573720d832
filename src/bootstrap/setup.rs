//! Builder of a member: the state of a process before it has a node (its id, the number of processes, the means of
//! exchange), and how its node starts.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use gpc_trees::sorting::collected;
use gpc_trees::{Hosts, Id};

use super::driven::Driven;
use super::endpoint::Endpoint;
use super::entry::Entry;
use super::exchange::{self, Common, Exchange, ExchangeResult, SpaceOperation};
use super::farewell::{AtEnd, Farewell};
use super::meeting::{CheckedMeeting, Meet, Meeting, MeetingLimit, check_meeting};
use super::member::Member;
use super::place;
use super::root_loss::RootLoss;
use super::rounds::Rounds;
use super::rule_bootstrap::{RuleBootstrap, wait_for};
use super::trust::Trust;
use super::variables::HOST_ADDRESS;
use super::watch::Watch;
use super::{BootstrapError, Resolve, Rule, Space, read_secret};
use crate::link::peering::Secret;
use crate::runtime::{Builder, Functions, LinkKind, Node, Peer, Peers, PolledNode};
use crate::wire::Job;
use crate::{Clock, TimeLimit};

/// Default time limit of the whole bootstrap, from the first message to the launcher until each process knows the
/// others. Processes of a large job do not start at the same moment.
pub const LIMIT: Duration = Duration::from_secs(60);

/// An embedder's own exchange: passes the text of this process, and returns the texts of all, by id.
type Allgather = dyn FnOnce(&[u8]) -> Result<Vec<Vec<u8>>, BootstrapError>;

/// The means by which processes exchange their entries before their nodes are linked.
pub(super) enum ExchangeMethod {
    /// The key-value space of a launcher.
    Space(Box<dyn Space>),
    /// An embedder's own exchange.
    Allgather(Box<Allgather>),
    /// An embedder's own meeting: it assigns the ids.
    Meeting(Box<Meet>),
    /// None: the address of each process follows from its id.
    Rule(RuleBootstrap),
}

/// A process before its bootstrap, with its id and the number of processes, unless a meeting assigns them.
pub struct Bootstrap {
    /// Its id and the number of processes; `None` before a meeting.
    pub(super) place: Option<(Id, u32)>,
    pub(super) launcher: &'static str,
    pub(super) method: ExchangeMethod,
    pub(super) limit: Duration,
    /// The time from which the limit counts; `None` if it counts from the start.
    begun: Option<Instant>,
    link: LinkKind,
    address: Option<IpAddr>,
}

impl Bootstrap {
    /// Creates a bootstrap over a launcher's key-value space.
    ///
    /// # Errors
    /// If the space reports an id that is not below the number of ids.
    pub fn with_space(space: Box<dyn Space>) -> Result<Bootstrap, BootstrapError> {
        let (id, count, launcher) = (space.id(), space.count(), space.launcher());
        Bootstrap::new(id, count, launcher, ExchangeMethod::Space(space))
    }

    /// Creates a bootstrap over the program's own exchange. `exchange` passes the text of this process to all others,
    /// and returns the texts of all, by id. Every process calls it once.
    ///
    /// # Errors
    /// If the id is not below the number of ids.
    pub fn with_allgather<E: fmt::Display>(
        id: Id,
        count: u32,
        exchange: impl FnOnce(&[u8]) -> Result<Vec<Vec<u8>>, E> + 'static,
    ) -> Result<Bootstrap, BootstrapError> {
        let exchange =
            |mine: &[u8]| exchange(mine).map_err(|error| BootstrapError::Allgather(error.to_string()));
        Bootstrap::new(id, count, "allgather", ExchangeMethod::Allgather(Box::new(exchange)))
    }

    /// Creates a bootstrap over the program's own meeting, for processes that do not know their ids before it. `meet`
    /// receives the entry of this process and the time that is [left](MeetingLimit::left) of the [limit](Self::limit).
    /// It returns when all have met. Every process calls it once. `name` is returned by [`launcher`](Self::launcher).
    pub fn with_meeting<E: fmt::Display>(
        name: &'static str,
        meet: impl FnOnce(&str, MeetingLimit) -> Result<Meeting, E> + 'static,
    ) -> Bootstrap {
        let meet = |mine: &str, within: MeetingLimit| {
            meet(mine, within).map_err(|error| BootstrapError::Meeting(error.to_string()))
        };
        Bootstrap::of(None, name, ExchangeMethod::Meeting(Box::new(meet)))
    }

    /// Creates a bootstrap by a rule: nothing is exchanged before the nodes start. Reads the file of the secret.
    ///
    /// # Errors
    /// If that file cannot be read, or others can read it.
    pub fn with_rule(rule: Rule, resolve: Resolve) -> Result<Bootstrap, BootstrapError> {
        let (id, count, launcher) = (rule.id(), rule.count(), rule.launcher());
        let secret = rule.secret_file().map(|file| read_secret(file)).transpose()?;
        Bootstrap::new(id, count, launcher, ExchangeMethod::Rule(RuleBootstrap { rule, resolve, secret }))
    }

    fn new(
        id: Id,
        count: u32,
        launcher: &'static str,
        method: ExchangeMethod,
    ) -> Result<Bootstrap, BootstrapError> {
        match id < count {
            true => Ok(Bootstrap::of(Some((id, count)), launcher, method)),
            false => {
                let why =
                    format!("it says that this is id {id} of {count}: ids are 0 to {}", i64::from(count) - 1);
                Err(BootstrapError::Variables { launcher, why })
            }
        }
    }

    fn of(place: Option<(Id, u32)>, launcher: &'static str, method: ExchangeMethod) -> Bootstrap {
        Bootstrap {
            place,
            launcher,
            method,
            limit: LIMIT,
            begun: None,
            link: LinkKind::DEFAULT,
            address: None,
        }
    }

    /// The id of this process; `None` before a [meeting](Self::with_meeting).
    pub fn id(&self) -> Option<Id> {
        self.place.map(|(id, _)| id)
    }

    /// Number of processes that were started together; `None` before a [meeting](Self::with_meeting).
    pub fn count(&self) -> Option<u32> {
        self.place.map(|(_, count)| count)
    }

    /// The launcher of this process, for people: `PMI-1`, `PMIx`.
    pub fn launcher(&self) -> &'static str {
        self.launcher
    }

    /// Sets the time limit of the bootstrap, 60 s by default. It counts from the [start](Self::start).
    #[must_use]
    pub fn limit(self, limit: Duration) -> Bootstrap {
        Bootstrap { limit, begun: None, ..self }
    }

    /// Sets the time limit of the bootstrap, which counts from `begun`: the time that the program has spent on reaching
    /// its launcher since then is a part of it.
    #[must_use]
    pub fn limit_since(self, begun: Instant, limit: Duration) -> Bootstrap {
        Bootstrap { limit, begun: Some(begun), ..self }
    }

    /// Sets the kind of the links between processes of one host, as [`Builder::link`]: [`LinkKind::DEFAULT`] by
    /// default.
    #[must_use]
    pub fn link(self, link: LinkKind) -> Bootstrap {
        Bootstrap { link, ..self }
    }

    /// Sets the address of this host at which the others reach it. The default is the address in the variable
    /// `GPC_HOST_ADDRESS`. Without that variable, if the launcher reports that all processes are on this host, only
    /// this host reaches the process. Otherwise it is the address of the default route, or of the host's name.
    #[must_use]
    pub fn host_address(self, address: IpAddr) -> Bootstrap {
        Bootstrap { address: Some(address), ..self }
    }

    /// Exchanges the entries, and starts the node of this process; `build` may configure it further, such as its
    /// workers. Returns when each id knows each other one: from then on any id may call any other. All have the time
    /// [limit](Self::limit) for it.
    ///
    /// Three functions are registered beside those of the program, whose names begin with `gpc.bootstrap.`; so each
    /// member needs its own [`Functions`]. Beyond this host the job's secret, which id 0 draws, and each id's key
    /// authenticate the links.
    ///
    /// # Errors
    /// See [`BootstrapError`]. The launcher gets no farewell then: it ends the others when this process ends.
    pub fn start(
        self,
        functions: &Functions,
        build: impl FnOnce(Builder) -> Builder,
    ) -> Result<Member, BootstrapError> {
        self.start_as(functions, build, Builder::start)
    }

    /// The same with a node that the application drives: nothing of it has a thread. The calling thread drives it
    /// during the exchange. Afterwards the application does, because the calls of the others need this process as well.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_polled(
        self,
        functions: &Functions,
        build: impl FnOnce(Builder) -> Builder,
    ) -> Result<Member<PolledNode>, BootstrapError> {
        self.start_as(functions, build, Builder::polled)
    }

    /// Meets the others as far as that needs no node. Apart from the rest, which is in a program once for each kind of
    /// node.
    fn before_start(self, functions: &Functions) -> Result<BeforeStart, BootstrapError> {
        let Bootstrap { place, launcher, method, limit, begun, link, address } = self;
        let clock = Clock::system();
        let limit = clock.limit_of_which(limit, begun.map_or(Duration::ZERO, |begun| begun.elapsed()));
        let wanted = std::env::var(HOST_ADDRESS).ok();
        let wanted = address.map_or_else(|| place::wanted(wanted.as_deref()), |address| Ok(Some(address)))?;
        let Startup { id, count, mine, own, met, groups, farewell } =
            begin(method, place, (wanted, link), &limit)?;
        let rounds = Rounds::register(functions, &mine)?;
        let ((parent, _), root_loss) = (exchange::neighbours(id, count), RootLoss::new(id, count));
        root_loss.register(functions, parent)?;
        let (all, ruled) = (matches!(met, KnownEntries::All(..)), matches!(met, KnownEntries::Rule { .. }));
        let (trust, mut known) = met.into_parts();
        known.insert(id, mine.clone());
        let timing = (clock, limit);
        let peers = peers(id, &mine, &known, trust.job)?;
        Ok(BeforeStart {
            timing,
            launcher,
            id,
            count,
            mine,
            own,
            groups,
            farewell,
            rounds,
            root_loss,
            parent,
            known,
            peers,
            trust,
            all,
            ruled,
        })
    }

    fn start_as<N: Driven>(
        self,
        functions: &Functions,
        build: impl FnOnce(Builder) -> Builder,
        start: impl FnOnce(Builder) -> io::Result<N>,
    ) -> Result<Member<N>, BootstrapError> {
        let link = self.link;
        let before = self.before_start(functions)?;
        let BeforeStart { timing: (clock, limit), launcher, id, count, mine, own, .. } = before;
        let BeforeStart { groups, farewell, rounds, root_loss, parent, mut known, trust, all, ruled, .. } =
            before;
        let builder = build(Node::builder(id).functions(functions)).link(link);
        let mut node = own.start(builder, &trust, before.peers, start)?;
        let address = |id: Id| known.get(&id).map(|entry| mine.address_of(id, entry)).transpose();
        let watch = match parent.map(|parent| Ok((parent, address(parent)?))).transpose() {
            Ok(Some((parent, Some(address)))) => {
                if ruled {
                    wait_for(&[(parent, address.clone())], &limit)?;
                }
                Some(Watch::new(&mut node, parent, address, &clock, &root_loss)?)
            }
            Ok(_) => None,
            Err(why) => return Err(BootstrapError::Unreachable(why)),
        };
        let mut member = Member {
            node,
            count,
            launcher,
            peers: Peers::new(),
            hosts: Hosts::default(),
            job: trust.job,
            secret: trust.secret,
            watch,
            // A process that fails before all know all sends no farewell.
            farewell: AtEnd(Farewell::default()),
        };
        match count {
            1 => {}
            _ if all => rounds.go(&mut member.node, member.watch.as_mut(), count, &limit)?,
            // Each id knows only its neighbours, which at some ids are all of them.
            _ => {
                let met = (member.watch.as_mut(), count);
                known = introduce(&mut member.node, met, &rounds, &mine, known, &limit)?;
            }
        }
        member.peers = peers(id, &mine, &known, trust.job)?;
        member.hosts = groups.map_or_else(|| hosts(&known), Ok)?;
        member.farewell = AtEnd(farewell);
        Ok(member)
    }
}

/// All that is known before the node starts.
struct BeforeStart {
    timing: (Clock, TimeLimit),
    launcher: &'static str,
    id: Id,
    count: u32,
    mine: Entry,
    own: Endpoint,
    groups: Option<Hosts>,
    farewell: Farewell,
    rounds: Rounds,
    root_loss: RootLoss,
    parent: Option<Id>,
    known: BTreeMap<Id, Entry>,
    /// Those that are known.
    peers: Peers,
    trust: Trust,
    /// Whether all are known.
    all: bool,
    /// Whether a rule says where the others are.
    ruled: bool,
}

/// The state of a process before its node starts.
struct Startup {
    id: Id,
    count: u32,
    mine: Entry,
    own: Endpoint,
    met: KnownEntries,
    /// The groups of the ids, unless they follow from the host names.
    groups: Option<Hosts>,
    farewell: Farewell,
}

/// Listens, and exchanges entries with the neighbours, or with all.
fn begin(
    method: ExchangeMethod,
    place: Option<(Id, u32)>,
    (wanted, link): (Option<IpAddr>, LinkKind),
    limit: &TimeLimit,
) -> Result<Startup, BootstrapError> {
    // Only a meeting has no place. Its abstract addresses are unique without an id.
    let (id, count) = place.unwrap_or_default();
    let drawn = || if id == 0 { draw().map(Some) } else { Ok(None) };
    let left = || limit.left().unwrap_or_default();
    let startup =
        |mine, own, met| Startup { id, count, mine, own, met, groups: None, farewell: Farewell::default() };
    Ok(match method {
        ExchangeMethod::Space(mut space) => {
            let (mine, own) = Endpoint::listen(id, space.one_host(), wanted, (link, left()))?;
            let met = meet(space.as_mut(), &mine, drawn()?, limit)?;
            let farewell = Farewell::to_launcher(space);
            Startup { farewell, ..startup(mine, own, KnownEntries::Neighbours(met)) }
        }
        ExchangeMethod::Allgather(exchange) => {
            // A single process is on one host.
            let (mine, own) = Endpoint::listen(id, (count == 1).then_some(true), wanted, (link, left()))?;
            let (common, entries) = gather(exchange, id, count, &mine, drawn()?)?;
            startup(mine, own, KnownEntries::All(Trust::of(common), entries))
        }
        ExchangeMethod::Meeting(meet) => {
            let (mine, own) = Endpoint::listen(id, None, wanted, (link, left()))?;
            let within = MeetingLimit { limit: limit.duration(), left: left() };
            let meeting = meet(&mine.to_string(), within)?;
            let CheckedMeeting { id, count, job, secret, entries, hosts, farewell } =
                check_meeting(meeting, &mine)?;
            let trust = Trust::of(Common { job, secret });
            let groups = Some(hosts);
            Startup { id, count, groups, farewell, ..startup(mine, own, KnownEntries::All(trust, entries)) }
        }
        ExchangeMethod::Rule(ruled) => {
            let (mine, own, entries) = ruled.meet(wanted, limit)?;
            let trust =
                Trust { job: ruled.rule.job(), secret: ruled.secret, first_run: !ruled.rule.may_restart() };
            startup(mine, own, KnownEntries::Rule { trust, entries })
        }
    })
}

/// The processes whose entries are known before the node starts.
enum KnownEntries {
    Neighbours(ExchangeResult),
    All(Trust, BTreeMap<Id, Entry>),
    Rule { trust: Trust, entries: BTreeMap<Id, Entry> },
}

impl KnownEntries {
    fn into_parts(self) -> (Trust, BTreeMap<Id, Entry>) {
        match self {
            KnownEntries::Neighbours(ExchangeResult { common, entries }) => (Trust::of(common), entries),
            KnownEntries::All(trust, entries) | KnownEntries::Rule { trust, entries } => (trust, entries),
        }
    }
}

/// Draws the job and the secret; only id 0 does.
fn draw() -> Result<Common, BootstrapError> {
    let secret =
        Secret::random().map_err(|error| BootstrapError::System { doing: "cannot draw a secret", error })?;
    Ok(Common { job: Job::random(), secret })
}

/// Exchanges entries with the neighbours, through a launcher's space.
fn meet(
    space: &mut dyn Space,
    mine: &Entry,
    drawn: Option<Common>,
    limit: &TimeLimit,
) -> Result<ExchangeResult, BootstrapError> {
    let (launcher, max) = (space.launcher(), space.value_max());
    let room = || BootstrapError::Room { launcher, max };
    let exchange = Exchange::new(space.id(), space.count(), &mine.to_string(), drawn, max);
    let mut exchange = exchange.ok_or_else(room)?;
    let left = || limit.left().unwrap_or_default();
    // Terminates: the exchange has a bounded number of operations.
    while let Some(want) = exchange.want() {
        match want {
            SpaceOperation::Put { key, value } => space.put(&key, &value, left())?,
            SpaceOperation::Fence => space.fence(left())?,
            SpaceOperation::Get { of, key } => {
                let value = zeroize::Zeroizing::new(space.get(of, &key, left())?);
                let useless = |useless: exchange::InvalidValue| BootstrapError::Entry {
                    of: useless.of,
                    why: useless.why,
                };
                exchange.give(&value).map_err(useless)?;
            }
        }
    }
    // After its last operation, the exchange has the job and the secret.
    exchange.found().ok_or_else(room)
}

/// Exchanges entries with all, through the program's own exchange.
fn gather(
    exchange: Box<Allgather>,
    id: Id,
    count: u32,
    mine: &Entry,
    drawn: Option<Common>,
) -> Result<(Common, BTreeMap<Id, Entry>), BootstrapError> {
    let common = drawn.as_ref().map(Common::to_text);
    let text = zeroize::Zeroizing::new(match &common {
        Some(common) => format!("{mine} {}", common.as_str()),
        None => mine.to_string(),
    });
    let all = exchange(text.as_bytes())?;
    if all.len() != count as usize {
        let why = format!("it has given what {} processes say, and there are {count}", all.len());
        return Err(BootstrapError::Allgather(why));
    }
    let (mut entries, mut common) = (BTreeMap::new(), drawn);
    for (of, bytes) in (0..).zip(all) {
        let useless = |why: String| BootstrapError::Entry { of, why };
        let bytes = zeroize::Zeroizing::new(bytes);
        let text = std::str::from_utf8(&bytes).map_err(|_| useless("it is no text".into()))?;
        let (entry, rest) = text.split_once(' ').map_or((text, None), |(entry, rest)| (entry, Some(rest)));
        if let (0, Some(rest), None) = (of, rest, &common) {
            common = Some(rest.parse().map_err(|why: &str| useless(why.into()))?);
        }
        entries.insert(of, entry.parse().map_err(|fault: super::EntryError| useless(fault.to_string()))?);
    }
    if entries.get(&id) != Some(mine) {
        return Err(BootstrapError::Allgather(format!("what id {id} has given is not at its place")));
    }
    let common = common.ok_or(BootstrapError::Entry { of: 0, why: "it names no job".into() })?;
    Ok((common, entries))
}

/// Gets the entries of all others, through the tree of linked neighbours.
fn introduce(
    node: &mut dyn Driven,
    (watch, count): (Option<&mut Watch>, u32),
    rounds: &Rounds,
    mine: &Entry,
    known: BTreeMap<Id, Entry>,
    limit: &TimeLimit,
) -> Result<BTreeMap<Id, Entry>, BootstrapError> {
    let me = node.me();
    let learn = |node: &mut dyn Driven, entries: &[Entry]| {
        let others = (0..).zip(entries).filter(|(id, _)| *id != me && !known.contains_key(id));
        let others: Result<Vec<Peer>, BootstrapError> =
            others.map(|(id, entry)| peer(id, mine, entry)).collect();
        Ok(node.learn_peers(others?)?)
    };
    let entries = match watch {
        None => rounds.lead(node, count, limit, learn)?,
        Some(watch) => rounds.follow(node, watch, count, limit, learn)?,
    };
    Ok(collected((0..).zip(entries)))
}

fn peer(id: Id, mine: &Entry, entry: &Entry) -> Result<Peer, BootstrapError> {
    let peer = Peer::new(id, mine.address_of(id, entry).map_err(BootstrapError::Unreachable)?);
    Ok(match entry.key {
        Some(key) => peer.known_by(key),
        None => peer,
    })
}

/// Returns the peers with the addresses at which this process reaches them.
fn peers(me: Id, mine: &Entry, known: &BTreeMap<Id, Entry>, job: Job) -> Result<Peers, BootstrapError> {
    let mut peers = Peers::new();
    peers.set_job(job);
    for (id, entry) in known {
        let peer = peer(*id, mine, entry)?;
        peers.insert(*id, peer.address);
        // A node does not authenticate itself to itself.
        peer.key.filter(|_| *id != me).into_iter().for_each(|key| peers.set_key(*id, key));
    }
    Ok(peers)
}

/// Returns the host of each id.
fn hosts(known: &BTreeMap<Id, Entry>) -> Result<Hosts, BootstrapError> {
    let text: String = known.iter().map(|(id, entry)| format!("{id} {}\n", entry.host)).collect();
    Hosts::parse(&text).map_err(|fault| BootstrapError::Entry { of: 0, why: fault.to_string() })
}

impl fmt::Debug for Bootstrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((id, count)) => write!(f, "Bootstrap({id} of {count} by {})", self.launcher),
            None => write!(f, "Bootstrap(by {})", self.launcher),
        }
    }
}

#[cfg(test)]
mod tests;
