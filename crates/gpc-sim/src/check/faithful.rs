//! Checks requests and answers against the caller's plan at every id: functions, options, tree, data, time. An id
//! forwards only after its own func has begun and has not failed. It answers only after all its children have.
//!
//! Source: the ARMCI design of chained GPC (2007), "A chained GPC's propagation works in the following steps".

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use gpc_trees::{Group, Id};

use super::book::Book;
use super::findings::Findings;
use super::record::Record;
use super::{FunctionEnd, Observation, Plan};
use crate::by_call::ByCall;
use crate::large::LARGE;
use crate::ranges::{NAMES, forget, forget_keys};
use chained_gpc::wire::message::{Answer, Message, Response};
use chained_gpc::wire::{CallId, Request};

const NAME: &str = "faithful";

/// State of the calls.
#[derive(Default)]
pub(super) struct Faithful {
    /// By position: whether its answer reports its whole subtree as done.
    done: ByCall<Vec<bool>>,
    /// By position: size of the subtree that it asked last.
    own: ByCall<Vec<u32>>,
    /// The same for adopters: key is the adopter, the call and the position whose children it asked.
    adopted: BTreeMap<(Id, CallId, u32), u32>,
    /// Ids whose func failed before they asked any id below.
    failed: BTreeSet<(Id, CallId)>,
    /// Ids whose func is running, or waits for more data.
    running: BTreeSet<(Id, CallId)>,
    /// The function that began last.
    began: Option<(Id, CallId)>,
}

