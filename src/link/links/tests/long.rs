//! Long data and credit: requests and responses of any length, written and read in pieces, consumed late, on links that
//! break.

use super::*;
use crate::wire::Payload;
use crate::wire::body::Body;
use crate::wire::frame::{SEGMENT, WINDOW};
use crate::wire::message::Answer;
use crate::wire::subtree_reply::SubtreeReply;

/// The data of a call: each call has other bytes.
fn data(of: CallId, length: usize) -> Vec<u8> {
    let first = of.sequence as usize * 7 + of.root as usize;
    (0..length).map(|place| (first + place + place / 251) as u8).collect()
}

fn bytes_of(payload: &Payload) -> Vec<u8> {
    let mut bytes = Vec::new();
    payload.copy_to(&mut bytes);
    bytes
}

fn long_request(call: CallId, length: usize) -> Message {
    let data = Body::whole(data(call, length));
    Message::Request(Arc::new(Request { data, ..Request::new(call, IdList::range(0..2)) }))
}

fn long_response(call: CallId, length: usize) -> Message {
    let data = Payload::copy_from_slice(&data(call, length));
    let reply = SubtreeReply { level: 1, header: Payload::default(), data, ..SubtreeReply::default() };
    Message::Response(Response { call, answer: Answer::Reply(reply) })
}

