//! Trees of calls.

use chained_gpc::runtime::CallTree;

use crate::handles::{Kind, Object};

/// A tree for calls: a split or a layout.
pub(crate) struct CTree(pub(crate) CallTree);

impl Object for CTree {
    const KIND: Kind = Kind::Tree;
    const IS_KEPT: bool = true;
}
