//! Sequences of operations on a few nodes of the chain. Calls begin; messages are delivered, lost, duplicated, changed
//! and forged; functions succeed and fail; links and processes are lost; time passes. Every byte is a choice.
//!
//! In every sequence nothing panics, every call ends by its limit, no id executes a call twice, every outcome is
//! consistent, and no node holds anything once all is quiet. As long as no message was changed or forged, outcomes are
//! also true.
//!
//! Input: a byte for the number of nodes, a byte for their configuration, then operations, each a byte and its
//! arguments.

mod check;
mod forge;
mod op;
mod world;

use super::input::Input;

/// Maximum number of operations of one input. It is below the number of completed calls that a node remembers, so each
/// call is executed at most once, however often it is forged.
const OPERATIONS: usize = 800;

/// Applies the operations of an input, then lets everything come to rest.
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