/// Lengths around the limits of segments and windows.
fn length() -> impl Strategy<Value = usize> {
    let window = WINDOW as usize;
    prop_oneof![
        4 => 0usize..2_000,
        1 => SEGMENT - 50..SEGMENT + 50,
        1 => window - 2..window + 3,
        1 => window..window + 3 * SEGMENT,
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Ask(usize, usize),
    /// Answers the oldest request that is held.
    Answer(usize, usize),
    /// Consumes the oldest request that is held, without an answer.
    Consume(usize),
    Write(usize, usize),
    Read(usize, usize),
    Break,
}

fn step() -> impl Strategy<Value = Step> {
    let most = || prop_oneof![1usize..300, 1_000usize..100_000, Just(4 * SEGMENT)];
    prop_oneof![
        4 => (0usize..2, length()).prop_map(|(at, length)| Step::Ask(at, length)),
        3 => (0usize..2, length()).prop_map(|(at, length)| Step::Answer(at, length)),
        2 => (0usize..2).prop_map(Step::Consume),
        6 => (0usize..2, most()).prop_map(|(at, most)| Step::Write(at, most)),
        6 => (0usize..2, most()).prop_map(|(at, most)| Step::Read(at, most)),
        1 => Just(Step::Break),
    ]
}

/// The sent requests and responses, by sender.
#[derive(Default)]
struct Book {
    asked: [u64; 2],
    lengths: std::collections::BTreeMap<CallId, usize>,
    answers: std::collections::BTreeMap<CallId, usize>,
}

impl Pair {
    fn asks(&mut self, book: &mut Book, at: usize, length: usize) {
        book.asked[at] += 1;
        let call = CallId { root: at as Id, sequence: book.asked[at] };
        book.lengths.insert(call, length);
        self.send(at, long_request(call, length));
    }

    /// Takes the oldest request whose data are whole.
    fn takes(&mut self, at: usize) -> Option<Arc<Request>> {
        let whole = self.requests[at].iter().position(|request| request.data.is_whole())?;
        let request = self.requests[at].remove(whole);
        self.nodes[at].consume_request(1 - at as Id);
        request
    }

    fn answers(&mut self, book: &mut Book, at: usize, length: usize) {
        if let Some(request) = self.takes(at) {
            book.answers.insert(request.call, length);
            self.send(at, long_response(request.call, length));
        }
    }

    /// Checks and drops the received messages.
    fn check(&mut self, book: &Book) -> Result<(), TestCaseError> {
        for request in self.requests.iter().flatten().filter(|request| request.data.is_whole()) {
            let expected = data(request.call, book.lengths[&request.call]);
            prop_assert!(request.data.bytes().is_some_and(|bytes| bytes == expected), "{:?}", request.call);
        }
        for response in self.responses.iter_mut().flat_map(std::mem::take) {
            let Answer::Reply(reply) = response.answer else { panic!("{response:?}") };
            let expected = data(response.call, book.answers[&response.call]);
            prop_assert!(bytes_of(&reply.data) == expected, "{:?}", response.call);
        }
        for (at, node) in self.nodes.iter().enumerate() {
            for (_, end) in node.table.iter() {
                prop_assert!(
                    end.link.unacknowledged <= HIWATER,
                    "id {} has more than it gave credit for",
                    at
                );
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Messages that arrive whole equal those that were sent, on any link. On the last link all messages arrive; then
    /// credit and memory are as at the start.
    #[test]
    fn long_data_arrive_intact_and_all_memory_is_released(steps in proptest::collection::vec(step(), 0..40)) {
        let (mut pair, mut book) = (Pair::new(), Book::default());
        pair.holds = true;
        for step in steps {
            match step {
                Step::Ask(at, length) => pair.asks(&mut book, at, length),
                Step::Answer(at, length) => pair.answers(&mut book, at, length),
                Step::Consume(at) => drop(pair.takes(at)),
                Step::Write(at, most) => pair.write(at, most),
                Step::Read(at, most) => pair.read(at, most),
                Step::Break => pair.breaks(),
            }
            for lost in pair.losses.iter_mut().flat_map(std::mem::take).collect::<Vec<_>>() {
                pair.nodes[1 - lost.peer as usize].drop_pending(lost.peer);
            }
            pair.check(&book)?;
        }
        let last = [0, 1].map(|at| {
            pair.asks(&mut book, at, WINDOW as usize + 5);
            CallId { root: at as Id, sequence: book.asked[at] }
        });
        // Ends: each round moves all that may move, and the calls are few.
        for _ in 0..100 {
            pair.runs();
            pair.check(&book)?;
            (0..2).for_each(|at| pair.answers(&mut book, at, 3 * SEGMENT));
        }
        prop_assert!(last.iter().all(|call| book.answers.contains_key(call)), "the last requests have come");
        // What was held of requests that broke off goes with its holder.
        pair.requests = Default::default();
        pair.runs();
        for at in 0..2 {
            let node = &mut pair.nodes[at];
            node.send_windows();
            node.prune_streaming();
            prop_assert!(node.window_grants.is_empty() && !node.is_streaming());
            for (_, End { link, .. }) in node.table.iter() {
                prop_assert!(link.inbox.is_idle() && link.outbox.is_idle(), "id {} still has something", at);
            }
            prop_assert_eq!(pair.memory[at].used(), 0, "memory of id {}", at);
        }
        pair.assert_empty();
    }
}

/// A peer that consumes nothing gets as many requests as it gave credit for, and the others wait without being lost.
#[test]
fn requests_beyond_the_credit_wait_until_some_are_consumed() {
    for hiwater in [1, 2, 5, HIWATER] {
        let (mut pair, mut book) = (Pair::new(), Book::default());
        pair.nodes = [0, 1].map(|id| links_with(id, hiwater));
        pair.holds = true;
        let most = hiwater as usize;
        (0..2 * most + 10).for_each(|_| pair.asks(&mut book, 0, 1));
        pair.runs();
        assert_eq!(pair.requests[1].len(), most);
        for _ in 0..most {
            drop(pair.takes(1));
            pair.runs();
        }
        assert!(pair.requests[1].len() >= most.div_ceil(2), "{} more have come", pair.requests[1].len());
        while pair.takes(1).is_some() {
            pair.runs();
        }
        let arrived = &pair.messages[1];
        assert!(arrived.is_sorted_by_key(|call| call.sequence));
        assert_eq!(arrived.len(), 2 * most + 10);
    }
}
