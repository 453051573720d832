//! stub
use super::{CommandResult, args::NodeArgs};
pub(super) fn run(_args: &NodeArgs) -> CommandResult {
    Err("no".into())
}
