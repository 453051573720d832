//! Clusters of any shape, and a simple server for one client, which is given the values of all other clients.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use bytes::Bytes;
use chained_gpc::PublicKey;
use gpc_impi::client::{
    Client, ClientEvent, ClientFault, ClientInput, ClientOutput, ClientSettings, Cluster, Host, Learned, Proc,
};
use gpc_impi::wire::{Command, Frame, Label, Method, Methods, Reader, Version, coll, command, server_auth};
use proptest::prelude::*;

/// The values that one client sends, by label.
pub(crate) type Raw = BTreeMap<Label, Vec<u8>>;

pub(crate) fn open() -> Methods {
    Methods { none: true, key: None }
}

pub(crate) fn proc(pid: u64) -> Proc {
    Proc { address: None, pid: Some(pid), port: None, key: None }
}

/// A host at `10.0.CLIENT.HOST` whose processes have these numbers.
pub(crate) fn host(client: u8, host: u8, pids: &[u64]) -> Host {
    let address = std::net::Ipv4Addr::new(10, 0, client, host).to_ipv6_mapped();
    let mut host = Host::new(address, 5000, pids.iter().map(|pid| proc(*pid)).collect());
    host.procs.iter_mut().for_each(|proc| proc.address = Some(address));
    host
}

/// A client without labels of this project, with two hosts of two and one processes.
pub(crate) fn settings(rank: u32) -> ClientSettings {
    let hosts = vec![host(rank as u8, 1, &[7, 8]), host(rank as u8, 2, &[7])];
    let mut settings = ClientSettings::new(rank, open(), Cluster::new(hosts));
    settings.own_labels = false;
    settings
}

/// The settings of client 0, with this change.
pub(crate) fn changed(change: impl FnOnce(&mut ClientSettings)) -> ClientSettings {
    let mut settings = settings(0);
    change(&mut settings);
    settings
}

pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// The values that a client with these settings sends to a server without other clients.
pub(crate) fn raw(settings: &ClientSettings) -> Raw {
    let mut alone = settings.clone();
    alone.rank = 0;
    alone.job = settings.job.filter(|_| settings.rank == 0);
    let mut plain = Plain::new(alone, Vec::new());
    plain.run();
    plain.sent
}

/// The values of all clients, as they are broadcast.
pub(crate) fn concatenated(label: Label, all: &[Raw]) -> (u32, Vec<u8>) {
    let mut mask = 0;
    let mut values = Vec::new();
    for (rank, said) in all.iter().enumerate().filter_map(|(rank, raw)| Some((rank, raw.get(&label)?))) {
        mask |= 1 << rank;
        values.extend_from_slice(said);
    }
    (mask, values)
}

/// A server for client 0, with the values of the others.
pub(crate) struct Plain {
    pub(crate) client: Client,
    reader: Reader,
    others: Vec<Raw>,
    /// The values that client 0 has sent.
    pub(crate) sent: Raw,
    answered: Option<Label>,
    /// All commands sent to the client.
    pub(crate) said: Vec<Bytes>,
    pub(crate) events: Vec<ClientEvent>,
    pub(crate) ended: Option<Result<Learned, ClientFault>>,
}

impl Plain {
    pub(crate) fn new(settings: ClientSettings, others: Vec<Raw>) -> Plain {
        assert_eq!(settings.rank, 0);
        Plain {
            client: Client::new(settings).unwrap(),
            reader: Reader::new(),
            others,
            sent: Raw::new(),
            answered: None,
            said: Vec::new(),
            events: Vec::new(),
            ended: None,
        }
    }

