//! Cost of messages: LogGP, for each class of links.
//!
//! A message of k bytes occupies the sender's processor for the overhead o, and enters the network in (k - 1) G. It
//! travels for the latency L, and occupies the receiver's processor for o. Two messages of a node enter or leave the
//! network at least the gap g apart. Source: Alexandrov, Ionescu, Schauser and Scheiman, "LogGP" (1995). Sizes are
//! those of docs/wire.md; no message is encoded to find them.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use gpc_trees::Id;

use chained_gpc::wire::frame::{FRAME_HEADER, SEGMENT};
use chained_gpc::wire::head::{CallRef, RequestHead, ResponseHead};
use chained_gpc::wire::message::{Answer, Message, SubtreeReply};
use chained_gpc::wire::prefix::request_head;
use chained_gpc::wire::{Coverage, Failure, Report};

/// LogGP parameters of one class of links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkCost {
    /// L: latency, nanoseconds.
    pub latency_ns: u64,
    /// o: processor time of the sender, and again of the receiver, nanoseconds.
    pub overhead_ns: u64,
    /// g: least time between two messages of a node, nanoseconds.
    pub gap_ns: u64,
    /// G: time for each byte after the first, picoseconds.
    pub byte_ps: u64,
}

impl LinkCost {
    /// Time for the bytes of a message to enter the network, nanoseconds.
    pub fn bytes_ns(&self, bytes: u64) -> u64 {
        let picoseconds = u128::from(bytes.saturating_sub(1)) * u128::from(self.byte_ps);
        u64::try_from(picoseconds / 1000).unwrap_or(u64::MAX)
    }

    /// Time from the start of sending to the end of receiving with idle processors, nanoseconds.
    pub fn message_ns(&self, bytes: u64) -> u64 {
        (2 * self.overhead_ns).saturating_add(self.latency_ns).saturating_add(self.bytes_ns(bytes))
    }
}

/// A link cost that cannot be parsed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no link cost: write L,o,g,G in nanoseconds, as in 20000,2000,1000,0.1")]
pub struct LinkCostError(String);

impl FromStr for LinkCost {
    type Err = LinkCostError;

    fn from_str(text: &str) -> Result<LinkCost, LinkCostError> {
        let bad = || LinkCostError(text.chars().take(60).collect());
        let picoseconds: Option<Vec<u64>> = text.split(',').map(|part| thousandths(part.trim())).collect();
        match picoseconds.as_deref() {
            Some(&[latency, overhead, gap, byte_ps]) => Ok(LinkCost {
                latency_ns: latency / 1000,
                overhead_ns: overhead / 1000,
                gap_ns: gap / 1000,
                byte_ps,
            }),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for LinkCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LinkCost { latency_ns, overhead_ns, gap_ns, byte_ps } = self;
        write!(f, "{latency_ns},{overhead_ns},{gap_ns},{}.{:03}", byte_ps / 1000, byte_ps % 1000)
    }
}

/// Parses a decimal number with at most three decimal places, in thousandths. The largest is a thousand seconds in
/// nanoseconds.
fn thousandths(text: &str) -> Option<u64> {
    const MOST: u64 = 1_000_000_000_000;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 3 {
        return None;
    }
    let whole = whole.parse::<u64>().ok().filter(|&whole| whole <= MOST)?;
    let fraction = format!("{fraction:0<3}").parse::<u64>().ok()?;
    Some(whole * 1000 + fraction)
}

/// Distance between two ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkClass {
    /// On the same host.
    Host,
    /// On two hosts of the same rack.
    Rack,
    /// In different racks.
    Elsewhere,
}

/// LogGP parameters of every class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// Between processes of one host.
    pub host: LinkCost,
    /// Between hosts of one rack.
    pub rack: LinkCost,
    /// Between racks; also for every link of a network without hosts.
    pub elsewhere: LinkCost,
}

