//! A batch of requests whose changes are stored together: it is committed when they are stored, and else undone.
//!
//! The steps of a batch are recorded with what they removed, and undone in reverse order. Leases of restored
//! registrants and controlling tasks begin anew.

use super::holder::Holder;
use super::resource::{Controller, Registrant, Resource, State};
use super::service::Service;
use super::step::Step;
use super::{Change, Output, ResourceId};

impl Service {
    /// Begins a batch. All its inputs are requests with one time, and no timer expires at that time.
    pub fn begin(&mut self) {
        self.batch = Some(Vec::new());
    }

    /// The changes of the batch are stored.
    pub fn commit(&mut self) {
        self.batch = None;
    }

    /// Undoes the batch, whose outputs the driver has drained and discards. The outputs after this are changes alone:
    /// they undo those of the batch in a store that may have taken them.
    pub fn roll_back(&mut self) {
        for step in self.batch.take().unwrap_or_default().into_iter().rev() {
            self.undo(step);
        }
    }

    /// Records a step if a batch has begun.
    pub(super) fn note(&mut self, step: Step) {
        if let Some(batch) = &mut self.batch {
            batch.push(step);
        }
    }

    fn undo(&mut self, step: Step) {
        match step {
            Step::Created(id) => {
                self.take_out(id);
                self.outputs.push_back(Output::Store(Change::Ended(id)));
            }
            Step::Registered(id, rank) => self.remove(id, rank),
            Step::Withdrawn(id, rank, Registrant { token, data, liveness }) => {
                self.place(id, rank, token, data, liveness.life);
                let change = self.resources.get(&id).and_then(|resource| resource.brought(rank));
                self.outputs.extend(change.map(Output::Store));
            }
            Step::Controlled(id, unit) => self.dismiss(id, unit),
            Step::Released(id, unit, Controller { name, token, liveness }) => {
                self.place_controller(id, unit, name, token, liveness.life);
                let holder = Holder::Controller(unit);
                let change = self.resources.get(&id).and_then(|resource| resource.change(holder));
                self.outputs.extend(change.map(Output::Store));
            }
            Step::Settled(id) => self.reopen(id),
            Step::Ended(resource) => self.put_back(*resource),
            Step::Answered(id, ticket, wait) => self.put_wait(id, ticket, wait),
        }
    }

    /// Opens a resource that was settled. The data of its registrants stay slices of the joined data.
    fn reopen(&mut self, id: ResourceId) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        resource.state = State::Open;
        let change = Change::Resource(id, resource.stored());
        self.outputs.push_back(Output::Store(change));
        self.begin_lives(id);
    }

    /// Restores a resource that has ended.
    fn put_back(&mut self, resource: Resource) {
        let id = resource.id;
        let registrants = resource.registrants.keys().filter_map(|rank| resource.brought(*rank));
        let changes = std::iter::once(Change::Resource(id, resource.stored())).chain(registrants);
        self.outputs.extend(changes.map(Output::Store));
        if let Some(Ok(top)) = &resource.top {
            self.held += self.tops.needed(&top.data);
            self.tops.add(&top.data);
        }
        self.add(resource);
        self.begin_lives(id);
    }

    fn begin_lives(&mut self, id: ResourceId) {
        let Some(resource) = self.resources.get(&id) else { return };
        let registrants = resource.registrants.keys().map(|rank| Holder::Registrant(*rank));
        let controllers = resource.controllers.keys().map(|unit| Holder::Controller(*unit));
        let holders: Vec<Holder> = registrants.chain(controllers).collect();
        holders.into_iter().for_each(|holder| self.begin_life(id, holder));
    }
}
