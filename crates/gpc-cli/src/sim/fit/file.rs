//! The file of fitted costs: one JSON object, whose field names carry the units.

use std::num::NonZeroU32;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::files::read_text;
use chained_gpc::runtime::LinkKind;
use gpc_sim::{HostCost, LinkCost, Sharing};

/// The fields with a number in their order, each with its minimum and maximum.
const NUMBERS: [(&str, u64, u64); 8] = [
    ("machine_cores", 1, u32::MAX as u64),
    ("cores", 1, u32::MAX as u64),
    ("latency_ns", 0, TIME_MAX_NS),
    ("overhead_ns", 0, TIME_MAX_NS),
    ("gap_ns", 0, TIME_MAX_NS),
    ("byte_ps", 0, TIME_MAX_NS),
    ("wake_ns", 0, TIME_MAX_NS),
    ("cold_ns", 0, TIME_MAX_NS),
];

/// A thousand seconds: no message takes longer, and sums of many do not overflow.
const TIME_MAX_NS: u64 = 1_000_000_000_000;

/// The field with the kind of links.
const LINK: &str = "link";

/// Fitted costs, and the machine of the measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FitFile {
    /// Kind of the links.
    pub(crate) link: LinkKind,
    /// Cores of the machine; the processes may have had fewer.
    pub(crate) machine_cores: NonZeroU32,
    /// Costs of messages.
    pub(crate) cost: HostCost,
}

/// Reads a file of fitted costs.
///
/// # Errors
/// If the file cannot be read or has a fault. The message begins with the path, names the field and says what to do.
pub(crate) fn read_fit(path: &Path) -> Result<FitFile, String> {
    if !path.exists() {
        let shown = path.display();
        return Err(format!(
            "there is no file {shown}: make one with `gpc sim --fit {shown}`, which measures this machine"
        ));
    }
    FitFile::parse(&read_text(path, "costs file")?).map_err(|fault| format!("{}: {fault}", path.display()))
}

impl FitFile {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// If it is not a JSON object, or a field is missing, unknown, or not a number within its bounds.
    pub(super) fn parse(text: &str) -> Result<FitFile, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
        let Value::Object(fields) = value else { return Err("no JSON object".into()) };
        if let Some(unknown) = fields.keys().find(|name| !is_field(name)) {
            return Err(unknown_field(unknown));
        }
        let link = match fields.get(LINK).and_then(Value::as_str) {
            Some("tcp") => LinkKind::Tcp,
            Some("unix") => LinkKind::Unix,
            Some("shm") => LinkKind::Shm,
            _ => {
                return Err(format!(
                    "`{LINK}` is {}: it must be \"tcp\", \"unix\" or \"shm\"",
                    shown(fields.get(LINK))
                ));
            }
        };
        let mut numbers = [0; NUMBERS.len()];
        for (number, field) in numbers.iter_mut().zip(NUMBERS) {
            *number = number_of(&fields, field)?;
        }
        let [machine_cores, cores, latency_ns, overhead_ns, gap_ns, byte_ps, wake_ns, cold_ns] = numbers;
        let cores_of =
            |count: u64| u32::try_from(count).ok().and_then(NonZeroU32::new).ok_or("no number of cores");
        let sharing = Sharing { cores: cores_of(cores)?, wake_ns, cold_ns };
        let cost = HostCost { link: LinkCost { latency_ns, overhead_ns, gap_ns, byte_ps }, sharing };
        Ok(FitFile { link, machine_cores: cores_of(machine_cores)?, cost })
    }

    /// Formats the costs as text that parses back to the same value.
    pub(super) fn emit(&self) -> String {
        let HostCost { link: LinkCost { latency_ns, overhead_ns, gap_ns, byte_ps }, sharing } = self.cost;
        let Sharing { cores, wake_ns, cold_ns } = sharing;
        let numbers = [
            self.machine_cores.get().into(),
            cores.get().into(),
            latency_ns,
            overhead_ns,
            gap_ns,
            byte_ps,
            wake_ns,
            cold_ns,
        ];
        let lines =
            NUMBERS.iter().zip(numbers).map(|((name, ..), number)| format!(",\n  \"{name}\": {number}"));
        format!("{{\n  \"{LINK}\": {}{}\n}}\n", json!(self.link.name()), lines.collect::<String>())
    }
}

