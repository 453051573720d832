//! Checks of links made by the peering machine: after all faults both ends agree and nothing waits.

use gpc_trees::Id;

use super::pipe::of_key;
use crate::check::Violation;
use crate::world::World;

const NAME: &str = "links";

/// Largest number of violations kept; the first ones show the cause.
const WRONG_MAX: usize = 32;

impl World {
    pub(super) fn blame(&mut self, id: Id, wrong: Option<String>) {
        let Some(what) = wrong else { return };
        let at_ns = self.now;
        let wrong = &mut self.linked().wrong;
        if wrong.len() < WRONG_MAX {
            wrong.push(Violation { checker: NAME, at_ns, what: format!("id {id} {what}") });
        }
    }

    /// Checks after all faults and greetings: both ends of each link agree, and nothing waits.
    pub(crate) fn links_are_settled(&mut self) {
        let Some(linked) = &self.linked else { return };
        let mut wrong = Vec::new();
        for (id, process) in (0..).zip(&linked.processes) {
            let Some(process) = process else { continue };
            for (peer, _) in process.peering.all_up() {
                let [here, there] =
                    [(id, peer), (peer, id)].map(|(a, b)| linked.up(a, b).map(|key| of_key(key).0));
                if here != there {
                    wrong.push((
                        id,
                        format!("has connection {here:?} for its link to {peer}, which has {there:?}"),
                    ));
                }
            }
            if let Some((peer, _)) = process.pending.first_key_value() {
                wrong.push((id, format!("still has something to send to {peer}, without a link")));
            }
            if process.peering.half_open().next().is_some() || process.peering.has_waiting_runs() {
                wrong.push((id, "still awaits a hello, or whether a link answers".to_owned()));
            }
        }
        wrong.into_iter().for_each(|(id, what)| self.blame(id, Some(what)));
    }
}