impl Default for Costs {
    /// Of the order of TCP on one host, through one switch, and through several, at 10 GB/s.
    fn default() -> Costs {
        let cost = |latency_ns| LinkCost { latency_ns, overhead_ns: 2_000, gap_ns: 1_000, byte_ps: 100 };
        Costs { host: cost(2_000), rack: cost(10_000), elsewhere: cost(20_000) }
    }
}

/// Cores that the processes of a host share, and the cost of switching between processes.
///
/// Waking a process occupies the core for `wake_ns`. Up to `cold_ns` is added in proportion to the wake-ups that its
/// host has seen since it slept, because other processes have filled the caches. After [`COLD_AFTER`] wake-ups the
/// caches hold nothing of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sharing {
    /// Cores of each host that the processes may use.
    pub cores: NonZeroU32,
    /// Cost of waking a sleeping process: time of its core, nanoseconds.
    pub wake_ns: u64,
    /// Additional cost of waking a process that has left the caches, nanoseconds.
    pub cold_ns: u64,
}

/// Wake-ups of other processes after which the caches hold nothing of a process. A core's own cache has a megabyte or
/// two; one turn of a process, with its part of the kernel, touches some tens of kilobytes.
pub const COLD_AFTER: u64 = 32;

impl Sharing {
    /// Cost of waking a process, given the wake-ups of its host since it slept, nanoseconds.
    pub fn waking_ns(&self, since: u64) -> u64 {
        let cold = u128::from(self.cold_ns) * u128::from(since.min(COLD_AFTER)) / u128::from(COLD_AFTER);
        self.wake_ns.saturating_add(u64::try_from(cold).unwrap_or(u64::MAX))
    }
}

/// Number of hosts in a rack.
pub const HOSTS_PER_RACK: u32 = 16;

/// Assigns ids to hosts and racks.
#[derive(Clone, Copy, Debug)]
pub struct Topology {
    /// Number of ids, counted from 0.
    pub n: u32,
    /// Hosts over which the ids are spread in blocks; `None` for a network without hosts.
    pub hosts: Option<u32>,
    /// Cost of messages.
    pub costs: Costs,
}

impl Topology {
    /// Distance between two ids.
    pub fn class(&self, a: Id, b: Id) -> LinkClass {
        if self.hosts.is_none() {
            return LinkClass::Elsewhere;
        }
        match (self.host_of(a), self.host_of(b)) {
            (one, other) if one == other => LinkClass::Host,
            (one, other) if one / HOSTS_PER_RACK == other / HOSTS_PER_RACK => LinkClass::Rack,
            _ => LinkClass::Elsewhere,
        }
    }

    /// Host of an id, from 0; always 0 in a network without hosts.
    pub fn host_of(&self, id: Id) -> u32 {
        let hosts = u64::from(self.hosts.unwrap_or(1));
        let host = u64::from(id) * hosts / u64::from(self.n.max(1));
        u32::try_from(host).unwrap_or(u32::MAX)
    }

    /// Cost of messages between two ids.
    pub fn cost(&self, a: Id, b: Id) -> &LinkCost {
        match self.class(a, b) {
            LinkClass::Host => &self.costs.host,
            LinkClass::Rack => &self.costs.rack,
            LinkClass::Elsewhere => &self.costs.elsewhere,
        }
    }
}

/// Bytes of a message on the wire, with the headers of its frames.
pub fn wire_bytes(message: &Message) -> u64 {
    match message {
        Message::Request(request) => {
            let head = request_head(request);
            framed(RequestHead::LENGTH, head.prefix_len().saturating_add(head.data_len))
        }
        Message::Response(response) => {
            let reply = |reply: &SubtreeReply| reply.len() + reply.trace.len() as u64;
            let body = match &response.answer {
                Answer::Completed => 0,
                Answer::Reply(whole) => reply(whole),
                Answer::Arriving(reply) => reply.len(),
                Answer::Failed(failure) => failure_bytes(failure),
                Answer::Partial(partial) => reply(&partial.reply) + report_bytes(&partial.report),
            };
            framed(ResponseHead::LENGTH, body)
        }
        Message::Cancel(_) | Message::Release(_) | Message::Moved(_) => framed(CallRef::LENGTH, 0),
        Message::Ping | Message::Pong => framed(0, 0),
        Message::Pause(_) => framed(4, 0),
        Message::Stragglers(calls) => framed(24 * calls.len(), 0),
    }
}

