//! Trees of calls: built in, registered, or laid out by the application.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use chained_gpc::runtime::CallTree;
use chained_gpc::trees::SplitName;
use chained_gpc::{Group, Layout, Limits, Registered, TreeName};

use super::callees::{Argument, no_unwind};
use super::pointers::{Pointers, border, handle, object, opaque};
use super::types::{cgpc_children_fn, cgpc_context, cgpc_release_fn, cgpc_split_fn, cgpc_tree};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::handles::{insert, remove};
use crate::status::CGPC_OK;
use crate::trees::CTree;

/// The parent of position 0, the root, in a table of parents.
pub const CGPC_NO_PARENT: u32 = u32::MAX;

/// Maximum number of children that a function of the application may return for one position.
const CHILDREN_MAX: usize = chained_gpc::trees::MAX_FAN_OUT as usize;

/// Stores a tree by its name: "auto" (for each call the one that is predicted to be the fastest), "binary", "binomial",
/// "kary:8", "knomial:4", "chain", "flat", "loggp:2.5", a number from "0" (binary) and "1" (binomial) on, or the name
/// under which a split was registered in this context. Free it with cgpc_tree_free; calls that use it go on. May be
/// called from anywhere; the functions below as well. Errors: CGPC_ERR_TREE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_tree_named(
    context: *mut cgpc_context,
    name: *const c_char,
    tree: *mut *mut cgpc_tree,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let (name, context) = (c.text(name, "name")?, object::<Context, _>(context)?);
            if name == "auto" {
                return store(c, tree, CallTree::Auto);
            }
            let named = context.registry.functions().named_tree(&name.parse::<TreeName>()?)?;
            store(c, tree, named.into())
        })
    }
}

/// Registers a split as a tree under a name, in this process. Each process whose ids are to have children in such a
/// tree registers it under the same name, without a collective step. `release` releases `arg` once: when the tree was
/// released or the context freed, and no call uses it, or now if the registration fails. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_tree_register(
    context: *mut cgpc_context,
    name: *const c_char,
    split: cgpc_split_fn,
    arg: *mut c_void,
    release: cgpc_release_fn,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let argument = Argument::new(arg, release);
            let split = split.ok_or_else(|| Error::argument("`split` is null"))?;
            let context = object::<Context, _>(context)?;
            let registered = Registered::new(c.text(name, "name")?, move |n, groups| {
                let list = |place: *mut u32, capacity| {
                    // SAFETY: the documentation of `cgpc_split_fn` says what the function gets.
                    no_unwind(|| split(n, place, capacity, argument.pointer()))
                };
                let mut start = 1u32;
                // Lengths that do not add up are rejected by the tree.
                for len in listed(list).unwrap_or_default() {
                    groups.push(Group { start, len });
                    start = start.saturating_add(len);
                }
            })?;
            context.registry.functions().tree(registered)?;
            Ok(CGPC_OK)
        })
    }
}

/// Releases a tree that was registered under a name: calls that name it fail here from now on, and calls of others that
/// arrive later fail at this id, with CGPC_KIND_UNKNOWN_TREE. Calls in flight and trees that cgpc_tree_named has stored
/// go on, and the argument is released after the last of them. The name can be registered again. Errors: CGPC_ERR_TREE
/// if no tree is registered under it. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_tree_release(context: *mut cgpc_context, name: *const c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let name: SplitName = c.text(name, "name")?.parse()?;
            object::<Context, _>(context)?.registry.functions().release_tree(&name)?;
            Ok(CGPC_OK)
        })
    }
}

/// Makes a tree of `count` positions from a function that lists the children of each; position i is the i-th id of a
/// call, and position 0 the root. The tree is checked now, and sent with each call, so other processes need not know
/// it. The function is not used afterwards. Free it with cgpc_tree_free. Errors: CGPC_ERR_TREE, with the
/// positions that are wrong. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_tree_from_children(
    count: u32,
    children: cgpc_children_fn,
    arg: *mut c_void,
    tree: *mut *mut cgpc_tree,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.needs(tree, "tree")?;
            let children = children.ok_or_else(|| Error::argument("`children` is null"))?;
            let failed = Cell::new(None);
            let ask = |position: u32, out: &mut Vec<u32>| {
                // SAFETY: the documentation of `cgpc_children_fn` says what the function gets.
                let list = |place, capacity| no_unwind(|| children(position, count, place, capacity, arg));
                match listed(list) {
                    Ok(positions) => out.extend(positions),
                    Err(error) => failed.set(Some(error)),
                }
            };
            let layout = Layout::from_children(count, ask, &Limits::default());
            match failed.take() {
                Some(error) => Err(error),
                None => store(c, tree, layout?.into()),
            }
        })
    }
}

/// Makes a tree of `count` positions from the parent of each; CGPC_NO_PARENT for position 0. As
/// cgpc_tree_from_children. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_tree_from_parents(
    parents: *const u32,
    count: usize,
    tree: *mut *mut cgpc_tree,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.needs(tree, "tree")?;
            let parents = c.items(parents, count, "parents")?.iter();
            let parents: Vec<Option<u32>> =
                parents.map(|&parent| (parent != CGPC_NO_PARENT).then_some(parent)).collect();
            store(c, tree, Layout::from_parents(&parents, &Limits::default())?.into())
        })
    }
}

/// Frees a tree. Calls that use it go on. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_tree_free(tree: *mut cgpc_tree) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            remove::<CTree>(handle(tree))?;
            Ok(CGPC_OK)
        })
    }
}

fn store(c: &Pointers<'_>, place: *mut *mut cgpc_tree, tree: CallTree) -> Result<c_int> {
    c.needs(place, "tree")?;
    c.store(place, opaque(insert(Arc::new(CTree(tree)))?), "tree")?;
    Ok(CGPC_OK)
}

/// Asks a function of the application for a list: with room for a few numbers, then with as much as it needs.
fn listed(list: impl Fn(*mut u32, usize) -> usize) -> Result<Vec<u32>> {
    let mut numbers = vec![0; 64];
    // Terminates: the second answer must fit.
    for _ in 0..2 {
        let count = list(numbers.as_mut_ptr(), numbers.len());
        if count <= numbers.len() {
            numbers.truncate(count);
            return Ok(numbers);
        }
        if count > CHILDREN_MAX {
            break;
        }
        numbers.resize(count, 0);
    }
    Err(Error::new(
        crate::status::CGPC_ERR_TREE,
        format!("a position has at most {CHILDREN_MAX} children, always the same"),
    ))
}
