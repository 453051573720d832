//! Tests of the chain from outside: nodes and messages between them, with exported items only.

mod answer_checks;
mod driver;
mod failures;
mod fast_path;
mod heartbeat;
mod hostile;
mod late;
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
mod steps;
mod streaming;
mod taking;
mod world;
