//! Tests of the chain from outside: nodes and messages between them, with exported items only.

mod driver;
mod failures;
mod heartbeat;
mod hostile;
mod late;
mod lies;
mod limits;
mod load;
mod memory;
mod model;
mod one;
mod partial;
mod partial_check;
mod partial_worlds;
mod properties;
mod replies;
mod reply_limits;
mod scatter;
mod spot;
mod steps;
mod streaming;
mod taking;
mod world;