/// Bytes of a fixed part and a body, in as many frames as they need.
fn framed(fixed: usize, body: u64) -> u64 {
    let first = (FRAME_HEADER + fixed) as u64;
    let segments = body.saturating_sub(1) / SEGMENT as u64;
    first + body + segments * (FRAME_HEADER + CallRef::LENGTH) as u64
}

const COUNT: u64 = 4;
const CAUSE_FIXED: u64 = 28;
const RUN: u64 = 8;

fn failure_bytes(failure: &Failure) -> u64 {
    COUNT + CAUSE_FIXED + failure.cause.message.len() as u64 + coverage_bytes(&failure.coverage)
}

fn report_bytes(report: &Report) -> u64 {
    let causes = report.causes.iter().map(|cause| CAUSE_FIXED + cause.message.len() as u64);
    COUNT + causes.sum::<u64>() + coverage_bytes(&report.coverage)
}

fn coverage_bytes(coverage: &Coverage) -> u64 {
    coverage.runs().len() as u64 * RUN
}

#[cfg(test)]
mod tests {
    use super::*;
    use chained_gpc::wire::{CallId, Cause, CauseKind, Stage, Status};

    #[test]
    fn costs_are_read_and_printed() {
        let cost: LinkCost = "20000, 2000,1000,0.1".parse().unwrap();
        assert_eq!(cost, Costs::default().elsewhere);
        assert_eq!(cost.to_string().parse(), Ok(cost));
        for bad in ["", "1,2,3", "1,2,3,4,5", "1,2,3,-4", "1,2,3,0.0001", "a,b,c,d", "1,2,3,9999999999999"] {
            assert!(bad.parse::<LinkCost>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_message_costs_what_loggp_says() {
        let cost = LinkCost { latency_ns: 100, overhead_ns: 10, gap_ns: 3, byte_ps: 500 };
        assert_eq!(cost.message_ns(1), 120);
        assert_eq!(cost.message_ns(101), 170);
        assert_eq!(cost.bytes_ns(0), 0);
    }

    #[test]
    fn ids_in_blocks_share_hosts_and_hosts_share_racks() {
        let topology = Topology { n: 64, hosts: Some(32), costs: Costs::default() };
        assert_eq!(topology.class(0, 1), LinkClass::Host);
        assert_eq!(topology.class(1, 2), LinkClass::Rack);
        assert_eq!(topology.class(31, 32), LinkClass::Elsewhere);
        assert_eq!(Topology { hosts: None, ..topology }.class(0, 1), LinkClass::Elsewhere);
    }

    #[test]
    fn sizes_of_reports_are_those_of_their_bytes() {
        let mut coverage = Coverage::all(Status::Done, 3);
        coverage.push(Status::Failed, 1);
        let failure = Failure { cause: Cause::new(3, Stage::Func, CauseKind::Failed, "no"), coverage };
        let report = Report::from(failure.clone());
        assert_eq!(failure_bytes(&failure), report.emit().len() as u64);
        assert_eq!(report_bytes(&report), report.emit().len() as u64);
        let answer = Answer::Failed(Box::new(failure));
        let response = chained_gpc::wire::Response { call: CallId { root: 0, sequence: 0 }, answer };
        assert_eq!(wire_bytes(&Message::Response(response)), 8 + 40 + report.emit().len() as u64);
        assert_eq!(wire_bytes(&Message::Ping), 8);
        assert_eq!(framed(40, SEGMENT as u64), 48 + SEGMENT as u64);
        assert_eq!(framed(40, SEGMENT as u64 + 1), 48 + SEGMENT as u64 + 1 + 24, "one segment more");
    }
}