    pub(crate) fn run(&mut self) {
        let mut to_server = Vec::new();
        loop {
            let mut quiet = true;
            while let Some(output) = self.client.next_output() {
                quiet = false;
                match output {
                    ClientOutput::Send(bytes) => to_server.extend_from_slice(&bytes),
                    ClientOutput::Event(event) => self.events.push(event),
                    ClientOutput::Learned(learned) => self.ended = Some(Ok(*learned)),
                    ClientOutput::Failed(fault) => self.ended = Some(Err(fault)),
                }
            }
            let bytes = std::mem::take(&mut to_server);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                if let Some(Frame::Command(command, payload)) =
                    self.reader.take(&mut rest, |_| 1 << 20).unwrap()
                {
                    self.heard(command, payload);
                }
            }
            if quiet {
                return;
            }
        }
    }

    /// Sends these bytes instead of its own.
    pub(crate) fn play(&mut self, said: impl IntoIterator<Item = Bytes>) {
        for bytes in said {
            self.client.handle(ClientInput::Received(&bytes));
            while let Some(output) = self.client.next_output() {
                match output {
                    ClientOutput::Learned(learned) => self.ended = Some(Ok(*learned)),
                    ClientOutput::Failed(fault) => self.ended = Some(Err(fault)),
                    _ => {}
                }
            }
        }
    }

    fn heard(&mut self, heard: Command, payload: Bytes) {
        match heard {
            Command::Auth => self.say(server_auth(Method::None)),
            Command::Impi => self.say(command(Command::Impi, &[1 + self.others.len() as u32])),
            Command::Coll => {
                let label = Label(u32::from_be_bytes(*payload.first_chunk().unwrap()));
                self.sent.insert(label, payload[4..].to_vec());
                if label.is_known() {
                    self.answer_up_to(label);
                }
            }
            Command::Done => {
                self.answer_up_to(Label(u32::MAX));
                self.say(command(Command::Done, &[]));
            }
            _ => {}
        }
    }

    fn answer_up_to(&mut self, last: Label) {
        let all: Vec<Raw> = std::iter::once(&self.sent).chain(&self.others).cloned().collect();
        let mut labels: Vec<Label> = all.iter().flat_map(|raw| raw.keys().copied()).collect();
        labels.retain(|label| Some(*label) > self.answered && *label <= last);
        labels.sort_unstable();
        labels.dedup();
        for label in labels {
            let (mask, values) = concatenated(label, &all);
            self.say(coll(label, Some(mask), [&values[..]]));
        }
        self.answered = Some(last);
    }

    fn say(&mut self, bytes: Bytes) {
        self.client.handle(ClientInput::Received(&bytes));
        self.said.push(bytes);
    }
}

/// What client 0 learns when the others send these values.
pub(crate) fn learned(
    settings: ClientSettings,
    others: Vec<Raw>,
) -> (Result<Learned, ClientFault>, Vec<ClientEvent>) {
    let mut plain = Plain::new(settings, others);
    plain.run();
    (plain.ended.expect("the session has ended"), plain.events)
}

/// The parameters on which all clients agree, as one client may send them.
#[derive(Clone, Debug)]
pub(crate) struct Agreed {
    pub(crate) xsize: i32,
    pub(crate) maxlinear: i32,
}

/// Clusters of any shape that agree on these parameters.
pub(crate) fn any_cluster(rank: u8, agreed: Agreed) -> impl Strategy<Value = Cluster> {
    let shape = prop::collection::vec(1usize..4, 1..5);
    let says = any::<[bool; 13]>();
    let versions = prop::collection::btree_set((0u32..3, 0u32..3), 0..4);
    (shape, says, versions, 1u32..100_000, 32_767i32..=i32::MAX, any::<u64>()).prop_map(
        move |(shape, says, versions, datalen, tag_ub, seed)| {
            let mut versions: Vec<Version> =
                versions.into_iter().map(|(major, minor)| Version { major, minor }).collect();
            if versions.first() != Some(&Version::MANDATORY) {
                versions.insert(0, Version::MANDATORY);
            }
            let spelled = |value: i32, default: i32, as_default: bool| match as_default && value == default {
                true => -1,
                false => value,
            };
            let hosts =
                shape.iter().enumerate().map(|(i, procs)| any_host(rank, i as u8, *procs, says, seed));
            Cluster {
                versions,
                hosts: hosts.collect(),
                datalen: says[0].then_some(datalen),
                tag_ub: says[1].then_some(tag_ub),
                coll_xsize: says[2].then(|| spelled(agreed.xsize, 1024, says[11])),
                coll_maxlinear: says[3].then(|| spelled(agreed.maxlinear, 4, says[12])),
            }
        },
    )
}

fn any_host(rank: u8, i: u8, procs: usize, says: [bool; 13], seed: u64) -> Host {
    let address: Ipv6Addr = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, rank, i, seed as u8].into();
    let number = |j: usize, of: u64| (seed ^ (j as u64 * 7919) ^ (u64::from(i) << 17)).rotate_left(of as u32);
    Host {
        address: says[4].then_some(address),
        port: says[5].then(|| (number(0, 1) as u32 & 0xffff).max(1)),
        ackmark: says[6].then_some(1 + u32::from(seed as u8)),
        hiwater: says[7].then_some(256 + u32::from(i)),
        procs: (0..procs)
            .map(|j| Proc {
                address: says[8].then_some(address),
                pid: says[9].then(|| u64::from(i) << 40 | (seed & 0xff_ffff) << 8 | j as u64),
                port: says[10].then(|| number(j, 3) as u32 & 0xffff),
                // Some have no key.
                key: (says[0] && number(j, 5) & 3 > 0).then(|| PublicKey([1 + j as u8 + rank; 32])),
            })
            .collect(),
    }
}
