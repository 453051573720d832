//! The functions that calls name: registered under a name, known everywhere by a handle made of that name.
//!
//! Source: chained-gpc.md, "Interface and parameters" (func, callback) and "Alternative approach" (one function with phases).
//! A handle is computed from the name alone, so every process that registers the same name has the same handle without talking to anyone.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use gpc_trees::{Registered, Registry, Tree, TreeName};

use super::function_error::{FunctionError, FunctionResult, unwinding};
use super::quick_hash::QuickHash;
use super::request::{ChildReply, Deferred, Request};
use super::stream::{self, Factory, Intake, Streaming};
use crate::chain::{JobResult, Reply};
use crate::wire::message::Merging;
use crate::wire::{CauseKind, Reason};

type Func = dyn Fn(&Request<'_>, &mut Reply) -> FunctionResult + Send + Sync;
type Callback = dyn Fn(&Request<'_>, &ChildReply<'_>, &mut Reply) -> FunctionResult + Send + Sync;
type Phased = dyn Fn(Phase<'_>, &Request<'_>, &mut Reply) -> FunctionResult + Send + Sync;
type Deferring = dyn Fn(&Request<'_>, Deferred) + Send + Sync;

/// What merges replies: a callback, or a func with phases.
pub trait Merges: Copy + sealed::Sealed {
    /// The number on the wire.
    fn number(self) -> u32;
}

impl Merges for CallbackHandle {
    fn number(self) -> u32 {
        self.0
    }
}

impl Merges for FuncHandle {
    fn number(self) -> u32 {
        self.0
    }
}

mod sealed {
    /// The library's own handles alone.
    pub trait Sealed {}

    impl Sealed for super::CallbackHandle {}
    impl Sealed for super::FuncHandle {}
}

/// What a registered function with phases is called for.
///
/// Source: chained-gpc.md, "Alternative approach": GPC_INIT does what func does, GPC_WAIT what callback does.
#[derive(Debug)]
pub enum Phase<'a> {
    /// Execute.
    Init,
    /// Merge this child's reply into the node's own.
    Wait(&'a ChildReply<'a>),
}

/// Handle of a func: what a call executes at each id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FuncHandle(pub(super) u32);

/// Handle of a callback: what merges replies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CallbackHandle(pub(super) u32);

impl FuncHandle {
    /// The number on the wire.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Whether the function merges replies itself, in its phase [`Phase::Wait`].
    pub(super) fn is_phased(self) -> bool {
        kind(self.0) == Some(Kind::Phased)
    }
}

impl CallbackHandle {
    /// The number on the wire.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// The kinds of handles, in bits 29 and 30 of the number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Func = 1,
    Callback = 2,
    Phased = 3,
}

const KIND_SHIFT: u32 = 29;
const HASH_BITS: u32 = (1 << KIND_SHIFT) - 1;

/// The handle of a name: 29 bits of its FNV-1a hash under two bits of kind, positive as a C `int`.
fn handle(kind: Kind, name: &str) -> u32 {
    let hash = gpc_trees::name_hash(name);
    (kind as u32) << KIND_SHIFT | ((hash ^ hash >> KIND_SHIFT) & HASH_BITS)
}

fn kind(handle: u32) -> Option<Kind> {
    match handle >> KIND_SHIFT {
        1 => Some(Kind::Func),
        2 => Some(Kind::Callback),
        3 => Some(Kind::Phased),
        _ => None,
    }
}

/// A name that cannot be registered, or a handle that cannot be called.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FunctionsError {
    /// The name is taken.
    #[error("a function named `{0}` is registered already: give this one another name")]
    Duplicate(String),
    /// Another name has the same hash.
    #[error("the names `{new}` and `{old}` have the same handle: change one of them by a letter")]
    Clash {
        /// The one there is.
        old: String,
        /// The one refused.
        new: String,
    },
    /// Names are 1 to 255 bytes.
    #[error("a function's name has 1 to 255 bytes; this one has {0}")]
    Name(usize),
    /// Nothing is registered under a handle.
    #[error(
        "no function is registered under the handle {0:#x} here: register it, under the same name on every process, before calling it"
    )]
    Unknown(u32),
    /// No function has a name.
    #[error("no function is named `{0}`; these are: {1}")]
    UnknownName(String, String),
    /// The handle is of another kind than the call needs.
    #[error("`{name}` is a {is}, but a {needed} is needed here")]
    OtherKind {
        /// Its name.
        name: String,
        /// What it is.
        is: &'static str,
        /// What it should be.
        needed: &'static str,
    },
    /// A tree that cannot be registered.
    #[error(transparent)]
    Tree(#[from] gpc_trees::RegisterError),
}

