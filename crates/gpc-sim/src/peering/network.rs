//! Network of a world of peers: opens connections, carries bytes in order, and ends connections.

use gpc_trees::Id;

use super::check::{End, Input, Observation};
use super::event::{Event, MS};
use super::pipe::{Chunk, Owner, Pipe};
use super::processes::Phase;
use super::world::World;
use chained_gpc::link::peering::{LinkKey, Source, Transport};
use chained_gpc::wire::CauseKind;

/// Longer than the limit for an answer plus the time to ask: a peer without trouble for this long must answer.
const WELL: u64 = 2_600 * MS;

impl World {
    /// Connects a process to whatever listens at the address of an id.
    pub(super) fn connect(&mut self, process: usize, to: Id) {
        if std::mem::take(&mut self.no_descriptor) {
            self.observe(Observation::Input(process, Input::NotOpened(to)));
            let why = "there is no descriptor";
            self.processes[process].peering.fail_outgoing(to, CauseKind::Unreachable, why);
            return self.settle(process);
        }
        let target = match self.redirected.take() {
            Some(mut owner) => {
                if let Owner::Member(member) = &mut owner {
                    member.answers_as(to);
                    self.misled.insert((process, to));
                }
                owner
            }
            None => self.at.get(to as usize).map_or(Owner::Nobody, |at| Owner::Process(*at, None)),
        };
        let from = self.processes[process].who.id;
        let pipe = self.open([Owner::Process(process, None), target], [from, to]);
        let key = self.add_local(process, pipe, 0);
        self.opens(End { process, key }, pipe, None, Some(to));
        self.say(format_args!("process {process} connects to id {to}: {key:?}, pipe {pipe}"));
        let now = self.time();
        self.processes[process].peering.add_outgoing(now, key, to);
        self.settle(process);
    }

    /// Opens a connection.
    pub(super) fn open(&mut self, owners: [Owner; 2], between: [Id; 2]) -> usize {
        let latency = match self.random.below(8) {
            0 => self.random.between(100 * MS, 900 * MS),
            _ => self.random.between(MS / 20, 5 * MS),
        };
        let way = self.way(&owners);
        let processes = owners.iter().all(|owner| matches!(owner, Owner::Process(..) | Owner::Nobody));
        let rings = way == Transport::User && processes && self.random.chance(1, 2);
        let mut opened = Pipe::new(owners, between, latency, way, rings);
        // Its receiver may be unable to map them.
        opened.rings_come = rings && self.random.chance(3, 4);
        // No attacker stands between processes of one user on one host.
        if way != Transport::User
            && let Some((side, tamper)) = self.tampered.take()
        {
            (opened.streams[side].tamper, opened.troubled) = (Some(tamper), u64::MAX / 2);
        }
        self.pipes.push(opened);
        let pipe = self.pipes.len() - 1;
        self.convey(pipe, 0, Chunk::Opens);
        pipe
    }

    /// Draws the transport of a connection. An intruder, or an end that is not a process, connects from another host.
    fn way(&mut self, owners: &[Owner; 2]) -> Transport {
        let from_afar = owners.iter().any(|owner| match owner {
            Owner::Process(process, _) => self.processes[*process].afar,
            Owner::Nobody => false,
            _ => true,
        });
        let ways = self.config.ways.iter().copied().filter(|way| !from_afar || *way != Transport::User);
        let ways: Vec<Transport> = ways.collect();
        self.random.pick(&ways).copied().unwrap_or(self.config.ways[0])
    }

    fn opens(&mut self, end: End, pipe: usize, mate: Option<End>, to: Option<Id>) {
        let Pipe { way, rings, rings_come, ref owners, source, .. } = self.pipes[pipe];
        let ours = to.is_some();
        let rings = if ours { rings } else { rings_come };
        let running = &self.processes[end.process];
        let (psk, insecure) = (running.who.psk, running.strictness.insecure);
        let unpermitted = way == Transport::Network && psk.is_none() && !insecure;
        let (proves, encrypts) = (psk.is_some() && way != Transport::User, self.encrypts(end.process, way));
        let member = match &owners[usize::from(ours)] {
            Owner::Member(member) => Some(member.who()),
            _ => None,
        };
        let source = match owners[0] {
            Owner::Process(process, _) => Source::from(self.processes[process].who.id),
            _ => source,
        };
        let source = (!ours && way != Transport::User).then_some(source);
        self.observe(Observation::Opened {
            end,
            mate,
            ours,
            proves,
            encrypts,
            to,
            source,
            member,
            rings,
            unpermitted,
        });
    }

