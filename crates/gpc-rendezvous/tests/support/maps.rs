//! A store made of maps: the reference for real stores.

use std::collections::BTreeMap;

use bytes::Bytes;
use gpc_rendezvous::ResourceId;
use gpc_rendezvous::machine::{
    Change, StoredController, StoredRegistrant, StoredResource, StoredState, Unit,
};

/// The stored state.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Maps {
    resources: BTreeMap<ResourceId, StoredResource>,
    registrants: BTreeMap<(ResourceId, u32), (StoredRegistrant, Bytes)>,
    controllers: BTreeMap<(ResourceId, Unit), StoredController>,
}

impl Maps {
    pub(crate) fn save(&mut self, changes: &[Change]) {
        for change in changes.iter().cloned() {
            match change {
                Change::Resource(id, kept) => drop(self.resources.insert(id, kept)),
                Change::Registrant(id, rank, kept, data) => {
                    self.registrants.insert((id, rank), (kept, data));
                }
                Change::Lease(id, rank, kept) => {
                    let of = (id, rank);
                    self.registrants.get_mut(&of).expect("it is kept with its data before").0 = kept;
                }
                Change::Withdrawn(id, rank) => drop(self.registrants.remove(&(id, rank))),
                Change::Controller(id, unit, kept) => drop(self.controllers.insert((id, unit), kept)),
                Change::Released(id, unit) => drop(self.controllers.remove(&(id, unit))),
                Change::Ended(id) => {
                    self.resources.remove(&id);
                    self.registrants.retain(|(of, _), _| *of != id);
                    self.controllers.retain(|(of, _), _| *of != id);
                }
            }
        }
    }

    pub(crate) fn load(&self) -> StoredState {
        let maps = self.clone();
        let registrants = maps.registrants.into_iter();
        let controllers = maps.controllers.into_iter();
        StoredState {
            now: None,
            resources: maps.resources.into_iter().collect(),
            registrants: registrants.map(|((id, rank), (kept, data))| (id, rank, kept, data)).collect(),
            controllers: controllers.map(|((id, unit), kept)| (id, unit, kept)).collect(),
        }
    }
}
