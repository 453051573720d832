//! The table of functions that calls name: registered under a name, and identified everywhere by a
//! [handle](super::handles) made of that name.
//!
//! Source: the ARMCI design of chained GPC (2007), "Interface and parameters" (func, callback) and "Alternative
//! approach" (one function with phases).

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use gpc_trees::sorting::sort_by;
use gpc_trees::{Id, Registered, Registry, SplitName, Tree, TreeName};
use tracing::{Level, debug_span, level_enabled};

use super::access::Access;
use super::function_error::{FunctionError, FunctionResult, unwinding};
use super::functions_error::FunctionsError;
use super::handles::{CallbackHandle, FuncHandle, Merges, number};
use super::placement::Placement;
use super::quick_hash::QuickHash;
use super::request::{ChildReply, Deferred, Request};
use super::stream::{self, DataReceiver, Factory, Streaming};
use super::{membership_function, metrics_function, recorder_function};
use crate::branch_hint::unlikely;
use crate::chain::{JobResult, Reply};
use crate::link::peering::Proof;
use crate::reduce::Reduction;
use crate::wire::message::{Classes, Merging};
use crate::wire::{CauseKind, Reason};

type Func = dyn Fn(&Request<'_>, &mut Reply) -> FunctionResult + Send + Sync;
type Callback = dyn Fn(&Request<'_>, &ChildReply<'_>, &mut Reply) -> FunctionResult + Send + Sync;
type PhasedFunc = dyn Fn(Phase<'_>, &Request<'_>, &mut Reply) -> FunctionResult + Send + Sync;
type DeferringFunc = dyn Fn(&Request<'_>, Deferred) + Send + Sync;

/// The phase for which a registered function with phases is called.
///
/// Source: the ARMCI design of chained GPC (2007), "Alternative approach": GPC_INIT corresponds to func, GPC_WAIT to
/// callback.
#[derive(Clone, Copy, Debug)]
pub enum Phase<'a> {
    /// Execute.
    Init,
    /// Merge this child's reply into the node's own.
    Wait(&'a ChildReply<'a>),
}

/// One registered function.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) name: Arc<str>,
    pub(super) placement: Placement,
    pub(super) inline: Inline,
    access: Access,
    merging: Merging,
    code: Code,
}

/// Where a function may run on the fast path. A restricted function may not: its requests are checked first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inline {
    /// Never.
    Never,
    /// On nodes whose default workers are the thread that drives the node.
    OnDrivingThread,
    /// On any node.
    Always,
}

impl Inline {
    fn of(placement: &Placement, access: &Access, code: &Code) -> Inline {
        // Their reply is complete when they return.
        let answers_at_its_end = matches!(code, Code::Func(_) | Code::Phased(_));
        match placement {
            _ if !answers_at_its_end || *access != Access::Anyone => Inline::Never,
            Placement::Default => Inline::OnDrivingThread,
            Placement::Inline => Inline::Always,
            Placement::Executor(_) => Inline::Never,
        }
    }
}

#[derive(Clone)]
enum Code {
    Func(Arc<Func>),
    Callback(Arc<Callback>),
    Phased(Arc<PhasedFunc>),
    Deferring(Arc<DeferringFunc>),
    Streaming(Arc<Factory>),
}

/// The kind of a function, as far as calls distinguish kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Func,
    Callback,
    Phased,
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

struct Tables {
    /// By the numbers of the registered names.
    entries: HashMap<u64, Entry, QuickHash>,
    trees: Registry,
}

impl Default for Tables {
    /// With the built-in functions.
    fn default() -> Tables {
        let built_in: [(&str, Arc<DeferringFunc>); 3] = [
            (membership_function::NAME, Arc::new(membership_function::change)),
            (recorder_function::NAME, Arc::new(recorder_function::report)),
            (metrics_function::NAME, Arc::new(metrics_function::report)),
        ];
        let entries = built_in.into_iter().map(|(name, code)| {
            let (placement, access, merging) = (Placement::Inline, Access::Anyone, Merging::default());
            let code = Code::Deferring(code);
            let (name, inline) = (Arc::<str>::from(name), Inline::Never);
            (number(&name), Entry { name, placement, inline, access, merging, code })
        });
        Tables { entries: entries.collect(), trees: Registry::default() }
    }
}

