//! Counts of the observations in a world.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::seen::Seen;
use crate::exit::Exit;
use crate::fault::Fault;
use crate::request::Answer;

/// Number of observations of each kind.
pub(super) fn count(seen: &[Seen]) -> BTreeMap<String, u64> {
    let mut asked = BTreeMap::new();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for seen in seen {
        let what = match seen {
            Seen::Asked { client, serial, request } => {
                asked.insert((*client, *serial), name(request));
                continue;
            }
            Seen::Answered { client, serial, answer, .. } => {
                let Some(request) = asked.get(&(*client, *serial)) else { continue };
                let outcome = match answer {
                    Ok(_) => "Ok".into(),
                    Err(fault) => format!("{:?}", fault.kind),
                };
                match (request.as_str(), is_of_derived(answer)) {
                    ("Subscribe", true) => "Subscribe derived Ok".into(),
                    _ => format!("{request} {outcome}"),
                }
            }
            Seen::Noticed { .. } => "notice".into(),
            Seen::Over { exit, .. } => match exit {
                Exit::Never => "not started".into(),
                Exit::Code(0) => "ended well".into(),
                _ => "ended abnormally".into(),
            },
            Seen::Ended(_) => "part ended".into(),
            _ => continue,
        };
        *counts.entry(what).or_default() += 1;
    }
    counts
}

/// Whether an answer has a group that was made of members of others.
fn is_of_derived(answer: &Result<Answer, Fault>) -> bool {
    let Ok(Answer::Rosters(groups)) = answer else { return false };
    groups.iter().any(|roster| roster.spans.iter().any(|span| span.group != roster.group))
}

/// The name of a variant: the first word of its `Debug` text.
pub(super) fn name(variant: &impl fmt::Debug) -> String {
    let mut word = Word(String::new());
    // The error ends the text after the word.
    let _ = write!(word, "{variant:?}");
    word.0
}

struct Word(String);

impl fmt::Write for Word {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = text.find(|c: char| !c.is_alphanumeric());
        self.0.push_str(&text[..end.unwrap_or(text.len())]);
        end.map_or(Ok(()), |_| Err(fmt::Error))
    }
}