/// One registered function.
#[derive(Clone)]
pub(super) struct Entry {
    name: Arc<str>,
    pub(super) inline: bool,
    merging: Merging,
    code: Code,
}

#[derive(Clone)]
enum Code {
    Func(Arc<Func>),
    Callback(Arc<Callback>),
    Phased(Arc<Phased>),
    Deferring(Arc<Deferring>),
    Streaming(Arc<Factory>),
}

impl Code {
    fn kind(&self) -> Kind {
        match self {
            Code::Func(_) | Code::Deferring(_) | Code::Streaming(_) => Kind::Func,
            Code::Callback(_) => Kind::Callback,
            Code::Phased(_) => Kind::Phased,
        }
    }

    fn kind_name(&self) -> &'static str {
        match self.kind() {
            Kind::Func => "func",
            Kind::Callback => "callback",
            Kind::Phased => "func with phases",
        }
    }
}

#[derive(Default)]
struct Tables {
    /// Their handles are made of the names that this process gives.
    entries: HashMap<u32, Entry, QuickHash>,
    names: HashMap<Arc<str>, u32>,
    trees: Registry,
}

/// The functions and trees of a process. Cloning shares them; any thread may register at any time.
#[derive(Clone, Default)]
pub struct Functions(Arc<RwLock<Tables>>);

impl Functions {
    /// No functions.
    pub fn new() -> Functions {
        Functions::default()
    }