    /// Sends a chunk.
    pub(super) fn convey(&mut self, pipe: usize, side: usize, chunk: Chunk) {
        let latency = self.pipes[pipe].latency;
        let jitter = self.random.below(latency / 2 + 1);
        let stream = &mut self.pipes[pipe].streams[side];
        let last = stream.chunks.back().map_or(0, |(at, _)| *at);
        let at = (self.now + latency + jitter).max(last);
        stream.chunks.push_back((at, chunk));
        self.queue.push(at, Event::Deliver { pipe, side });
    }

    /// Sends bytes, split anywhere and perhaps changed.
    pub(super) fn transmit(&mut self, pipe: usize, side: usize, bytes: &[u8]) {
        let bytes = self.pipes[pipe].changed(side, bytes);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let most = if self.random.chance(1, 3) {
                rest.len()
            } else {
                self.random.between(1, rest.len() as u64) as usize
            };
            let (now, later) = rest.split_at(most);
            self.convey(pipe, side, Chunk::Bytes(now.to_vec()));
            rest = later;
        }
    }

    /// Sends bytes of a process.
    pub(super) fn send(&mut self, process: usize, key: LinkKey, bytes: &[u8]) {
        if let Some(local) = self.processes[process].locals.get(&key) {
            let (pipe, side) = (local.pipe, local.side);
            self.transmit(pipe, side, bytes);
        }
    }

    /// Closes a process's end: everything written is sent, then the end.
    pub(super) fn discard(&mut self, process: usize, key: LinkKey) {
        self.observe(Observation::Closed(End { process, key }));
        self.drop_local(process, key);
    }

    /// The same, after the checkers have seen the close.
    pub(super) fn drop_local(&mut self, process: usize, key: LinkKey) {
        if let Some(local) = self.processes[process].locals.remove(&key) {
            self.convey(local.pipe, local.side, Chunk::Ends);
        }
    }

    /// Delivers the next chunk of a stream. If a cut or a pause prevents that, delivery is retried at its end.
    pub(super) fn deliver(&mut self, pipe: usize, side: usize) {
        let [one, other] = self.pipes[pipe].between;
        let cut = self.cuts.get(&(one.min(other), one.max(other))).copied().unwrap_or(0);
        let receiver = match self.pipes[pipe].owners[1 - side] {
            Owner::Process(process, key) => Some((process, key)),
            _ => None,
        };
        let paused = match receiver {
            Some((process, _)) if self.processes[process].alive => self.processes[process].paused,
            _ => 0,
        };
        let again = cut.max(paused);
        if again > self.now {
            return self.queue.push(again, Event::Deliver { pipe, side });
        }
        let Some((_, chunk)) = self.pipes[pipe].streams[side].chunks.pop_front() else { return };
        match receiver {
            Some((process, _)) if self.processes[process].silent => {}
            Some((process, _)) if !self.processes[process].alive => self.unheard(pipe, side, &chunk),
            Some((process, Some(key))) => self.came(process, key, pipe, chunk),
            Some((process, None)) if chunk == Chunk::Opens => self.accept(process, pipe),
            Some(_) => {}
            None => self.attacked(pipe, side, &chunk),
        }
    }

    /// Handles a chunk that reaches the attacker, or no listener.
    fn attacked(&mut self, pipe: usize, side: usize, chunk: &Chunk) {
        let begins = matches!(chunk, Chunk::Opens | Chunk::Stands);
        let said = match (&mut self.pipes[pipe].owners[1 - side], chunk) {
            (Owner::Nobody, _) => return self.unheard(pipe, side, chunk),
            (Owner::Mirror, Chunk::Bytes(bytes)) => bytes.clone(),
            (Owner::Player(bytes), _) if begins => bytes.clone(),
            (Owner::Member(member), Chunk::Bytes(bytes)) => member.hear(bytes),
            (Owner::Member(member), _) if begins => member.begin(),
            _ => Vec::new(),
        };
        if matches!(self.pipes[pipe].owners[1 - side], Owner::Member(_)) && !said.is_empty() {
            self.observe(Observation::MemberWrote(said.clone()));
        }
        self.stands(pipe, chunk);
        self.transmit(pipe, 1 - side, &said);
    }

    /// Informs the connecting side that the connection is established.
    fn stands(&mut self, pipe: usize, chunk: &Chunk) {
        if *chunk == Chunk::Opens {
            self.convey(pipe, 1, Chunk::Stands);
        }
    }

    /// Answers with an end where no process listens.
    fn unheard(&mut self, pipe: usize, side: usize, chunk: &Chunk) {
        if *chunk != Chunk::Ends {
            self.convey(pipe, 1 - side, Chunk::Ends);
        }
    }

    pub(super) fn accept(&mut self, process: usize, pipe: usize) {
        let key = self.add_local(process, pipe, 1);
        let (mate, source) = match &self.pipes[pipe].owners[0] {
            Owner::Process(process, Some(key)) => {
                (Some(End { process: *process, key: *key }), Source::from(self.processes[*process].who.id))
            }
            _ => (None, self.pipes[pipe].source),
        };
        self.opens(End { process, key }, pipe, mate, None);
        self.convey(pipe, 1, Chunk::Stands);
        let (now, way) = (self.time(), self.pipes[pipe].way);
        let source = (way != Transport::User).then_some(source);
        self.processes[process].peering.add_incoming(now, key, way, source);
        self.settle(process);
    }

    fn came(&mut self, process: usize, key: LinkKey, pipe: usize, chunk: Chunk) {
        let ours =
            matches!(self.pipes[pipe].owners[0], Owner::Process(of, Some(at)) if (of, at) == (process, key));
        let side = usize::from(!ours);
        if !self.processes[process].locals.contains_key(&key) {
            // As a closed socket does.
            return self.unheard(pipe, 1 - side, &chunk);
        }
        match chunk {
            Chunk::Opens => {}
            Chunk::Stands => {
                let Pipe { way, rings, .. } = self.pipes[pipe];
                self.observe(Observation::Input(process, Input::Stands(key)));
                self.processes[process].peering.complete_outgoing(key, way, rings);
                self.settle(process);
            }
            Chunk::Bytes(bytes) => self.arrived(process, key, &bytes),
            Chunk::Ends => self.ended(process, key, "the other side has closed it"),
        }
    }

    /// Whether the process at the other end of a link has been reachable without trouble for longer than an answer may
    /// take.
    pub(super) fn answers(&self, process: usize, key: LinkKey) -> bool {
        let Some(local) = self.processes[process].locals.get(&key) else { return false };
        let pipe = &self.pipes[local.pipe];
        let Owner::Process(mate, Some(mate_key)) = pipe.owners[1 - local.side] else { return false };
        let other = &self.processes[mate];
        let [a, b] = pipe.between;
        let cut = self.cuts.get(&(a.min(b), a.max(b))).copied().unwrap_or(0);
        let troubles = [other.paused, self.processes[process].paused, cut, pipe.troubled];
        let slow = pipe.latency * 3 > 400 * MS;
        let stands = other.locals.get(&mate_key).is_some_and(|local| matches!(local.phase, Phase::Up(_)));
        other.alive && stands && !slow && troubles.iter().all(|until| until + WELL < self.now)
    }

    /// Closes both ends of a connection; chunks in flight are lost.
    pub(super) fn reset(&mut self, pipe: usize) {
        for side in 0..2 {
            self.pipes[pipe].streams[side].chunks.clear();
            self.convey(pipe, side, Chunk::Ends);
        }
    }
}
