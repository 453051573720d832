//! Sequences of operations on a few nodes of the chain: calls begin, messages are delivered, lost, doubled, changed and forged, functions end well or
//! badly, links and processes go, time passes. Every byte is a choice.
//!
//! What must hold whatever happens: nothing panics, every call ends by its limit, no id executes a call twice, what an outcome says adds up, and when all is quiet no node holds
//! anything. As long as nobody lies (no message was changed or forged), also what outcomes say is true.
//!
//! Input: a byte each for the number of nodes and how they are built, then operations of a byte and what they need.

mod check;
mod forge;
mod op;
mod world;

use super::input::Input;

/// Operations of one input: fewer than the calls that a node remembers, so that no more than one of each call is executed however many are forged.
const OPERATIONS: usize = 800;

/// Runs the operations that the bytes say, then lets everything come to rest.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = world::World::new(&mut input);
    for _ in 0..OPERATIONS {
        if input.is_empty() {
            break;
        }
        op::next(&mut world, &mut input);
    }
    world.rest();
    check::at_rest(&world);
}
