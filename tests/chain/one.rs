//! One node, driven by hand: each input returns its outputs as lines of text, in order.

use std::sync::Arc;
use std::time::Duration;

use chained_gpc::chain::{Config, Input, JobResult, Node, Output, Outputs, Reply, Start, Time, Work};
use chained_gpc::wire::message::{Answer, Partial, SubtreeReply};
use chained_gpc::wire::{CallId, Cause, CauseKind, Coverage, Failure, Message, Request, Response, Stage};
use gpc_trees::{Id, IdList};

use super::model::{letters, text};

/// The call in the tests of one node, started at id 0.
pub(crate) const CALL: CallId = CallId { root: 0, sequence: 5 };

pub(crate) struct One {
    pub(crate) node: Node,
    pub(crate) now: Duration,
}

/// The request of [`CALL`] over a list in text form, with the default tree.
pub(crate) fn request(list: &str) -> Request {
    Request {
        position: 1,
        total: 1_000,
        func: 7,
        left: Duration::from_secs(60),
        limit: Duration::from_secs(60),
        ..Request::new(CALL, list.parse().expect("a list"))
    }
}

pub(crate) fn start(list: &str) -> Start {
    Start { ids: list.parse::<IdList>().expect("a list"), ..Start::new(7) }
}

impl One {
    pub(crate) fn new(me: Id) -> One {
        One::with(Config::new(me, 5))
    }

    pub(crate) fn with(config: Config) -> One {
        One { node: Node::new(config), now: Duration::ZERO }
    }

    /// The outputs of an input, except those that stop functions.
    pub(crate) fn feed(&mut self, input: Input) -> Vec<String> {
        let outputs = self.outputs(input).into_iter();
        outputs.filter(|output| !matches!(output, Output::Stopped(_))).map(show).collect()
    }

    pub(crate) fn outputs(&mut self, input: Input) -> Outputs {
        let mut outputs = Outputs::new();
        self.node.input(Time::default().plus(self.now), input, &mut outputs);
        outputs
    }

    pub(crate) fn start(&mut self, start: Start) -> Vec<String> {
        self.feed(Input::Start { ticket: 1, start: start.into() })
    }

    pub(crate) fn request(&mut self, from: Id, request: Request) -> Vec<String> {
        self.feed(Input::Message { from, message: Message::Request(Arc::new(request)) })
    }

    pub(crate) fn ran(&mut self, result: JobResult) -> Vec<String> {
        self.feed(Input::Ran { call: CALL, result })
    }

    /// A job has ended with these reply data.
    pub(crate) fn replied(&mut self, data: &str) -> Vec<String> {
        self.ran(JobResult::Replied(reply(data)))
    }

    pub(crate) fn answered(&mut self, result: Result<Reply, &str>) -> Vec<String> {
        self.feed(Input::Answered { call: CALL, result: result.map_err(Into::into) })
    }

    pub(crate) fn response(&mut self, from: Id, answer: Answer) -> Vec<String> {
        self.feed(Input::Message { from, message: Message::Response(Response { call: CALL, answer }) })
    }

    pub(crate) fn cancel(&mut self, from: Id) -> Vec<String> {
        self.feed(Input::Message { from, message: Message::Cancel(CALL) })
    }

    pub(crate) fn lost(&mut self, peer: Id) -> Vec<String> {
        self.feed(Input::LinkLost { peer, kind: CauseKind::LinkLost, why: "gone".into(), unreached: false })
    }

    /// The time limit of the soonest call passes.
    pub(crate) fn expire(&mut self) -> Vec<String> {
        let deadline = self.node.next_deadline().expect("a call in flight");
        self.now = deadline.since(Time::default());
        self.feed(Input::Tick)
    }

    /// Time passes until a call has also waited for reports after its limit.
    pub(crate) fn expire_late(&mut self) -> Vec<String> {
        assert_eq!(self.expire(), [""; 0], "it waits for reports");
        self.expire()
    }

    /// Whether the tables of the node contain a text, which only its debug output shows.
    pub(crate) fn holds(&self, text: &str) -> bool {
        format!("{:?}", self.node).contains(text)
    }

    /// Whether no state of any call is left.
    pub(crate) fn is_quiet(&self) -> bool {
        (self.node.calls(), self.node.jobs_running(), self.node.next_deadline()) == (0, 0, None)
    }
}

pub(crate) fn reply(data: &str) -> Reply {
    Reply { data: data.into(), ..Default::default() }
}

