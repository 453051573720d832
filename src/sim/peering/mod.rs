//! Who may come in, in virtual time: the very same [`Peering`](crate::peering::Peering) that the runtime drives, in worlds of some nodes, with faults and attackers.

mod model;