impl Faithful {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        match seen {
            Observation::Started { call, plan } => {
                self.done.insert(*call, vec![false; plan.ids.len() as usize]);
                self.own.insert(*call, vec![u32::MAX; plan.ids.len() as usize]);
            }
            Observation::Sent { from, to, message: Message::Request(request) } => {
                let Some(record) = book.calls.get(&request.call) else { return };
                let wrong = altered(record, *to, request).or_else(|| early(record, *from));
                let wrong = wrong.or_else(|| self.in_turn(record, *from, *to, request.call));
                let wrong = wrong.or_else(|| kept_back(book, record, *from, request));
                let wrong = wrong.or_else(|| self.goes_on(*from, request.call));
                let wrong = wrong.or_else(|| self.goes_ahead(record, *from, request.call));
                wrong.into_iter().for_each(|what| {
                    findings.add(NAME, format!("{from} -> {to}: a request of call {} {what}", request.call));
                });
            }
            Observation::Sent { from, message: Message::Response(response), .. } => {
                let wrong = self.answered(book, *from, response);
                wrong.into_iter().for_each(|what| {
                    findings.add(NAME, format!("id {from} answers call {} {what}", response.call));
                });
            }
            Observation::DataGone { at, from, call } => {
                let what = format!("{from} -> {at}: data of call {call} are gone before they are passed on");
                findings.add(NAME, what);
            }
            Observation::Began { id, call, .. } => self.began = Some((*id, *call)),
            // The function was func.
            Observation::Executed { id, call, .. } if book.small(*call).is_some() => {
                self.running.extend(self.began.take().filter(|began| *began == (*id, *call)));
            }
            Observation::Ran { id, call, end } if self.running.contains(&(*id, *call)) => {
                if *end != FunctionEnd::Unfinished {
                    self.running.remove(&(*id, *call));
                }
                if *end == FunctionEnd::Failed {
                    self.note_failure(book, *id, *call);
                }
            }
            Observation::Ran { id, call, end: FunctionEnd::Failed } => self.note_failure(book, *id, *call),
            Observation::Ended { id } => self.ended(book, *id),
            _ => {}
        }
    }

    fn note_failure(&mut self, book: &Book, id: Id, call: CallId) {
        let ends = |it: &Record| !it.plan.partial && !it.plan.forward_first && it.plan.ids.len() <= LARGE;
        if book.calls.get(&call).is_some_and(ends) && !book.has_forwarded(id, call) {
            self.failed.insert((id, call));
        }
    }

    /// A new run of an id does not know which ids the previous run asked.
    fn ended(&mut self, book: &Book, id: Id) {
        forget_keys(&mut self.failed, (id, NAMES[0])..=(id, NAMES[1]));
        forget_keys(&mut self.running, (id, NAMES[0])..=(id, NAMES[1]));
        forget(&mut self.adopted, (id, NAMES[0], 0)..=(id, NAMES[1], u32::MAX));
        for (call, record) in book.calls.iter() {
            if let (Some(place), Some(own)) = (record.position(id), self.own.get_mut(call)) {
                own[place as usize] = u32::MAX;
            }
        }
    }

    /// Whether the sender has failed before; a call that is not partial ends there.
    fn goes_on(&self, from: Id, call: CallId) -> Option<String> {
        self.failed.contains(&(from, call)).then(|| "comes from an id whose func has failed".into())
    }

    /// Whether the sender's func is still running, and must end before it forwards.
    fn goes_ahead(&self, record: &Record, from: Id, call: CallId) -> Option<String> {
        let ahead = !record.plan.forward_first && self.running.contains(&(from, call));
        ahead.then(|| "comes before its sender's func has ended".into())
    }

    /// Checks the order in which a parent's children are asked: the largest subtrees first, because they take longest.
    fn in_turn(&mut self, record: &Record, from: Id, to: Id, call: CallId) -> Option<String> {
        let place = record.position(to).filter(|&place| place > 0 && !record.is_forged(place))?;
        let parent = record.parents[place as usize];
        let size = record.sizes[place as usize];
        let own = self.own.get_mut(&call).filter(|_| record.is_parent(from, place));
        let least = match own.and_then(|own| own.get_mut(parent as usize)) {
            Some(least) => least,
            None => self.adopted.entry((from, call, parent)).or_insert(u32::MAX),
        };
        let larger = size > *least;
        *least = size;
        larger.then(|| format!("comes behind that of a smaller subtree, and has one of {size} ids"))
    }

    /// Records an answer for a whole subtree; returns what is wrong, such as an answer that is too early.
    fn answered(&mut self, book: &Book, from: Id, response: &Response) -> Option<String> {
        let record = book.calls.get(&response.call)?;
        let carries = match &response.answer {
            Answer::Reply(_) | Answer::Arriving(_) => true,
            Answer::Partial(partial) => !partial.reply.is_empty(),
            Answer::Completed | Answer::Failed(_) => false,
        };
        if carries && !record.plan.reply_wanted {
            return Some("with a reply, and none is wanted".into());
        }
        if record.plan.partial {
            return None;
        }
        let (done, position) = (self.done.get_mut(&response.call)?, record.position(from)?);
        // The sender of a copied request may have received the answer before the parent asked.
        if record.is_forged(position) {
            done[position as usize] = true;
            return None;
        }
        if !matches!(response.answer, Answer::Completed | Answer::Reply(_) | Answer::Arriving(_)) {
            return None;
        }
        let end = position + record.sizes[position as usize];
        let mut child = position + 1;
        // Subtrees lie side by side.
        while child < end {
            if !done[child as usize] {
                let id = record.plan.ids.id(child)?;
                return Some(format!("before its child {id} has"));
            }
            child += record.sizes[child as usize];
        }
        done[position as usize] = true;
        (record.executed[position as usize] == 0).then(|| "and has not executed it".into())
    }
}

