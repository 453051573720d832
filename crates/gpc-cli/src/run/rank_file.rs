//! The file of `--rank-file`: the host and the processors of each rank, in the form of Open MPI. No I/O.
//!
//! ```text
//! # rank, host, and processors
//! rank 0=a slot=0-3
//! rank 1=b slot=4,6
//! rank 2=b
//! ```

use chained_gpc::wire::Shown;

/// Longest quoted line, in characters.
const QUOTED_MAX: usize = 80;

/// The place of a rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RankPlace {
    /// Name of the host.
    pub(crate) host: String,
    /// Processors, such as `0-3,8`; `None` for any.
    pub(crate) cpus: Option<String>,
}

/// Error of a rank file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum RankFileError {
    #[error("line {0}: `{1}`: write `rank N=HOST slot=CPUS`")]
    Line(usize, String),
    #[error(
        "line {0}: `slot={1}`: write processors as the system numbers them, such as 0-3,8; sockets and relative numbers are not known here"
    )]
    Slot(usize, String),
    #[error("line {0}: `{1}` stands for a host of an allocation: write its name")]
    Relative(usize, String),
    #[error("line {0}: rank {1} stands there twice")]
    Twice(usize, usize),
    #[error("rank {0} is missing: each rank from 0 on has a line")]
    Missing(usize),
    #[error("it has no rank")]
    Empty,
}

/// Parses a rank file; the places are in the order of the ranks.
///
/// # Errors
/// The first line that is not of the form, a rank that stands there twice, or the first that is missing.
pub(crate) fn parse(text: &str) -> Result<Vec<RankPlace>, RankFileError> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let lines: Vec<(usize, &str)> = (1..).zip(lines).filter(|(_, line)| !line.is_empty()).collect();
    let mut places: Vec<Option<RankPlace>> = vec![None; lines.len()];
    for (number, line) in lines {
        let (rank, place) = parse_line(number, line)?;
        match places.get_mut(rank) {
            // Then another rank is missing.
            None => {}
            Some(Some(_)) => return Err(RankFileError::Twice(number, rank)),
            Some(free) => *free = Some(place),
        }
    }
    match places.iter().position(Option::is_none) {
        Some(rank) => Err(RankFileError::Missing(rank)),
        None if places.is_empty() => Err(RankFileError::Empty),
        None => Ok(places.into_iter().flatten().collect()),
    }
}

fn parse_line(number: usize, line: &str) -> Result<(usize, RankPlace), RankFileError> {
    let bad = || RankFileError::Line(number, quoted(line));
    let rest =
        line.strip_prefix("rank").filter(|rest| rest.starts_with(char::is_whitespace)).ok_or_else(bad)?;
    let (rank, rest) = rest.split_once('=').ok_or_else(bad)?;
    let rank = rank.trim().parse().map_err(|_| bad())?;
    let mut words = rest.split_ascii_whitespace();
    let host = words.next().ok_or_else(bad)?.to_owned();
    if host.starts_with('+') {
        return Err(RankFileError::Relative(number, quoted(&host)));
    }
    let cpus = match words.next() {
        None => None,
        Some(word) => {
            let cpus = word.strip_prefix("slots=").or_else(|| word.strip_prefix("slot=")).ok_or_else(bad)?;
            if !is_list(cpus) {
                return Err(RankFileError::Slot(number, quoted(cpus)));
            }
            Some(cpus.to_owned())
        }
    };
    match words.next() {
        None => Ok((rank, RankPlace { host, cpus })),
        Some(_) => Err(bad()),
    }
}

/// Whether a text is a list of processors.
fn is_list(text: &str) -> bool {
    let number = |text: &str| text.parse::<u32>().ok();
    text.split(',').all(|part| match part.split_once('-') {
        None => number(part).is_some(),
        Some((first, last)) => number(first).zip(number(last)).is_some_and(|(first, last)| first <= last),
    })
}

fn quoted(text: &str) -> String {
    Shown(&text.chars().take(QUOTED_MAX).collect::<String>()).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranks_have_hosts_and_processors_in_any_order_of_lines() {
        let text = "# ranks\n\nrank 1=b slot=4,6 # the second\nrank  0 = a slot=0-3\nrank 2=b\n";
        let place =
            |host: &str, cpus: Option<&str>| RankPlace { host: host.into(), cpus: cpus.map(Into::into) };
        assert_eq!(parse(text), Ok(vec![place("a", Some("0-3")), place("b", Some("4,6")), place("b", None)]));
    }

    #[test]
    fn an_error_names_the_line_and_what_to_write() {
        for (text, error) in [
            ("", "it has no rank"),
            ("rank 0=a\n\nrank 0=b", "line 3: rank 0 stands there twice"),
            ("rank 0=a\nrank 2=b", "rank 1 is missing: each rank from 0 on has a line"),
            ("rank 0=+n1 slot=0", "line 1: `+n1` stands for a host of an allocation: write its name"),
            ("ranks 0=a", "line 1: `ranks 0=a`: write `rank N=HOST slot=CPUS`"),
            ("rank x=a", "line 1: `rank x=a`: write `rank N=HOST slot=CPUS`"),
            ("rank 0=a 0", "line 1: `rank 0=a 0`: write `rank N=HOST slot=CPUS`"),
            ("rank 0=a slot=0 b", "line 1: `rank 0=a slot=0 b`: write `rank N=HOST slot=CPUS`"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), error, "{text}");
        }
        for cpus in ["1:0", "p0", "3-1", "", "0-"] {
            let error = parse(&format!("rank 0=a slot={cpus}")).unwrap_err().to_string();
            assert!(error.starts_with(&format!("line 1: `slot={cpus}`: write processors")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_file_or_refused(text in "(rank [0-3]=[ab+] ?(slot=[0-9,:-]{0,4})?[\n ]?){0,5}") {
            if let Ok(places) = parse(&text) {
                prop_assert_eq!(places.len(), text.lines().filter(|line| !line.trim().is_empty()).count());
            }
        }
    }
}
