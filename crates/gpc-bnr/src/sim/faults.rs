//! Faults of a world of groups.

use gpc_sim::Random;
use gpc_sim::worlds::faults;

faults! {
    /// A node other than the head crashes with its processes.
    Crash = "crash",
    /// The head crashes.
    Head = "head",
    /// A node other than the head crashes, and a new one begins with its id.
    Restart = "restart",
    /// A node pauses for a moment, shorter than any limit.
    Pause = "pause",
    /// A node pauses for longer than its peers wait.
    Stall = "stall",
    /// A link between two nodes breaks.
    Link = "link",
    /// Some nodes cannot reach the others for a while.
    Cut = "cut",
    /// Two living nodes cannot connect for a while.
    Refuse = "refuse",
    /// Messages from one node to another are slow for a while.
    Late = "late",
    /// A node makes no calls for a while, since it has too many.
    Busy = "busy",
    /// A process ends early.
    Die = "die",
    /// The domain is ended.
    End = "end",
}

impl Fault {
    pub(super) fn draw(random: &mut Random, of: &[Fault]) -> Option<Fault> {
        random.pick(of).copied()
    }
}