/// Describes how a request differs from the caller's plan.
fn altered(record: &Record, to: Id, request: &Request) -> Option<String> {
    let plan = &record.plan;
    let place = record.position(to)?;
    let group = Group { start: place, len: record.sizes[place as usize] };
    let flags = [
        ("reply wanted", request.reply_wanted, plan.reply_wanted),
        ("partial", request.partial, plan.partial),
        ("forward first", request.forward_first, plan.forward_first),
    ];
    if let Some((name, said, meant)) = flags.into_iter().find(|(_, said, meant)| said != meant) {
        return Some(format!("says {said} for {name}, and its caller said {meant}"));
    }
    let handles = (request.func, request.callback);
    let meant = (plan.carries.func, plan.callback.then_some(plan.carries.callback));
    if handles != meant {
        return Some(format!("names the functions {handles:?}, and its caller {meant:?}"));
    }
    let (has, gave) = (request.reply_limits, plan.carries.reply_limits);
    if has != gave {
        return Some(format!("limits replies to {has:?}, and its caller to {gave:?}"));
    }
    if request.header[..] != record.header[..] {
        let (has, gave) = (request.header.len(), record.header.len());
        return Some(format!("has a header of {has} bytes, and not the {gave} that its caller gave"));
    }
    // Incomplete data must be a prefix of the caller's.
    let (data, body) = (record.data_below(place), request.body());
    let arrived = body.read(0, data.len());
    if body.len() != data.len() as u64 || !is_start(&arrived, &data) {
        let (has, gave) = (body.len(), data.len());
        return Some(format!("has {has} bytes of data, and not the {gave} that its caller gave"));
    }
    if let Some(wrong) = cut_otherwise(plan, group, request) {
        return Some(wrong);
    }
    let (at, total) = (request.position, request.total);
    if (at, total) != (place, plan.ids.len()) {
        return Some(format!("says that {to} stands at {at} of {total}, and it does at {place}"));
    }
    if request.tree != Ok(plan.tree.subtree(group)) {
        return Some(format!("has the tree {:?}, and is of one over {}", request.tree, plan.tree));
    }
    let sum = u64::try_from((request.age + request.left).as_nanos()).unwrap_or(u64::MAX);
    if request.left.is_zero() {
        return Some("leaves no time to answer".into());
    }
    (sum != plan.limit_ns).then(|| {
        let (age, left, limit) = (request.age, request.left, plan.limit_ns);
        format!("says that it is {age:?} old and has {left:?} left, of a limit of {limit} ns")
    })
}

/// Whether the data of a scatter call are cut in another way than its caller wants.
fn cut_otherwise(plan: &Plan, group: Group, request: &Request) -> Option<String> {
    let lengths = request.parts.as_ref().map(|parts| parts.lengths().collect::<Vec<u64>>());
    let part = |start| plan.data_range(Group { start, len: 1 }).len() as u64;
    let meant = plan.carries.scatter.then(|| (group.start..group.start + group.len).map(part).collect());
    (lengths != meant).then(|| format!("has parts of {lengths:?} bytes, and its caller gave {meant:?}"))
}

/// Checks that a sender that had all data when it executed forwards all of them.
fn kept_back(book: &Book, record: &Record, from: Id, request: &Request) -> Option<String> {
    let position = record.position(from)?;
    let had = record.executed[position as usize] != 0 || position == 0;
    // A node that has forgotten the call receives the data of a copied request again.
    let anew = book.ended.contains_key(&from) || book.may_run_anew(record);
    // An id whose own part of the data is empty need not wait for the others.
    let waits = !record.data_of(position).is_empty();
    let certain = waits && !record.plan.carries.as_they_come && !anew;
    (had && certain && !request.body().is_whole()).then(|| {
        let (arrived, all) = (request.body().arrived(), request.body().len());
        format!("has {arrived} of {all} bytes of data, and its sender has executed")
    })
}

/// Whether these are the first bytes of the data; most share their memory.
fn is_start(bytes: &Bytes, of: &Bytes) -> bool {
    bytes.as_ptr() == of.as_ptr() && bytes.len() <= of.len() || of.starts_with(bytes)
}

/// Whether a request is forwarded too early: func must execute first, unless the caller wants otherwise.
fn early(record: &Record, from: Id) -> Option<String> {
    let position = record.position(from)?;
    let free = record.plan.forward_first || position == 0 && record.plan.watch;
    (!free && record.executed[position as usize] == 0).then(|| "comes before its sender has executed".into())
}