fn is_field(name: &str) -> bool {
    name == LINK || NUMBERS.iter().any(|(field, ..)| *field == name)
}

/// Suggests the known field if only the unit differs.
fn unknown_field(name: &str) -> String {
    let stem = |name: &str| name.rsplit_once('_').map_or(name.to_owned(), |(stem, _)| stem.to_owned());
    let short: String = name.chars().take(60).collect();
    let meant = NUMBERS
        .iter()
        .map(|(field, ..)| *field)
        .find(|field| stem(field) == stem(name) || stem(field) == name);
    match meant {
        Some(field) => format!(
            "`{short}` is in another unit or in none: write `{field}`, _ns for nanoseconds, _ps for picoseconds"
        ),
        None => {
            let all: Vec<&str> =
                std::iter::once(LINK).chain(NUMBERS.iter().map(|(field, ..)| *field)).collect();
            format!("`{short}` is no field of it: those are {}", all.join(", "))
        }
    }
}

fn number_of(fields: &Map<String, Value>, (name, least, most): (&str, u64, u64)) -> Result<u64, String> {
    let value = fields.get(name);
    value.and_then(Value::as_u64).filter(|number| (least..=most).contains(number)).ok_or_else(|| {
        format!("`{name}` is {}: it must be a whole number from {least} to {most}", shown(value))
    })
}

/// Formats a value for an error, shortened.
fn shown(value: Option<&Value>) -> String {
    value.map_or("missing".into(), |value| value.to_string().chars().take(40).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> FitFile {
        let link = LinkCost { latency_ns: 1, overhead_ns: 2, gap_ns: 3, byte_ps: 4 };
        let sharing = Sharing { cores: NonZeroU32::new(5).unwrap(), wake_ns: 6, cold_ns: 7 };
        FitFile {
            link: LinkKind::Tcp,
            machine_cores: NonZeroU32::new(8).unwrap(),
            cost: HostCost { link, sharing },
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let text = some().emit();
        assert_eq!(FitFile::parse(&text), Ok(some()));
        assert!(
            text.starts_with(
                "{\n  \"link\": \"tcp\",\n  \"machine_cores\": 8,\n  \"cores\": 5,\n  \"latency_ns\": 1,\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn faults_are_named() {
        let fault = |from: &str, to: &str| FitFile::parse(&some().emit().replace(from, to)).unwrap_err();
        let negative = fault("\"latency_ns\": 1", "\"latency_ns\": -1");
        assert_eq!(negative, "`latency_ns` is -1: it must be a whole number from 0 to 1000000000000");
        assert!(
            fault("\"cores\": 5", "\"cores\": 0")
                .starts_with("`cores` is 0: it must be a whole number from 1 to")
        );
        assert!(fault("\"wake_ns\": 6", "\"wake_ns\": 6.5").starts_with("`wake_ns` is 6.5: "));
        assert!(fault(",\n  \"cold_ns\": 7", "").starts_with("`cold_ns` is missing: "));
        assert!(
            fault("gap_ns", "gap_us").starts_with("`gap_us` is in another unit or in none: write `gap_ns`")
        );
        assert!(fault("gap_ns", "gap").starts_with("`gap` is in another unit or in none: write `gap_ns`"));
        assert!(
            fault("gap_ns", "colour")
                .starts_with("`colour` is no field of it: those are link, machine_cores,")
        );
        assert!(
            fault("\"tcp\"", "\"pigeon\"")
                .starts_with("`link` is \"pigeon\": it must be \"tcp\", \"unix\" or \"shm\"")
        );
        assert!(fault("}", "").starts_with("no JSON: "));
        assert_eq!(FitFile::parse("[1]").unwrap_err(), "no JSON object");
    }

    #[test]
    fn a_file_that_is_not_there_says_how_to_make_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none.json");
        let shown = path.display();
        let error = read_fit(&path).unwrap_err();
        assert!(
            error.starts_with(&format!("there is no file {shown}: make one with `gpc sim --fit {shown}`")),
            "{error}"
        );
        std::fs::write(&path, "{}").unwrap();
        assert!(read_fit(&path).unwrap_err().starts_with(&format!("{shown}: `link` is missing: ")));
    }
}
