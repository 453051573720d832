//! A model of the result of a call, as plain as possible: recursion over a list.

use std::collections::BTreeSet;

use bytes::Bytes;
use chained_gpc::chain::Start;
use chained_gpc::wire::level::{Leaves, Limits};
use chained_gpc::wire::message::SubtreeReply;
use chained_gpc::wire::{Coverage, Status};
use gpc_trees::{Id, IdList, Tree};

/// Level and level-n data of a tree over a list, each id with its text; the first id contributes only if `first` is
/// set.
pub(crate) fn aggregate(
    tree: &Tree,
    ids: &IdList,
    first: bool,
    text: &dyn Fn(Id) -> String,
) -> (u16, String) {
    let groups = tree.split(ids.len()).expect("a good tree");
    let children: Vec<(u16, String)> =
        groups.iter().map(|&group| aggregate(&tree.subtree(group), &ids.slice(group), true, text)).collect();
    let own = ids.first().filter(|_| first).map(|id| (0, format!("{} {}", text(id).len(), text(id))));
    let Some(highest) = children.iter().map(|(level, _)| *level).max() else {
        return own.unwrap_or((1, "0 ".into()));
    };
    let members: Vec<String> = own
        .into_iter()
        .chain(children)
        .map(|(level, data)| "1 ".repeat(usize::from(highest - level)) + &data)
        .collect();
    (highest + 1, format!("{} {}", members.len(), members.concat()))
}

/// Parent and child, for every id but the first.
pub(crate) fn edges(tree: &Tree, ids: &IdList) -> BTreeSet<(Id, Id)> {
    let mut edges = BTreeSet::new();
    for group in tree.split(ids.len()).expect("a good tree") {
        let slice = ids.slice(group);
        edges.insert((
            ids.first().expect("a list that was split"),
            slice.first().expect("a group is not empty"),
        ));
        edges.extend(self::edges(&tree.subtree(group), &slice));
    }
    edges
}

/// A call of an empty func on a list, the root first.
pub(crate) fn call(tree: Tree, ids: IdList) -> Start {
    Start { tree, ids, limit: super::world::LIMIT, ..Start::new(7) }
}

pub(crate) fn ids(ids: &[Id]) -> IdList {
    IdList::from_ids(ids.iter().copied()).expect("distinct ids")
}

pub(crate) fn text(bytes: Bytes) -> String {
    String::from_utf8(bytes.to_vec()).expect("the functions of the world write text")
}

/// The leaves of an aggregate: headers and data.
pub(crate) fn leaves(reply: &SubtreeReply) -> (Vec<String>, Vec<String>) {
    let read = |bytes: Bytes| {
        let leaf = |leaf: Result<&[u8], _>| text(Bytes::copy_from_slice(leaf.expect("good level-n data")));
        Leaves::new(reply.level, &bytes, Limits::default()).map(leaf).collect()
    };
    (read(reply.header.to_bytes()), read(reply.data.to_bytes()))
}

/// A coverage as one letter for each id.
pub(crate) fn letters(coverage: &Coverage) -> String {
    let letter = |status| match status {
        Status::Done => 'd',
        Status::Failed => 'f',
        Status::Unreached => '-',
        Status::Unknown => '?',
    };
    coverage.statuses().map(letter).collect()
}