/// A child's reply of raw data, as a callback makes it.
pub(crate) fn merged(data: &str) -> Answer {
    Answer::Reply(SubtreeReply { data: data.as_bytes().to_vec().into(), ..SubtreeReply::default() })
}

/// A child's reply of level-n data, without headers.
pub(crate) fn leveled(level: u16, header: &str, data: &str) -> Answer {
    let (header, data) = (header.as_bytes().to_vec().into(), data.as_bytes().to_vec().into());
    Answer::Reply(SubtreeReply { level, header, data, ..SubtreeReply::default() })
}

pub(crate) fn failed(id: Id, stage: Stage, coverage: Coverage) -> Answer {
    Answer::Failed(Box::new(Failure {
        cause: Cause::new(id, stage, CauseKind::Failed, "bad luck"),
        coverage,
    }))
}

pub(crate) fn show(output: Output) -> String {
    match output {
        Output::Send { to, message: Message::Request(request) } => {
            let adopted = match (request.skipped, request.adopted) {
                (0, false) => String::new(),
                (skipped, false) => format!(" skipped {skipped}"),
                (skipped, true) => format!(" skipped {skipped}, sent before"),
            };
            format!("to {to}: request {}{adopted}", request.ids)
        }
        Output::Send { to, message: Message::Cancel(_) } => format!("to {to}: cancel"),
        Output::Send { to, message: Message::Response(response) } => {
            format!("to {to}: {}", show_answer(response.answer))
        }
        Output::Send { to, message: Message::Release(_) } => format!("to {to}: release"),
        Output::Send { to, message: Message::Moved(_) } => format!("to {to}: moved"),
        Output::Send { to, message: Message::Ping } => format!("to {to}: ping"),
        Output::Send { to, message: Message::Pong } => format!("to {to}: pong"),
        Output::Send { to, message: Message::Stragglers(calls) } => {
            let told: Vec<String> = calls.iter().map(|(_, straggler)| straggler.to_string()).collect();
            format!("to {to}: {}", told.join(", "))
        }
        Output::Send { to, message: Message::Pause(length) } => format!("to {to}: pause {length:?}"),
        Output::Abandon { peer } => format!("abandon {peer}"),
        Output::Stopped(_) => "stopped".into(),
        Output::Run(job) => match job.work {
            Work::Func => "run func".into(),
            Work::More(_) => "run more".into(),
            Work::Callback { from, child, own } => {
                let own = String::from_utf8_lossy(&own.data).into_owned();
                format!("run callback {from} {own}+{}", text(child.data.to_bytes()))
            }
        },
        Output::Consumed { from } => format!("consumed {from}"),
        Output::ChildReply { group, reply, report, .. } => {
            let statuses = report.map_or(String::new(), |report| format!(" [{}]", letters(&report.coverage)));
            let (end, data) = (group.start + group.len, text(reply.data.to_bytes()));
            format!("child {}..{end} [{data}]{statuses}", group.start)
        }
        Output::Finished { ticket, result, report, .. } => {
            let answer = match result {
                Ok(reply) if report.is_some() => Answer::Partial(Box::new(Partial {
                    reply: reply.unwrap_or_default(),
                    report: *report.unwrap_or_default(),
                })),
                Ok(None) => Answer::Completed,
                Ok(Some(reply)) => Answer::Reply(reply),
                Err(failure) => Answer::Failed(failure),
            };
            format!("end {ticket}: {}", show_answer(answer))
        }
    }
}

fn show_answer(answer: Answer) -> String {
    match answer {
        Answer::Completed => "completed".into(),
        Answer::Reply(SubtreeReply { level, header, data, .. }) => {
            format!("level {level} [{}] [{}]", text(header.to_bytes()), text(data.to_bytes()))
        }
        Answer::Arriving(reply) => {
            let (header, len) = (text(reply.header.to_bytes()), reply.data.len());
            format!("level {} [{header}] and {len} bytes to come", reply.level)
        }
        Answer::Partial(partial) => {
            let Partial { reply: SubtreeReply { level, header, data, .. }, report } = *partial;
            let causes: Vec<String> = report.causes.iter().map(ToString::to_string).collect();
            let (header, data) = (text(header.to_bytes()), text(data.to_bytes()));
            format!("level {level} [{header}] [{data}] [{}] {}", letters(&report.coverage), causes.join("; "))
        }
        Answer::Failed(failure) => format!("{} [{}]", failure.cause, letters(&failure.coverage)),
    }
}
