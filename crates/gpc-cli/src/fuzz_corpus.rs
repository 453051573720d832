//! Runs the fuzz target of this package without a fuzzer: on the corpus, and on inputs derived from it.

use self::replay::replay;

#[path = "../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/run_texts.rs"]
#[expect(unreachable_pub, reason = "it is a target, too")]
mod run_texts;

#[test]
fn texts_for_programs_are_read_or_refused() {
    replay("run_texts", run_texts::run);
}