impl Tables {
    /// The function of a handle, if it is of one of these kinds.
    fn check(&self, handle: u64, needed: &'static str, kinds: &[Kind]) -> Result<&Entry, FunctionsError> {
        let entry = self.entries.get(&handle).ok_or(FunctionsError::Unknown(handle))?;
        if kinds.contains(&entry.code.kind()) {
            return Ok(entry);
        }
        Err(FunctionsError::OtherKind { name: entry.name.to_string(), is: entry.code.kind_name(), needed })
    }

    /// The func of a handle.
    fn func(&self, func: FuncHandle) -> Result<&Entry, FunctionsError> {
        match func.is_phased() {
            true => self.check(func.number(), "func with phases", &[Kind::Phased]),
            false => self.check(func.number(), "func", &[Kind::Func]),
        }
    }
}

/// The functions and trees of a process. Clones share them; any thread may register at any time.
///
/// ```
/// use chained_gpc::{Functions, Placement};
///
/// let functions = Functions::new();
/// let count = functions.at(Placement::Inline).func("count", |request, reply| {
///     reply.data = request.data().len().to_string().into_bytes();
///     Ok(())
/// })?;
/// # let _ = count;
/// # Ok::<(), chained_gpc::FunctionsError>(())
/// ```
#[derive(Clone, Default)]
pub struct Functions {
    tables: Arc<RwLock<Tables>>,
    /// Placement of the functions that are registered through this value.
    placement: Placement,
    access: Access,
}

impl Functions {
    /// Creates an empty table.
    pub fn new() -> Functions {
        Functions::default()
    }

    /// Returns the same table, with a placement for the functions that are registered through it. The default is
    /// [`Placement::Default`].
    #[must_use]
    pub fn at(&self, placement: Placement) -> Functions {
        Functions { placement, ..self.clone() }
    }

    /// Returns the same table, with an access rule for the functions that are registered through it. The default is
    /// [any link](Access::Anyone).
    ///
    /// A callback is checked as well, at each id that would run it. A rejected request fails with
    /// [`NotAuthorised`](CauseKind::NotAuthorised), and no part of it runs. Requests of restricted functions do not
    /// take the fast path.
    #[must_use]
    pub fn access(&self, access: Access) -> Functions {
        Functions { access, ..self.clone() }
    }

