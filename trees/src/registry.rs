//! The trees that a node knows, by name and by wire id: the built-in ones and its registered splits.
//!
//! Source: the chained GPC text, user-defined tree ids.

use crate::name::TreeName;
use crate::registered::{Registered, tree_id};
use crate::split_name::SplitName;
use crate::tree::Tree;
use std::collections::BTreeMap;
use std::fmt;

/// The registered splits of a node, by name and by id.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    splits: BTreeMap<u64, Registered>,
}

/// Why a split was not registered.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name is registered already.
    Duplicate {
        /// The name.
        name: SplitName,
    },
    /// Another name has the same id: rename one of the two.
    SameId {
        /// The rejected name.
        name: SplitName,
        /// The name that is registered.
        registered: SplitName,
        /// The id of both.
        id: u64,
    },
}

/// A name or a wire id of an unknown tree.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum UnknownTree {
    /// No split of this name is registered.
    Name {
        /// The name.
        name: SplitName,
        /// The registered names.
        registered: Vec<SplitName>,
    },
    /// A file must be read and laid out first, with [`Layout::parse`](crate::Layout::parse) or
    /// [`Hosts::layout`](crate::Hosts::layout).
    File {
        /// Its path.
        path: String,
    },
    /// The tree must be laid out first, over hosts that only the caller knows.
    Hosts,
    /// No tree has this id and parameter.
    Wire {
        /// The id.
        id: u64,
        /// The parameter.
        param: u32,
    },
}

impl Registry {
    /// Returns a registry without splits; the built-in trees need no registration.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Registers a split.
    ///
    /// # Errors
    /// If the name is registered, or another name has the same id.
    pub fn register(&mut self, split: Registered) -> Result<(), RegisterError> {
        match self.splits.get(&split.id()) {
            None => {
                self.splits.insert(split.id(), split);
                Ok(())
            }
            Some(there) if there.name() == split.name() => {
                Err(RegisterError::Duplicate { name: split.name().clone() })
            }
            Some(there) => Err(RegisterError::SameId {
                name: split.name().clone(),
                registered: there.name().clone(),
                id: split.id(),
            }),
        }
    }

    /// Removes a split. Trees that were made of it stay valid.
    ///
    /// # Errors
    /// If no split of this name is registered.
    pub fn remove(&mut self, name: &SplitName) -> Result<Registered, UnknownTree> {
        match self.splits.remove(&tree_id(name.as_str())) {
            Some(split) if split.name() == name => Ok(split),
            other => {
                self.splits.extend(other.map(|split| (split.id(), split)));
                let registered = self.splits.values().map(|split| split.name().clone()).collect();
                Err(UnknownTree::Name { name: name.clone(), registered })
            }
        }
    }

    /// Removes all splits, and returns them. Trees that were made of them stay valid.
    pub fn remove_all(&mut self) -> Vec<Registered> {
        std::mem::take(&mut self.splits).into_values().collect()
    }

    /// The names of the registered splits, in no order.
    pub fn names(&self) -> impl Iterator<Item = &SplitName> {
        self.splits.values().map(Registered::name)
    }

    /// Returns the tree of a name.
    ///
    /// # Errors
    /// If no split of this name is registered, or the name is that of a file, which this crate does not read.
    pub fn named(&self, name: &TreeName) -> Result<Tree, UnknownTree> {
        match (name, name.built_in()) {
            (_, Some(tree)) => Ok(tree),
            (TreeName::File(path) | TreeName::Hosts { path, .. }, _) => {
                Err(UnknownTree::File { path: path.clone() })
            }
            (TreeName::KnownHosts(_), _) => Err(UnknownTree::Hosts),
            (TreeName::Registered(name), _) => {
                let found = self.splits.get(&tree_id(name.as_str())).filter(|split| split.name() == name);
                let registered = || self.splits.values().map(|split| split.name().clone()).collect();
                let unknown = || UnknownTree::Name { name: name.clone(), registered: registered() };
                found.cloned().map(Tree::Registered).ok_or_else(unknown)
            }
            (_, None) => unreachable!("every other name is that of a built-in tree"),
        }
    }

    /// Returns the built-in or registered tree of a wire id and parameter; never an explicit shape.
    ///
    /// # Errors
    /// If the id is unknown, or its tree does not have this parameter.
    pub fn from_wire(&self, id: u64, param: u32) -> Result<Tree, UnknownTree> {
        let registered = || self.splits.get(&id).filter(|_| param == 0).cloned().map(Tree::Registered);
        Tree::from_wire(id, param).or_else(registered).ok_or(UnknownTree::Wire { id, param })
    }
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegisterError::Duplicate { name } => write!(f, "a tree named {name} is registered already"),
            RegisterError::SameId { name, registered, id } => {
                write!(f, "the trees {name} and {registered} have the same id, {id:#x}; rename one of them")
            }
        }
    }
}

impl fmt::Display for UnknownTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnknownTree::Name { name, registered } if registered.is_empty() => {
                write!(f, "no tree named {name} is registered, nor any other")
            }
            UnknownTree::Name { name, registered } => {
                write!(f, "no tree named {name} is registered; there are")?;
                registered.iter().try_for_each(|there| write!(f, " {there}"))
            }
            UnknownTree::File { path } => write!(f, "the tree file {path} has to be read first"),
            UnknownTree::Hosts => write!(f, "the tree over the hosts has to be laid out first"),
            UnknownTree::Wire { id, param } => {
                write!(
                    f,
                    "no tree has id {id:#x} with parameter {param} here; is it registered on every node?"
                )
            }
        }
    }
}

impl std::error::Error for RegisterError {}
impl std::error::Error for UnknownTree {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_split_is_unknown_and_can_be_registered_again() {
        let named = |name: &str| name.parse::<SplitName>().unwrap();
        let star = || {
            Registered::new("star", |n, groups| {
                groups.extend((1..n).map(|start| crate::Group { start, len: 1 }))
            })
        };
        let mut registry = Registry::new();
        registry.register(star().unwrap()).unwrap();
        let tree = registry.named(&"star".parse().unwrap()).unwrap();
        registry.remove(&named("star")).unwrap();
        assert!(registry.named(&"star".parse().unwrap()).is_err());
        assert!(registry.remove(&named("star")).is_err());
        assert_eq!(tree.split(3).unwrap().len(), 2, "a tree in use stays valid");
        registry.register(star().unwrap()).unwrap();
        // A name that only shares the hash does not remove it.
        let mut registry = Registry::new();
        registry.register(Registered::with_id("one", tree_id("other"))).unwrap();
        assert!(registry.remove(&named("other")).is_err());
        assert_eq!(registry.splits.len(), 1);
    }

    /// Two names may share a hash, although that is very unlikely; the registry distinguishes them.
    #[test]
    fn two_names_with_one_id_do_not_stand_for_each_other() {
        let mut registry = Registry::new();
        registry.register(Registered::with_id("one", 1 << 63)).unwrap();
        let refused = registry.register(Registered::with_id("other", 1 << 63)).unwrap_err();
        assert!(matches!(&refused, RegisterError::SameId { name, registered, .. }
            if name.as_str() == "other" && registered.as_str() == "one"));
        assert!(refused.to_string().contains("rename one of them"));
        let mut registry = Registry::new();
        registry.register(Registered::with_id("one", tree_id("other"))).unwrap();
        assert!(matches!(registry.named(&"other".parse().unwrap()), Err(UnknownTree::Name { .. })));
    }
}
