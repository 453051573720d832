//! What a request says is what the caller meant, at every id: the functions, the options, the tree, the data, the time. And an id sends only what it may by then: its request when its
//! own func has begun, and has not failed; its answer when all of its children have given theirs.
//!
//! Source: the ARMCI design of chained GPC (2007), "A chained GPC's propagation works in the following steps".

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use gpc_trees::{Group, Id};

use super::book::{Book, Record};
use super::{Findings, FunctionEnd, NAMES, Observation, forget, forget_keys};
use crate::sim::ahead::soon;
use crate::sim::by_call::ByCall;
use crate::sim::world::LARGE;
use crate::wire::message::{Answer, Message, Response};
use crate::wire::{CallId, Request};

const NAME: &str = "faithful";

/// What has been seen of the calls.
#[derive(Default)]
pub(super) struct Faithful {
    /// By position: whether it has said that its whole subtree is done.
    done: ByCall<Vec<bool>>,
    /// By position: how large the subtree was of the child that it asked last.
    own: ByCall<Vec<u32>>,
    /// The same of others: of whom an id has asked the children.
    adopted: BTreeMap<(Id, CallId, u32), u32>,
    /// Whose func has failed before anybody below was asked.
    failed: BTreeSet<(Id, CallId)>,
    /// Where func is running, or waits for more of its data.
    running: BTreeSet<(Id, CallId)>,
    /// Where a function has begun last.
    began: Option<(Id, CallId)>,
}

impl Faithful {
    /// A position is to be looked at soon.
    pub(super) fn expect(&self, call: CallId, position: usize) {
        if let (Some(done), Some(own)) = (self.done.get(&call), self.own.get(&call)) {
            soon(&done[position]);
            soon(&own[position]);
        }
    }

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
            // It was func.
            Observation::Executed { id, call, .. } if book.small(*call).is_some() => {
                self.running.extend(self.began.take().filter(|began| *began == (*id, *call)));
            }
            Observation::Ran { id, call, end } if self.running.contains(&(*id, *call)) => {
                if *end != FunctionEnd::Unfinished {
                    self.running.remove(&(*id, *call));
                }
                if *end == FunctionEnd::Failed {
                    self.has_failed(book, *id, *call);
                }
            }
            Observation::Ran { id, call, end: FunctionEnd::Failed } => self.has_failed(book, *id, *call),
            Observation::Ended { id } => self.ended(book, *id),
            _ => {}
        }
    }

    fn has_failed(&mut self, book: &Book, id: Id, call: CallId) {
        let ends = |it: &Record| !it.plan.partial && !it.plan.forward_first && it.plan.ids.len() <= LARGE;
        if book.calls.get(&call).is_some_and(ends) && !book.has_forwarded(id, call) {
            self.failed.insert((id, call));
        }
    }

    /// A run of an id knows nothing of whom the one before it has asked.
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

    /// Whether whoever asks another has failed before: in a call that is not partial that is the end of it there.
    fn goes_on(&self, from: Id, call: CallId) -> Option<String> {
        self.failed.contains(&(from, call)).then(|| "comes from an id whose func has failed".into())
    }

    /// Whether the sender's func has not ended, and is to come first.
    fn goes_ahead(&self, record: &Record, from: Id, call: CallId) -> Option<String> {
        let ahead = !record.plan.forward_first && self.running.contains(&(from, call));
        ahead.then(|| "comes before its sender's func has ended".into())
    }

    /// What is wrong with the order in which the children of one parent are asked: those with the largest subtrees first, since they take longest.
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

    /// Takes an answer down that speaks for a whole subtree; says whether it comes too early.
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
        // Whoever asks it may have had its answer before it was asked by its parent.
        if record.is_forged(position) {
            done[position as usize] = true;
            return None;
        }
        if !matches!(response.answer, Answer::Completed | Answer::Reply(_) | Answer::Arriving(_)) {
            return None;
        }
        let end = position + record.sizes[position as usize];
        let mut child = position + 1;
        // Subtrees stand side by side.
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

/// What a request says that its caller did not mean.
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
    if request.header[..] != record.header[..] {
        let (has, gave) = (request.header.len(), record.header.len());
        return Some(format!("has a header of {has} bytes, and not the {gave} that its caller gave"));
    }
    // Of data that are still arriving what is there is true.
    let arrived = request.data.read(0, record.data.len());
    if request.data.len() != record.data.len() as u64 || !is_start(&arrived, &record.data) {
        let (has, gave) = (request.data.len(), record.data.len());
        return Some(format!("has {has} bytes of data, and not the {gave} that its caller gave"));
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

/// What is wrong with a request whose sender has had all of the data, since it has executed, and passes on others.
fn kept_back(book: &Book, record: &Record, from: Id, request: &Request) -> Option<String> {
    let position = record.position(from)?;
    let had = record.executed[position as usize] != 0 || position == 0;
    // Whoever has forgotten the call has the data of a copy before it all over again.
    let anew = book.ended.contains_key(&from) || book.may_run_anew(record);
    let certain = !record.plan.carries.as_they_come && !anew;
    (had && certain && !request.data.is_whole()).then(|| {
        let (arrived, all) = (request.data.arrived(), request.data.len());
        format!("has {arrived} of {all} bytes of data, and its sender has executed")
    })
}

/// Whether these are the first bytes of the data; most are the same piece of memory.
fn is_start(bytes: &Bytes, of: &Bytes) -> bool {
    bytes.as_ptr() == of.as_ptr() && bytes.len() <= of.len() || of.starts_with(bytes)
}

/// Whether a request is passed on before its time: func first, unless the caller said otherwise.
fn early(record: &Record, from: Id) -> Option<String> {
    let position = record.position(from)?;
    let free = record.plan.forward_first || position == 0 && record.plan.watch;
    (!free && record.executed[position as usize] == 0).then(|| "comes before its sender has executed".into())
}
