//! stub
use super::{CommandResult, args::CallArgs};
pub(super) fn run(_args: &CallArgs) -> CommandResult {
    Err("no".into())
}
