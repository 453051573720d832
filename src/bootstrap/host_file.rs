//! Host files of other launchers: a line for each host, with its slots.
//!
//! | launcher | a line |
//! |---|---|
//! | hydra (MPICH) | `HOST` or `HOST:SLOTS` |
//! | Open MPI | `HOST slots=N max_slots=M`, also `max-slots`, with blanks around `=` |
//! | Slurm's machine file | `HOST`, once for each slot |
//!
//! `#` starts a comment. A file may mix the forms. A line may name several hosts with brackets, as in a [`SlotList`].
//! Slots of several lines add up. A host without a number has one slot. `max_slots` is checked against `slots`; nothing
//! else uses it.

use super::host_list::{HostListError, items, shown};
use super::slot_list::{SlotAdder, SlotList, parse_item, parse_slots};

/// Names of the most slots in a host file of Open MPI.
const MOST: [&str; 4] = ["max_slots", "max-slots", "slots_max", "slots-max"];

/// Why a text is not a host file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {why}")]
#[non_exhaustive]
pub struct HostFileError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub why: HostFileFault,
}

/// What is wrong in a line of a host file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostFileFault {
    /// The host.
    #[error(transparent)]
    Host(#[from] HostListError),
    /// Several hosts between commas.
    #[error("`{0}` are several hosts: write a line for each")]
    Several(String),
    /// A text after the host that is not a setting.
    #[error(
        "`{0}` is none of the settings of a host: write HOST, HOST:SLOTS or HOST slots=N max_slots=M, and comments after #"
    )]
    Setting(String),
    /// The same setting twice.
    #[error("`{0}` is there twice: write it once")]
    Twice(&'static str),
    /// More slots than the most.
    #[error("{slots} slots are more than max_slots={most}: correct one of them")]
    Most {
        /// Number of slots.
        slots: u32,
        /// Maximum number of slots.
        most: u32,
    },
    /// No line of the file has a host.
    #[error("the file ends without a host: write a line for each, such as `node1 slots=4`")]
    Empty,
}

/// Parses the text of a host file.
///
/// # Errors
/// If a line is invalid, or the file has no host, or too many.
pub fn read_host_file(text: &str) -> Result<SlotList, HostFileError> {
    let mut adding = SlotAdder::default();
    let mut last = 1;
    for (line, content) in (1..).zip(text.lines()) {
        last = line;
        let content = content.split_once('#').map_or(content, |(content, _)| content);
        if !content.trim().is_empty() {
            add_line(content.trim(), &mut adding).map_err(|why| HostFileError { line, why })?;
        }
    }
    adding.finish().map_err(|_| HostFileError { line: last, why: HostFileFault::Empty })
}

/// Adds the host of a line.
fn add_line(content: &str, adding: &mut SlotAdder) -> Result<(), HostFileFault> {
    let (host, settings) = content.split_once(char::is_whitespace).unwrap_or((content, ""));
    if items(host)?.len() > 1 {
        return Err(HostFileFault::Several(shown(host)));
    }
    let (names, mut slots) = parse_item(host)?;
    let mut most = None;
    let spaced = settings.replace('=', " = ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    for setting in words.chunks(3) {
        let refused = || HostFileFault::Setting(shown(&setting.concat()));
        let [name, "=", number] = setting else { return Err(refused()) };
        let number = parse_slots(number).ok_or_else(refused)?;
        let (name, place) = match *name {
            "slots" => ("slots", &mut slots),
            name if MOST.contains(&name) => ("max_slots", &mut most),
            _ => return Err(refused()),
        };
        if place.replace(number).is_some() {
            return Err(HostFileFault::Twice(name));
        }
    }
    let slots = slots.unwrap_or(1);
    match most {
        Some(most) if most < slots => Err(HostFileFault::Most { slots, most }),
        _ => Ok(adding.add(&names, slots)?),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::host_list::{HOSTS_MAX, SLOTS_MAX};
    use super::*;

    fn read(text: &str) -> String {
        match read_host_file(text) {
            Ok(hosts) => hosts.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_forms_of_other_launchers_are_read() {
        // Hydra.
        assert_eq!(read("# our machines\nhost1:2\nhost2:4 # big\n\n  host3\n"), "host1:2,host2:4,host3");
        // Open MPI.
        assert_eq!(
            read("a slots=2\nb slots = 4 max_slots=8\nc max-slots =3\nd slots=1 slots-max= 1\n"),
            "a:2,b:4,c,d"
        );
        // Slurm's machine file.
        assert_eq!(read("n1\nn1\nn2\nn1\r\n"), "n1:3,n2");
        assert_eq!(read("n1:2\nn1 slots=3\nn[1-2]\nfe80::1 slots=2#x"), "n1:6,n2,fe80::1,fe80::1");
    }

    #[test]
    fn an_error_names_the_line_and_what_to_write() {
        assert_eq!(
            read("a\n\nb slots\n"),
            "line 3: `slots` is none of the settings of a host: write HOST, HOST:SLOTS or HOST slots=N max_slots=M, and comments after #"
        );
        for (setting, quoted) in [
            ("slots=0", "slots=0"),
            ("slots=x", "slots=x"),
            ("slots=2 max_slots", "max_slots"),
            ("slots==2", "slots=="),
            ("cores=2", "cores=2"),
            ("slots=65537", "slots=65537"),
            ("max_slots 2 2", "max_slots22"),
            ("4", "4"),
        ] {
            let error = read(&format!("a {setting}"));
            assert!(error.starts_with(&format!("line 1: `{quoted}` is none")), "{setting}: {error}");
        }
        assert_eq!(read("a slots=1 slots=1"), "line 1: `slots` is there twice: write it once");
        assert_eq!(read("a:1 slots=1"), "line 1: `slots` is there twice: write it once");
        assert_eq!(read("a max_slots=1 slots-max=1"), "line 1: `max_slots` is there twice: write it once");
        assert_eq!(read("a:3 max_slots=2"), "line 1: 3 slots are more than max_slots=2: correct one of them");
        assert_eq!(read("a:3 max_slots=3"), "a:3");
        assert_eq!(read("a\na,b"), "line 2: `a,b` are several hosts: write a line for each");
        assert!(read("a\n-x\n").starts_with("line 2: `-x` is no name of a host"));
        assert!(read("a:65536\na\n").starts_with("line 2: host a has too many slots"));
        assert!(read("a[0-65535]\nb").starts_with("line 2: there are too many hosts"));
        for empty in ["", "\n", "# a\n"] {
            assert!(read(empty).starts_with("line 1: the file ends without a host"), "{empty}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_host_file_or_refused(
            text in "([ab0-9\\[\\],:-]{1,4}|[ \n#=]|slots|max_slots|\\PC){0,20}"
        ) {
            if let Ok(hosts) = read_host_file(&text) {
                prop_assert!((1..=HOSTS_MAX).contains(&hosts.len()));
                prop_assert!(hosts.iter().all(|host| (1..=SLOTS_MAX).contains(&host.slots)));
                let file: String =
                    hosts.iter().map(|host| format!("{} slots={}\n", host.name, host.slots)).collect();
                prop_assert_eq!(read_host_file(&file), Ok(hosts));
            }
        }
    }
}
