//! Suspects: while a child of a partial call is silent, its descendants are sent heartbeat requests.
//!
//! When the child is given up, its children are adopted. Each of them that is silent too would take as long as the
//! child to be detected: a chain that is cut off would be found lost one id after the other. So they are asked as soon
//! as the child is suspected, and those that have not answered at the time of adoption are given up with it. They get
//! no request, because the child may be alive.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gpc_trees::{Group, Id, adopted};

use super::call::{Call, ChildAnswer};
use super::{Heartbeat, Node, Time};

impl Node {
    /// Returns the nearest descendants of the suspected children, over all partial calls. The descendants of an id that
    /// is alive are left to that id.
    pub(super) fn descendants_of_suspects(
        &self,
        awaited: &BTreeMap<Id, Time>,
        heartbeat: &Heartbeat,
    ) -> BTreeSet<Id> {
        let suspected = |peer| self.liveness.suspects(peer, heartbeat, self.now);
        if !awaited.keys().any(|peer| suspected(*peer)) {
            return BTreeSet::new();
        }
        let calls = self.calls.iter().filter(|call| call.request.partial);
        let silent = calls.flat_map(|call| awaited_groups(call).map(move |group| (call, group)));
        let mut nearest: VecDeque<(&Call, Group)> =
            silent.filter(|(call, group)| first(call, *group).is_some_and(suspected)).collect();
        let most = usize::from(self.config.sizes.descendants);
        let mut descendants = BTreeSet::new();
        // Ends: the groups within a group are shorter, and the number of descendants is bounded.
        while let Some((call, group)) = nearest.pop_front() {
            let Ok(tree) = &call.request.tree else { continue };
            for group in adopted(tree, group).unwrap_or_default() {
                let Some(id) = first(call, group) else { continue };
                if !awaited.contains_key(&id) && descendants.insert(id) && descendants.len() >= most {
                    return descendants;
                }
                if group.len > 1 && !self.liveness.lives(id) {
                    nearest.push_back((call, group));
                }
            }
        }
        descendants
    }
}

/// The groups of a call's children that have not answered and have descendants.
fn awaited_groups(call: &Call) -> impl Iterator<Item = Group> + '_ {
    let children = call.children.as_deref().unwrap_or_default();
    let silent = children.iter().filter(|child| child.answer == ChildAnswer::Awaited && child.group.len > 1);
    silent.map(|child| child.group)
}

fn first(call: &Call, group: Group) -> Option<Id> {
    call.request.ids.id(group.start)
}