    /// Registers what a call executes at each id: it reads the request and fills the id's own reply.
    ///
    /// # Errors
    /// [`FunctionsError::Duplicate`], [`Clash`](FunctionsError::Clash) or [`Name`](FunctionsError::Name).
    pub fn func<F>(&self, name: &str, func: F) -> Result<FuncHandle, FunctionsError>
    where
        F: Fn(&Request<'_>, &mut Reply) -> FunctionResult + Send + Sync + 'static,
    {
        self.add(name, false, Code::Func(Arc::new(func))).map(FuncHandle)
    }

    /// Like [`func`](Self::func), for a short function that never blocks: it runs on the event loop itself, without a hand-off to a worker.
    ///
    /// # Errors
    /// As for [`func`](Self::func).
    pub fn inline_func<F>(&self, name: &str, func: F) -> Result<FuncHandle, FunctionsError>
    where
        F: Fn(&Request<'_>, &mut Reply) -> FunctionResult + Send + Sync + 'static,
    {
        self.add(name, true, Code::Func(Arc::new(func))).map(FuncHandle)
    }

    /// Registers what merges a child's reply into the id's own: one child after the other, in the order of the list. A reply that comes early is held until those before it have been merged, which
    /// narrows the source's "for any response"; a callback that is [commutative](Self::commutative) takes them as they come.
    ///
    /// # Errors
    /// As for [`func`](Self::func).
    pub fn callback<F>(&self, name: &str, callback: F) -> Result<CallbackHandle, FunctionsError>
    where
        F: Fn(&Request<'_>, &ChildReply<'_>, &mut Reply) -> FunctionResult + Send + Sync + 'static,
    {
        self.add(name, false, Code::Callback(Arc::new(callback))).map(CallbackHandle)
    }

    /// Like [`callback`](Self::callback), on the event loop itself; it must not block.
    ///
    /// # Errors
    /// As for [`func`](Self::func).
    pub fn inline_callback<F>(&self, name: &str, callback: F) -> Result<CallbackHandle, FunctionsError>
    where
        F: Fn(&Request<'_>, &ChildReply<'_>, &mut Reply) -> FunctionResult + Send + Sync + 'static,
    {
        self.add(name, true, Code::Callback(Arc::new(callback))).map(CallbackHandle)
    }

    /// Says of a callback, or of a func with phases, that its result does not depend on the order in which it gets the replies: then it gets them as they come, and a child that is late holds up nobody.
    ///
    /// Each process says it for itself; where one does not, that one merges in list order.
    ///
    /// ```
    /// # use chained_gpc::Functions;
    /// let functions = Functions::new();
    /// let longest = functions.callback("longest", |_, child, own| {
    ///     if child.data.len() > own.data.len() {
    ///         own.data = child.data.to_vec();
    ///     }
    ///     Ok(())
    /// })?;
    /// let longest = functions.commutative(longest)?;
    /// # let _ = longest;
    /// # Ok::<(), chained_gpc::FunctionsError>(())
    /// ```
    ///
    /// # Errors
    /// [`FunctionsError::Unknown`] if it is not registered here, [`OtherKind`](FunctionsError::OtherKind) for a func without phases.
    pub fn commutative<M: Merges>(&self, merges: M) -> Result<M, FunctionsError> {
        let handle = merges.number();
        self.check(handle, "callback", &[Kind::Callback, Kind::Phased])?;
        self.write(|tables| {
            if let Some(entry) = tables.entries.get_mut(&handle) {
                entry.merging = Merging::AsTheyCome;
            }
        });
        Ok(merges)
    }

    /// Registers one function for both: with [`Phase::Init`] it executes, with [`Phase::Wait`] it merges.
    ///
    /// # Errors
    /// As for [`func`](Self::func).
    pub fn phased<F>(&self, name: &str, func: F) -> Result<FuncHandle, FunctionsError>
    where
        F: Fn(Phase<'_>, &Request<'_>, &mut Reply) -> FunctionResult + Send + Sync + 'static,
    {
        self.add(name, false, Code::Phased(Arc::new(func))).map(FuncHandle)
    }

    /// Like [`phased`](Self::phased), for what is always quick: see [`inline_func`](Self::inline_func).
    ///
    /// # Errors
    /// As for [`func`](Self::func).
    pub fn inline_phased<F>(&self, name: &str, func: F) -> Result<FuncHandle, FunctionsError>
    where
        F: Fn(Phase<'_>, &Request<'_>, &mut Reply) -> FunctionResult + Send + Sync + 'static,
    {
        self.add(name, true, Code::Phased(Arc::new(func))).map(FuncHandle)
    }

    /// Registers a func that answers later: it keeps the token, returns, and gives the reply from any thread.
    ///
    /// # Errors
    /// As for [`func`](Self::func).
    pub fn deferring<F>(&self, name: &str, func: F) -> Result<FuncHandle, FunctionsError>
    where
        F: Fn(&Request<'_>, Deferred) + Send + Sync + 'static,
    {
        self.add(name, false, Code::Deferring(Arc::new(func))).map(FuncHandle)
    }

    /// Registers a func that takes its data as they come, so that it works while they arrive: `begin` sees the request and makes what takes the segments, [`Streaming`] says how.
    ///
    /// In a call that [forwards first](super::Call::forward_first) a node then holds at most a window of the data, whatever their length, and is as fast as the slowest of its subtree. In any other call they are kept for the
    /// children, who get them after func has ended, and in a [partial](super::Call::partial) one for an adopter. Between two segments functions of other calls may run.
    ///
    /// The handle is that of a [`func`](Self::func) of the same name: each process chooses the form for itself.
    ///
    /// # Errors
    /// As for [`func`](Self::func).
    pub fn streaming_func<F, S>(&self, name: &str, begin: F) -> Result<FuncHandle, FunctionsError>
    where
        F: Fn(&Request<'_>) -> Result<S, FunctionError> + Send + Sync + 'static,
        S: Streaming,
    {
        self.add(name, false, Code::Streaming(stream::factory(begin))).map(FuncHandle)
    }

    /// Like [`streaming_func`](Self::streaming_func), for what takes a segment quickly: see [`inline_func`](Self::inline_func). Data that are there whole already are taken at once, however long they
    /// are, and the node does nothing else meanwhile.
    ///
    /// # Errors
    /// As for [`func`](Self::func).
    pub fn inline_streaming_func<F, S>(&self, name: &str, begin: F) -> Result<FuncHandle, FunctionsError>
    where
        F: Fn(&Request<'_>) -> Result<S, FunctionError> + Send + Sync + 'static,
        S: Streaming,
    {
        self.add(name, true, Code::Streaming(stream::factory(begin))).map(FuncHandle)
    }

    /// Registers a split as a tree, by its name.
    ///
    /// # Errors
    /// [`FunctionsError::Tree`] when the name or its id is taken.
    pub fn tree(&self, split: Registered) -> Result<(), FunctionsError> {
        Ok(self.write(|tables| tables.trees.register(split))?)
    }

    /// The tree of a name: a built-in one, or one registered here.
    ///
    /// # Errors
    /// When no tree has the name, or it is that of a file.
    pub fn named_tree(&self, name: &TreeName) -> Result<Tree, gpc_trees::UnknownTree> {
        self.read(|tables| tables.trees.named(name))
    }

    /// The handle of a func (with phases or without) by its name.
    ///
    /// # Errors
    /// [`FunctionsError::UnknownName`], or [`OtherKind`](FunctionsError::OtherKind) for a callback.
    pub fn named(&self, name: &str) -> Result<FuncHandle, FunctionsError> {
        let number = self.number(name)?;
        self.check_func(FuncHandle(number)).map(|()| FuncHandle(number))
    }

    /// The handle of a callback by its name.
    ///
    /// # Errors
    /// [`FunctionsError::UnknownName`], or [`OtherKind`](FunctionsError::OtherKind) for a func.
    pub fn named_callback(&self, name: &str) -> Result<CallbackHandle, FunctionsError> {
        let number = self.number(name)?;
        self.check_callback(CallbackHandle(number)).map(|()| CallbackHandle(number))
    }

    /// The names registered, in order.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.read(|tables| tables.names.keys().map(|name| name.to_string()).collect());
        names.sort();
        names
    }

    pub(super) fn check_func(&self, func: FuncHandle) -> Result<(), FunctionsError> {
        self.check(func.0, "func", &[Kind::Func, Kind::Phased])
    }

    pub(super) fn check_callback(&self, callback: CallbackHandle) -> Result<(), FunctionsError> {
        self.check(callback.0, "callback", &[Kind::Callback])
    }

    /// Whether a func takes its data as they come.
    pub(super) fn streams(&self, func: u32) -> bool {
        self.read(|tables| tables.entries.get(&func).is_some_and(Entry::streams))
    }

    /// In which order a callback merges replies here.
    pub(super) fn merging(&self, callback: u32) -> Merging {
        self.read(|tables| tables.entries.get(&callback).map_or(Merging::default(), |entry| entry.merging))
    }

    pub(super) fn tree_by_id(&self, id: u32) -> Option<Tree> {
        self.read(|tables| tables.trees.from_wire(id, 0).ok())
    }

    pub(super) fn entry(&self, handle: u32) -> Result<Entry, FunctionsError> {
        self.read(|tables| tables.entries.get(&handle).cloned()).ok_or(FunctionsError::Unknown(handle))
    }

    fn number(&self, name: &str) -> Result<u32, FunctionsError> {
        let number = self.read(|tables| tables.names.get(name).copied());
        number.ok_or_else(|| FunctionsError::UnknownName(name.into(), self.names().join(", ")))
    }

    fn check(&self, handle: u32, needed: &'static str, kinds: &[Kind]) -> Result<(), FunctionsError> {
        self.read(|tables| {
            let entry = tables.entries.get(&handle).ok_or(FunctionsError::Unknown(handle))?;
            if kinds.contains(&entry.code.kind()) {
                return Ok(());
            }
            Err(FunctionsError::OtherKind {
                name: entry.name.to_string(),
                is: entry.code.kind_name(),
                needed,
            })
        })
    }

    fn add(&self, name: &str, inline: bool, code: Code) -> Result<u32, FunctionsError> {
        if !(1..=255).contains(&name.len()) {
            return Err(FunctionsError::Name(name.len()));
        }
        let handle = handle(code.kind(), name);
        self.write(|tables| {
            if tables.names.contains_key(name) {
                return Err(FunctionsError::Duplicate(name.into()));
            }
            if let Some(old) = tables.entries.get(&handle) {
                return Err(FunctionsError::Clash { old: old.name.to_string(), new: name.into() });
            }
            let name: Arc<str> = name.into();
            tables.names.insert(name.clone(), handle);
            let merging = Merging::default();
            tables.entries.insert(handle, Entry { name, inline, merging, code });
            Ok(handle)
        })
    }

    /// A panic cannot leave the tables half changed, so a poisoned lock is as good as a whole one.
    fn read<T>(&self, look: impl FnOnce(&Tables) -> T) -> T {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, change: impl FnOnce(&mut Tables) -> T) -> T {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Functions").field(&self.names()).finish()
    }
}

impl Entry {
    /// Whether it is a func whose reply is there when it returns.
    pub(super) fn answers_at_its_end(&self) -> bool {
        matches!(self.code, Code::Func(_) | Code::Phased(_))
    }

    /// Runs a func that [answers at its end](Self::answers_at_its_end), on an empty reply.
    #[inline(always)]
    pub(super) fn answer(&self, request: &Request<'_>, reply: &mut Reply) -> Result<(), Box<Reason>> {
        unwinding(|| match &self.code {
            Code::Func(func) => func(request, reply),
            Code::Phased(func) => func(Phase::Init, request, reply),
            _ => self.answers_otherwise(),
        })
    }

    #[cold]
    fn answers_otherwise(&self) -> FunctionResult {
        Err(match &self.code {
            Code::Deferring(_) => format!("`{}` answers later", self.name),
            Code::Streaming(_) => format!("`{}` takes its data as they come", self.name),
            _ => format!("`{}` is a callback, not a func", self.name),
        }
        .into())
    }

    /// Whether it takes its data as they come.
    pub(super) fn streams(&self) -> bool {
        matches!(self.code, Code::Streaming(_))
    }

    /// What takes the segments of a call, from its beginning.
    pub(super) fn begin(&self, request: &Request<'_>) -> Result<Intake, Box<Reason>> {
        match &self.code {
            Code::Streaming(factory) => unwinding(|| factory(request)).map(Intake::new),
            _ => Err(wrong(format!("`{}` gets its data whole", self.name))),
        }
    }

    /// Executes func: a panic is a failure like any other.
    pub(super) fn execute(&self, request: &Request<'_>, deferred: impl FnOnce() -> Deferred) -> JobResult {
        let result = match &self.code {
            Code::Callback(_) => return self.is_no("func"),
            Code::Deferring(func) => unwinding(|| {
                func(request, deferred());
                Ok(JobResult::Deferred)
            }),
            _ => {
                let mut reply = Reply::default();
                self.answer(request, &mut reply).map(|()| JobResult::Replied(reply))
            }
        };
        result.unwrap_or_else(JobResult::Failed)
    }

    /// Merges a child's reply into `own`.
    pub(super) fn merge(&self, request: &Request<'_>, child: &ChildReply<'_>, mut own: Reply) -> JobResult {
        let merged = match &self.code {
            Code::Callback(callback) => unwinding(|| callback(request, child, &mut own)),
            Code::Phased(func) => unwinding(|| func(Phase::Wait(child), request, &mut own)),
            Code::Func(_) | Code::Deferring(_) | Code::Streaming(_) => return self.is_no("callback"),
        };
        match merged {
            Ok(()) => JobResult::Replied(own),
            Err(reason) => JobResult::Failed(reason),
        }
    }

    /// It cannot do what a call needs it for.
    #[cold]
    fn is_no(&self, needed: &str) -> JobResult {
        JobResult::Refused(wrong(format!("`{}` is a {}, not a {needed}", self.name, self.code.kind_name())))
    }
}

#[cold]
fn wrong(message: String) -> Box<Reason> {
    Box::new(Reason::new(CauseKind::WrongFunction, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_same_handle_everywhere_and_shows_its_kind() {
        let (here, there) = (Functions::new(), Functions::new());
        let one = here.func("one", |_, _| Ok(())).unwrap();
        there.func("other", |_, _| Ok(())).unwrap();
        assert_eq!(there.func("one", |_, _| Ok(())).unwrap(), one);
        assert!(one.number() as i32 > 0 && kind(one.number()) == Some(Kind::Func));
        assert!(there.phased("p", |_, _, _| Ok(())).unwrap().is_phased() && !one.is_phased());
    }

    #[test]
    fn what_cannot_be_registered_or_called_is_said_clearly() {
        let functions = Functions::new();
        let merge = functions.callback("merge", |_, _, _| Ok(())).unwrap();
        let twice = functions.func("merge", |_, _| Ok(())).unwrap_err();
        assert_eq!(twice, FunctionsError::Duplicate("merge".into()));
        assert_eq!(functions.func("", |_, _| Ok(())).unwrap_err(), FunctionsError::Name(0));
        let message = functions.named("merge").unwrap_err().to_string();
        assert_eq!(message, "`merge` is a callback, but a func is needed here");
        let message = functions.check_func(FuncHandle(merge.0)).unwrap_err().to_string();
        assert_eq!(message, "`merge` is a callback, but a func is needed here");
        assert!(functions.named("nothing").unwrap_err().to_string().contains("these are: merge"));
        assert_eq!(functions.check_func(FuncHandle(77)).unwrap_err(), FunctionsError::Unknown(77));
    }
}
