//! A root's announcement to its cluster, as text: the job, and for each id its group and its entry.

use chained_gpc::Job;

/// Version of the format.
const FORM: &str = "1";

/// The outcome of the session, the same for all processes of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    /// The job of all nodes.
    pub(super) job: Job,
    /// For each id, the path of its group, and its entry.
    pub(super) ids: Vec<(String, String)>,
}

impl Answer {
    /// Encodes the announcement: `1 JOB`, and a line `GROUP ENTRY` for each id. Neither contains a space.
    pub(super) fn to_text(&self) -> String {
        let mut text = format!("{FORM} {}\n", self.job);
        for (group, entry) in &self.ids {
            text.extend([group, " ", entry, "\n"]);
        }
        text
    }

    /// Parses an announcement.
    ///
    /// # Errors
    /// Returns an error if the text is malformed.
    pub(super) fn parse(text: &str) -> Result<Answer, String> {
        let mut lines = text.lines();
        let job = lines.next().and_then(|line| line.strip_prefix(FORM)?.strip_prefix(' '));
        let job = job.ok_or("it is of another form: all processes run the same version")?;
        let job = job.parse().map_err(|_| "it names no job")?;
        let pair = |line: &str| {
            let (group, entry) = line.split_once(' ').ok_or("a line is no group and what an id says")?;
            Ok((group.to_owned(), entry.to_owned()))
        };
        Ok(Answer { job, ids: lines.map(pair).collect::<Result<_, &str>>()? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_announcement_of_another_form_is_refused() {
        let job = "07".repeat(16);
        let parse = |text: &str| Answer::parse(&text.replace("JOB", &job));
        assert_eq!(parse("1 JOB\n"), Ok(Answer { job: Job([7; 16]), ids: Vec::new() }));
        for text in ["", "2 JOB\n", "1\n", "1JOB\n", "11 JOB\n"] {
            assert!(parse(text).unwrap_err().contains("another form"), "{text}");
        }
        assert_eq!(parse("1 job\n"), Err("it names no job".into()));
        assert!(parse("1 JOB\ngroup entry\nentry\n").unwrap_err().contains("a line is no group"));
    }

    proptest! {
        #[test]
        fn an_answer_reads_as_it_is_written(job: [u8; 16], ids in prop::collection::vec(("[!-~]{1,20}", "[!-~]{1,40}"), 0..9)) {
            let answer = Answer { job: Job(job), ids };
            prop_assert_eq!(Answer::parse(&answer.to_text()), Ok(answer));
        }

        #[test]
        fn any_text_is_an_answer_or_refused(text in "(1 [0-9a-f]{32}\n)?(.{0,20}\n){0,4}") {
            let _ = Answer::parse(&text);
        }
    }
}
