//! The functions of a context: registered at any time, and released at any time.
//!
//! The table of the library keeps a function for ever. A release takes the code out of its slot there: calls of a
//! released function fail at this id, and the name can be registered again.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use chained_gpc::runtime::{FunctionError, FunctionResult};
use chained_gpc::{
    Access, CallbackHandle, ChildReply, Deferred, FuncHandle, Functions, Phase, Placement, Reply, Request,
    Streaming,
};

use crate::error::{Error, Result};
use crate::status::CGPC_ERR_FUNCTION;

type Func = dyn Fn(&Request<'_>, &mut Reply) -> FunctionResult + Send + Sync;
type Callback = dyn Fn(&Request<'_>, &ChildReply<'_>, &mut Reply) -> FunctionResult + Send + Sync;
type Phased = dyn Fn(Phase<'_>, &Request<'_>, &mut Reply) -> FunctionResult + Send + Sync;
type Deferring = dyn Fn(&Request<'_>, Deferred) + Send + Sync;
type Begin = dyn Fn(&Request<'_>) -> std::result::Result<Box<dyn Streaming>, FunctionError> + Send + Sync;

/// The code of a function.
pub(crate) enum Code {
    Func(Box<Func>),
    Callback(Box<Callback>),
    Phased(Box<Phased>),
    Deferring(Box<Deferring>),
    Streaming(Box<Begin>),
}

/// The form of a function: which code it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Func,
    Callback,
    Phased,
    Deferring,
    Streaming,
}

impl Code {
    fn form(&self) -> Form {
        match self {
            Code::Func(_) => Form::Func,
            Code::Callback(_) => Form::Callback,
            Code::Phased(_) => Form::Phased,
            Code::Deferring(_) => Form::Deferring,
            Code::Streaming(_) => Form::Streaming,
        }
    }
}

/// Where a function runs, who may call it, and in which order it merges.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Terms {
    pub(crate) placement: Placement,
    pub(crate) access: Access,
    pub(crate) commutative: bool,
}

/// The place of a function's code in the library's table.
struct Slot {
    name: Box<str>,
    code: RwLock<Option<Arc<Code>>>,
}

impl Slot {
    /// The code, which lives until its run ends, even if it is released meanwhile.
    fn code(&self) -> std::result::Result<Arc<Code>, FunctionError> {
        let code = self.code.read().unwrap_or_else(PoisonError::into_inner);
        code.clone().ok_or_else(|| format!("`{}` was released at this id", self.name).into())
    }
}

/// A known name.
struct Entry {
    name: Box<str>,
    merges: bool,
    /// The handles of the name, so that a call does not hash it.
    func: FuncHandle,
    phased: FuncHandle,
    callback: CallbackHandle,
    registered: Option<Registered>,
}

impl Entry {
    fn new(name: &str, merges: bool, registered: Option<Registered>) -> Entry {
        let (func, phased) = (FuncHandle::named(name), FuncHandle::phased(name));
        Entry { name: name.into(), merges, func, phased, callback: CallbackHandle::named(name), registered }
    }
}

/// A name with a slot here.
struct Registered {
    form: Form,
    terms: Terms,
    slot: Arc<Slot>,
}

/// The functions of one context, by their numbers.
#[derive(Default)]
pub(crate) struct Registry {
    functions: Functions,
    entries: RwLock<HashMap<u64, Entry, BuildHasherDefault<ByNumber>>>,
}

/// A function's number is a hash of its name, which this process chooses: no other hash is needed.
#[derive(Default)]
struct ByNumber(u64);

impl Hasher for ByNumber {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Numbers come as `u64`.
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

fn error(message: String) -> Error {
    Error::new(CGPC_ERR_FUNCTION, message)
}

impl Registry {
    /// A registry that adds its functions to this table.
    #[cfg(feature = "plugins")]
    pub(crate) fn of(functions: &Functions) -> Registry {
        Registry { functions: functions.clone(), ..Registry::default() }
    }

    /// The library's table, for the node.
    pub(crate) fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Registers a function, and returns its number.
    ///
    /// # Errors
    /// If the name is taken or invalid, or was registered before in another form or on other terms.
    pub(crate) fn register(&self, name: &str, code: Code, terms: Terms) -> Result<u64> {
        let (number, form) = (FuncHandle::named(name).number(), code.form());
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let old = entries.get(&number).and_then(|entry| entry.registered.as_ref().map(|old| (entry, old)));
        let Some((entry, old)) = old else {
            let slot = Arc::new(Slot { name: name.into(), code: RwLock::new(Some(Arc::new(code))) });
            self.add(&slot, form, &terms)?;
            let registered = Some(Registered { form, terms, slot });
            entries.insert(number, Entry::new(name, form == Form::Phased, registered));
            return Ok(number);
        };
        let mut place = old.slot.code.write().unwrap_or_else(PoisonError::into_inner);
        if place.is_some() || *entry.name != *name {
            return Err(error(format!("a function named `{}` is registered already", entry.name)));
        }
        if (old.form, &old.terms) != (form, &terms) {
            return Err(error(format!(
                "`{name}` was released, and can be registered again only in the same form, with the same options"
            )));
        }
        *place = Some(Arc::new(code));
        Ok(number)
    }

    /// Adds a slot to the library's table.
    fn add(&self, slot: &Arc<Slot>, form: Form, terms: &Terms) -> Result<()> {
        let functions = self.functions.at(terms.placement.clone()).access(terms.access.clone());
        let (name, slot) = (&*slot.name, slot.clone());
        match form {
            Form::Func => drop(functions.func(name, move |request, reply| match &*slot.code()? {
                Code::Func(func) => func(request, reply),
                _ => Ok(()),
            })?),
            Form::Callback => {
                let callback =
                    functions.callback(name, move |request, child, own| match &*slot.code()? {
                        Code::Callback(callback) => callback(request, child, own),
                        _ => Ok(()),
                    })?;
                if terms.commutative {
                    functions.commutative(callback)?;
                }
            }
            Form::Phased => {
                let phased = functions.phased(name, move |phase, request, own| match &*slot.code()? {
                    Code::Phased(phased) => phased(phase, request, own),
                    _ => Ok(()),
                })?;
                if terms.commutative {
                    functions.commutative(phased)?;
                }
            }
            Form::Deferring => drop(functions.deferring(name, move |request, token| match slot.code() {
                Ok(code) => {
                    if let Code::Deferring(deferring) = &*code {
                        deferring(request, token);
                    }
                }
                Err(released) => token.fail(released),
            })?),
            Form::Streaming => drop(functions.streaming(name, move |request| match &*slot.code()? {
                Code::Streaming(begin) => begin(request),
                _ => Err("not a streaming function".into()),
            })?),
        }
        Ok(())
    }

    /// Releases a function: its code is dropped once no call runs it.
    ///
    /// # Errors
    /// If no function with this number is registered here.
    pub(crate) fn release(&self, number: u64) -> Result<()> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let registered = entries.get(&number).and_then(|entry| entry.registered.as_ref());
        let code = registered.and_then(|registered| {
            registered.slot.code.write().unwrap_or_else(PoisonError::into_inner).take()
        });
        drop(entries);
        // Dropped without a lock: it may run the application's destructor.
        code.map(drop)
            .ok_or_else(|| error(format!("no function with the number {number:#x} is registered here")))
    }

    /// Releases all functions and trees, when the node has ended.
    pub(crate) fn release_all(&self) {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let slots = entries.values().filter_map(|entry| entry.registered.as_ref());
        let codes: Vec<_> =
            slots.map(|old| old.slot.code.write().unwrap_or_else(PoisonError::into_inner).take()).collect();
        drop(entries);
        // Dropped without a lock, as in `release`.
        drop(codes);
        self.functions.release_all_trees();
    }

    /// Makes the number of a name known, so that calls can name a function that is not registered here.
    ///
    /// # Errors
    /// If another name has the number, or the function merges here and not as `merges` says.
    pub(crate) fn know(&self, name: &str, merges: bool) -> Result<u64> {
        if !(1..=255).contains(&name.len()) {
            return Err(error(format!("a function's name has 1 to 255 bytes; this one has {}", name.len())));
        }
        let number = FuncHandle::named(name).number();
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.entry(number).or_insert_with(|| Entry::new(name, merges, None));
        match &entry.registered {
            _ if *entry.name != *name => {
                Err(error(format!("the names `{name}` and `{}` have the same number", entry.name)))
            }
            Some(registered) if merges != (registered.form == Form::Phased) => {
                Err(error(format!("`{name}` is registered here in another form")))
            }
            _ => {
                entry.merges = merges;
                Ok(number)
            }
        }
    }

    /// The handle of a func by its number.
    ///
    /// # Errors
    /// If the number is unknown here.
    pub(crate) fn func(&self, number: u64) -> Result<FuncHandle> {
        self.entry(number, |entry| if entry.merges { entry.phased } else { entry.func })
    }

    /// The handle of a callback by its number.
    ///
    /// # Errors
    /// If the number is unknown here.
    pub(crate) fn callback(&self, number: u64) -> Result<CallbackHandle> {
        self.entry(number, |entry| entry.callback)
    }

    fn entry<T>(&self, number: u64, look: impl FnOnce(&Entry) -> T) -> Result<T> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.get(&number).map(look).ok_or_else(|| {
            error(format!(
                "no function with the number {number:#x} is known here: register it, or name it with cgpc_function_named"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(data: &'static [u8]) -> Code {
        Code::Func(Box::new(move |_, reply| {
            reply.data = data.to_vec();
            Ok(())
        }))
    }

    #[test]
    fn a_name_is_registered_once_and_again_after_its_release() {
        let registry = Registry::default();
        let number = registry.register("a", code(b"1"), Terms::default()).unwrap();
        let twice = registry.register("a", code(b"2"), Terms::default()).unwrap_err();
        assert_eq!((twice.status, twice.message.contains("already")), (CGPC_ERR_FUNCTION, true));
        registry.release(number).unwrap();
        assert!(registry.release(number).is_err());
        let inline = Terms { placement: Placement::Inline, ..Terms::default() };
        assert!(registry.register("a", code(b"3"), inline).is_err());
        assert_eq!(registry.register("a", code(b"4"), Terms::default()).unwrap(), number);
    }

    #[test]
    fn a_number_names_what_is_known() {
        let registry = Registry::default();
        assert!(registry.func(7).is_err());
        let number = registry.know("far", true).unwrap();
        assert_eq!(registry.func(number).unwrap(), FuncHandle::phased("far"));
        assert_eq!(registry.know("far", false).unwrap(), number);
        assert_eq!(registry.func(number).unwrap(), FuncHandle::named("far"));
        registry.register("far", code(b""), Terms::default()).unwrap();
        assert!(registry.know("far", true).is_err());
        assert!(registry.know("", false).is_err() && registry.know(&"x".repeat(256), false).is_err());
    }

    #[test]
    fn a_release_drops_the_code_once() {
        let dropped = Arc::new(());
        let (registry, held) = (Registry::default(), dropped.clone());
        let code = Code::Func(Box::new(move |_, _| {
            let _ = &held;
            Ok(())
        }));
        let number = registry.register("a", code, Terms::default()).unwrap();
        assert_eq!(Arc::strong_count(&dropped), 2);
        registry.release(number).unwrap();
        assert_eq!(Arc::strong_count(&dropped), 1);
    }
}