    /// Registers a func, which a call executes at each id: it reads the request and fills the id's own reply.
    ///
    /// # Errors
    /// [`FunctionsError::Duplicate`], [`Clash`](FunctionsError::Clash) or [`Name`](FunctionsError::Name).
    pub fn func<F>(&self, name: &str, func: F) -> Result<FuncHandle, FunctionsError>
    where
        F: Fn(&Request<'_>, &mut Reply) -> FunctionResult + Send + Sync + 'static,
    {
        self.add(name, Code::Func(Arc::new(func))).map(|()| FuncHandle::named(name))
    }

    /// Registers a callback, which merges a child's reply into the id's own: one child after the other, in list order.
    /// A reply that arrives early waits until those before it have been merged. A [commutative](Self::commutative)
    /// callback gets replies in the order of their arrival. (The ARMCI design merges each response as it comes.)
    ///
    /// ```
    /// use chained_gpc::{Call, Functions, LinkKind, LocalNodes, Tree};
    ///
    /// let functions = Functions::new();
    /// let name = functions.func("name", |request, reply| {
    ///     reply.data = request.me().to_string().into_bytes();
    ///     Ok(())
    /// })?;
    /// // Not commutative: the result depends on the order.
    /// let join = functions.callback("join", |_request, child, own| {
    ///     own.data.push(b' ');
    ///     own.data.extend_from_slice(child.data);
    ///     Ok(())
    /// })?;
    /// let nodes = LocalNodes::start(6, LinkKind::Unix, &functions)?;
    /// let call = Call::new(name).callback(join).ids([0, 5, 4, 3, 2, 1]).tree(Tree::Binomial);
    /// assert_eq!(nodes.root().call(call)?.wait()?.data(), "0 5 4 3 2 1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`func`](Self::func).
    pub fn callback<F>(&self, name: &str, callback: F) -> Result<CallbackHandle, FunctionsError>
    where
        F: Fn(&Request<'_>, &ChildReply<'_>, &mut Reply) -> FunctionResult + Send + Sync + 'static,
    {
        self.add(name, Code::Callback(Arc::new(callback))).map(|()| CallbackHandle::named(name))
    }

    /// Registers a ready callback, such as a sum, under its [name](Reduction::name): see [`reduce`](crate::reduce). One
    /// that is registered already is returned.
    ///
    /// # Errors
    /// [`FunctionsError::OtherKind`] or [`Clash`](FunctionsError::Clash) if another function has the name.
    pub fn reduction(&self, reduction: Reduction) -> Result<CallbackHandle, FunctionsError> {
        let name = reduction.name();
        let merge = move |_: &Request<'_>, child: &ChildReply<'_>, own: &mut Reply| {
            let merged = reduction.merge(&mut own.data, child.data);
            merged.map_err(|error| format!("the reply of id {}: {error}", child.from).into())
        };
        let callback = match self.callback(&name, merge) {
            Err(FunctionsError::Duplicate(_)) => return self.named_callback(&name),
            registered => registered?,
        };
        match reduction.is_commutative() {
            true => self.commutative(callback),
            false => Ok(callback),
        }
    }

    /// Declares that the result of a callback, or of a func with phases, is independent of the order of the replies. It
    /// then gets them in the order of their arrival, so a late child does not delay the others.
    ///
    /// Each process declares it separately; one that does not merges in list order.
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
    /// [`FunctionsError::Unknown`] if it is not registered here, [`OtherKind`](FunctionsError::OtherKind) for a func
    /// without phases.
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

    /// Registers one function for both phases: with [`Phase::Init`] it executes, with [`Phase::Wait`] it merges.
    ///
    /// ```
    /// use chained_gpc::{Call, Functions, LinkKind, LocalNodes, Phase};
    ///
    /// let functions = Functions::new();
    /// let count = functions.phased("count", |phase, _request, own| {
    ///     match phase {
    ///         Phase::Init => own.data = vec![1],
    ///         Phase::Wait(child) => own.data[0] += child.data[0],
    ///     }
    ///     Ok(())
    /// })?;
    /// let nodes = LocalNodes::start(5, LinkKind::Unix, &functions)?;
    /// assert_eq!(nodes.root().call(Call::new(count).ids(0..5))?.wait()?.data(), &[5][..]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`func`](Self::func).
    pub fn phased<F>(&self, name: &str, func: F) -> Result<FuncHandle, FunctionsError>
    where
        F: Fn(Phase<'_>, &Request<'_>, &mut Reply) -> FunctionResult + Send + Sync + 'static,
    {
        self.add(name, Code::Phased(Arc::new(func))).map(|()| FuncHandle::phased(name))
    }

    /// Registers a func that replies later: it keeps the token, returns, and sends the reply from any thread.
    ///
    /// # Errors
    /// As for [`func`](Self::func).
    pub fn deferring<F>(&self, name: &str, func: F) -> Result<FuncHandle, FunctionsError>
    where
        F: Fn(&Request<'_>, Deferred) + Send + Sync + 'static,
    {
        self.add(name, Code::Deferring(Arc::new(func))).map(|()| FuncHandle::named(name))
    }

    /// Registers a func that processes its data while they arrive: `begin` gets the request and returns a
    /// [`Streaming`], which receives the segments.
    ///
    /// In a call that [forwards first](super::Call::forward_first), a node holds at most a window of the data, and is
    /// as fast as the slowest node of its subtree. In any other call the data are retained for the children, which get
    /// them after func has ended. In a [partial](super::Call::partial) call they are retained for an adopter. Functions
    /// of other calls may run between two segments.
    ///
    /// The handle equals that of a [`func`](Self::func) of the same name: each process chooses the form separately.
    ///
    /// # Errors
    /// As for [`func`](Self::func).
    pub fn streaming<F, S>(&self, name: &str, begin: F) -> Result<FuncHandle, FunctionsError>
    where
        F: Fn(&Request<'_>) -> Result<S, FunctionError> + Send + Sync + 'static,
        S: Streaming,
    {
        self.add(name, Code::Streaming(stream::factory(begin))).map(|()| FuncHandle::named(name))
    }

    /// Registers a split as a tree, by its name.
    ///
    /// ```
    /// use chained_gpc::{Call, Functions, Group, LinkKind, LocalNodes, Registered, Tree};
    ///
    /// let functions = Functions::new();
    /// let parent = functions.func("parent", |request, reply| {
    ///     reply.data = format!("{:?}", request.parent()).into_bytes();
    ///     Ok(())
    /// })?;
    /// // In a slice of n ids, the first of which is the receiver, each other id is a child.
    /// let star = Registered::new("star", |n, groups| groups.extend((1..n).map(|start| Group { start, len: 1 })))?;
    /// functions.tree(star.clone())?;
    /// let nodes = LocalNodes::start(4, LinkKind::Unix, &functions)?;
    /// let call = Call::new(parent).ids(0..4).tree(Tree::Registered(star));
    /// assert_eq!(nodes.root().call(call)?.wait()?.reply(3).expect("it is done").data, b"Some(0)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`FunctionsError::Tree`] if the name or its id is taken.
    pub fn tree(&self, split: Registered) -> Result<(), FunctionsError> {
        Ok(self.write(|tables| tables.trees.register(split))?)
    }

    /// Removes a registered split. Requests that arrive later and name this tree fail at this id; calls in flight go
    /// on. The name can be registered again.
    ///
    /// # Errors
    /// If no split has the name.
    pub fn release_tree(&self, name: &SplitName) -> Result<(), gpc_trees::UnknownTree> {
        let released = self.write(|tables| tables.trees.remove(name))?;
        // Dropped without the lock: it may run code of the application.
        drop(released);
        Ok(())
    }

    /// Removes all registered splits: see [`release_tree`](Self::release_tree).
    pub fn release_all_trees(&self) {
        drop(self.write(|tables| tables.trees.remove_all()));
    }

    /// Returns the tree of this name: a built-in one, or one registered here.
    ///
    /// # Errors
    /// If no tree has the name, or it is that of a file.
    pub fn named_tree(&self, name: &TreeName) -> Result<Tree, gpc_trees::UnknownTree> {
        self.read(|tables| tables.trees.named(name))
    }

    /// Returns the handle of a func (with phases or without) by its name.
    ///
    /// # Errors
    /// [`FunctionsError::UnknownName`], or [`OtherKind`](FunctionsError::OtherKind) for a callback.
    pub fn named(&self, name: &str) -> Result<FuncHandle, FunctionsError> {
        let number = self.registered(name)?;
        self.check(number, "func", &[Kind::Func, Kind::Phased])?;
        let phased = self
            .read(|tables| tables.entries.get(&number).map(|entry| entry.code.kind()) == Some(Kind::Phased));
        Ok(if phased { FuncHandle::phased(name) } else { FuncHandle::named(name) })
    }

    /// Returns the handle of a callback by its name.
    ///
    /// # Errors
    /// [`FunctionsError::UnknownName`], or [`OtherKind`](FunctionsError::OtherKind) for a func.
    pub fn named_callback(&self, name: &str) -> Result<CallbackHandle, FunctionsError> {
        let handle = CallbackHandle::named(name);
        self.registered(name)?;
        self.check_callback(handle).map(|()| handle)
    }

    /// The registered names, in order, without those of [reductions](Self::reduction).
    pub fn names(&self) -> Vec<String> {
        let built_in = [membership_function::NAME, recorder_function::NAME, metrics_function::NAME];
        let own = |entry: &&Entry| !built_in.contains(&&*entry.name);
        let mut names: Vec<String> = self.read(|tables| {
            let entries = tables.entries.values().filter(own);
            entries
                .filter(|entry| !Reduction::is_name(&entry.name))
                .map(|entry| entry.name.to_string())
                .collect()
        });
        sort_by(&mut names, Ord::cmp);
        names
    }

    /// The names of the registered splits, in order.
    pub fn tree_names(&self) -> Vec<SplitName> {
        let mut names = self.read(|tables| tables.trees.names().cloned().collect::<Vec<_>>());
        sort_by(&mut names, |one, other| one.as_str().cmp(other.as_str()));
        names
    }

    /// Checks that this node can run a func with this handle.
    #[cfg(test)]
    pub(super) fn check_func(&self, func: FuncHandle) -> Result<(), FunctionsError> {
        self.read(|tables| tables.func(func).map(drop))
    }

    pub(super) fn check_callback(&self, callback: CallbackHandle) -> Result<(), FunctionsError> {
        self.check(callback.number(), "callback", &[Kind::Callback])
    }

    /// The name of a number, if it is registered here.
    pub(super) fn name(&self, number: u64) -> Option<Arc<str>> {
        self.read(|tables| tables.entries.get(&number).map(|entry| entry.name.clone()))
    }

    /// Checks that this node can start a call of these functions; returns their classes, and the order in which
    /// callback merges. A caller that only watches need not know func, unless func merges.
    pub(super) fn of_call(
        &self,
        func: FuncHandle,
        callback: Option<CallbackHandle>,
        watch: bool,
        class: impl Fn(&Placement) -> u8,
    ) -> Result<(Classes, Merging), FunctionsError> {
        self.read(|tables| {
            let mut classes = Classes::default();
            let mut merging = Merging::default();
            match tables.func(func) {
                Ok(entry) => classes.func = class(&entry.placement),
                Err(FunctionsError::Unknown(_)) if watch && !func.is_phased() => {}
                Err(error) => return Err(error),
            }
            let merges = match callback {
                Some(_) if func.is_phased() => {
                    let name = tables.entries.get(&func.number()).map(|entry| entry.name.to_string());
                    return Err(FunctionsError::MergesItself(name.unwrap_or_default()));
                }
                Some(callback) => Some(tables.check(callback.number(), "callback", &[Kind::Callback])?),
                None if func.is_phased() => tables.entries.get(&func.number()),
                None => None,
            };
            if let Some(entry) = merges {
                (classes.callback, merging) = (class(&entry.placement), entry.merging);
            }
            Ok((classes, merging))
        })
    }

    /// The classes of functions; 0 for those that are unknown here.
    pub(super) fn classes(
        &self,
        func: u64,
        callback: Option<u64>,
        class: impl Fn(&Placement) -> u8,
    ) -> Classes {
        self.read(|tables| {
            let class = |number| tables.entries.get(&number).map_or(0, |entry| class(&entry.placement));
            Classes { func: class(func), callback: callback.map_or(0, class) }
        })
    }

    /// Whether a func is a streaming one.
    pub(super) fn streams(&self, func: u64) -> bool {
        self.read(|tables| tables.entries.get(&func).is_some_and(Entry::streams))
    }

    /// The order in which a callback merges replies here.
    pub(super) fn merging(&self, callback: u64) -> Merging {
        self.read(|tables| tables.entries.get(&callback).map_or(Merging::default(), |entry| entry.merging))
    }

    /// Checks that an id whose link has this proof may send a request of these functions. Unknown functions are
    /// rejected later.
    ///
    /// # Errors
    /// If it may not, with what to do about it.
    pub(super) fn permit(
        &self,
        func: u64,
        callback: Option<u64>,
        proof: Proof,
        from: Id,
    ) -> Result<(), Reason> {
        self.read(|tables| {
            let mut entries =
                [Some(func), callback].into_iter().flatten().filter_map(|number| tables.entries.get(&number));
            match entries.find(|entry| !entry.access.admits(proof, from)) {
                Some(entry) => Err(entry.access.refusal(&entry.name, proof, from)),
                None => Ok(()),
            }
        })
    }

    pub(super) fn tree_by_id(&self, id: u64) -> Option<Tree> {
        self.read(|tables| tables.trees.from_wire(id, 0).ok())
    }

    pub(super) fn entry(&self, handle: u64) -> Result<Entry, FunctionsError> {
        self.read(|tables| tables.entries.get(&handle).cloned()).ok_or(FunctionsError::Unknown(handle))
    }

    fn registered(&self, name: &str) -> Result<u64, FunctionsError> {
        let number = number(name);
        match self.read(|tables| tables.entries.get(&number).is_some_and(|entry| &*entry.name == name)) {
            true => Ok(number),
            false => Err(FunctionsError::UnknownName(name.into(), self.names().join(", "))),
        }
    }

    fn check(&self, handle: u64, needed: &'static str, kinds: &[Kind]) -> Result<(), FunctionsError> {
        self.read(|tables| tables.check(handle, needed, kinds).map(drop))
    }

    fn add(&self, name: &str, code: Code) -> Result<(), FunctionsError> {
        if !(1..=255).contains(&name.len()) {
            return Err(FunctionsError::Name(name.len()));
        }
        self.write(|tables| match tables.entries.entry(number(name)) {
            Slot::Occupied(old) if *old.get().name == *name => Err(FunctionsError::Duplicate(name.into())),
            Slot::Occupied(old) => {
                Err(FunctionsError::Clash { old: old.get().name.to_string(), new: name.into() })
            }
            Slot::Vacant(free) => {
                let Functions { placement, access, .. } = self.clone();
                let (inline, merging) = (Inline::of(&placement, &access, &code), Merging::default());
                free.insert(Entry { name: name.into(), placement, inline, access, merging, code });
                Ok(())
            }
        })
    }

    /// A panic cannot leave the tables partly changed, so a poisoned lock is usable.
    fn read<T>(&self, look: impl FnOnce(&Tables) -> T) -> T {
        look(&self.tables.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, change: impl FnOnce(&mut Tables) -> T) -> T {
        change(&mut self.tables.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Functions").field(&self.names()).finish()
    }
}

impl Entry {
    /// Runs a func whose reply is complete when it returns, on an empty reply.
    #[inline(always)]
    pub(super) fn answer(&self, request: &Request<'_>, reply: &mut Reply) -> Result<(), Box<Reason>> {
        let mut run = || {
            unwinding(|| match &self.code {
                Code::Func(func) => func(request, reply),
                Code::Phased(func) => func(Phase::Init, request, reply),
                _ => self.answers_otherwise(),
            })
            .inspect(|()| settle(reply))
        };
        if unlikely(level_enabled!(Level::DEBUG)) { self.span(request).in_scope(run) } else { run() }
    }

    /// The span of a function that runs: the id of the call joins those of all nodes.
    #[inline(always)]
    pub(super) fn span(&self, request: &Request<'_>) -> tracing::Span {
        debug_span!("call", call = %request.call(), id = request.me(), func = %self.name)
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

    /// Whether it is a streaming func.
    pub(super) fn streams(&self) -> bool {
        matches!(self.code, Code::Streaming(_))
    }

    /// Returns the receiver of a call's segments, from the first one on.
    pub(super) fn begin(&self, request: &Request<'_>) -> Result<DataReceiver, Box<Reason>> {
        match &self.code {
            Code::Streaming(factory) => unwinding(|| factory(request)).map(DataReceiver::new),
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
        own.own_data();
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

    /// The result if the function is not of the kind that the call needs.
    #[cold]
    fn is_no(&self, needed: &str) -> JobResult {
        JobResult::Refused(wrong(format!("`{}` is a {}, not a {needed}", self.name, self.code.kind_name())))
    }
}

#[cold]
fn wrong(message: String) -> Box<Reason> {
    Box::new(Reason::new(CauseKind::WrongFunction, message))
}

/// Shared parts are rare in a function's reply.
#[inline(always)]
fn settle(reply: &mut Reply) {
    if unlikely(!reply.shared.is_empty()) {
        reply.settle();
    }
}

#[cfg(test)]
mod tests;
