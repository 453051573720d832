//! PMI-2: the opening is a line as in PMI-1. Each later message is a length of six characters, then
//! `cmd=...;name=value;...` of that length.
//!
//! MPICH aligns the length to the right of its six characters, Slurm to the left. A semicolon within a value is
//! doubled.

use super::mapping::{MAPPING, is_one_host};
use super::messages::{Answer, Ask, Fault};
use super::one;
use super::process::Process;

/// Number of characters of a length.
const LENGTH: usize = 6;

/// Maximum length of a value, including its terminator, as PMI-2 defines it.
const VALUE_MAX: usize = 1024;

/// Encodes a request.
pub(super) fn question(process: &Process, ask: &Ask) -> Vec<u8> {
    let body = match ask {
        // Slurm's server accepts only connections of its own job, so the request names the job.
        Ask::Register => {
            let job = process.job.iter().fold(String::new(), |_, job| format!("pmijobid={job};"));
            format!("cmd=fullinit;{job}pmirank={};threaded=FALSE;", process.id)
        }
        Ask::Name => "cmd=job-getid;".into(),
        Ask::Mapping => format!("cmd=info-getjobattr;key={MAPPING};"),
        Ask::Put { key, value } => format!("cmd=kvs-put;key={key};value={};", value.replace(';', ";;")),
        Ask::Fence => "cmd=kvs-fence;".into(),
        Ask::Get { of, key } => format!("cmd=kvs-get;jobid={};srcid={of};key={key};", process.name),
        Ask::Finish => "cmd=finalize;".into(),
        Ask::Init => return b"cmd=init pmi_version=2 pmi_subversion=0\n".to_vec(),
        Ask::Port => return one::question(process, ask),
    };
    format!("{:>LENGTH$}{body}", body.len()).into_bytes()
}

/// Returns the first complete message, without its length prefix, and its total length.
pub(super) fn cut(came: &[u8]) -> Result<Option<(&[u8], usize)>, Fault> {
    let Some(length) = came.get(..LENGTH) else { return Ok(None) };
    let number = std::str::from_utf8(length).ok().map(str::trim);
    let number = number.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let Some(number) = number.and_then(|text| text.parse::<usize>().ok()) else {
        return Err(Fault::nonsense(&String::from_utf8_lossy(came)));
    };
    let end = LENGTH + number;
    Ok(came.get(LENGTH..end).map(|message| (message, end)))
}

/// Parses a response.
pub(super) fn answer(process: &mut Process, ask: &Ask, text: &str) -> Result<Answer, Fault> {
    let nonsense = || Fault::nonsense(text);
    let expected = match ask {
        Ask::Port => return one::answer(process, ask, text),
        Ask::Init => return opened(text),
        Ask::Register => "fullinit-response",
        Ask::Name => "job-getid-response",
        Ask::Mapping => "info-getjobattr-response",
        Ask::Put { .. } => "kvs-put-response",
        Ask::Fence => "kvs-fence-response",
        Ask::Get { .. } => "kvs-get-response",
        Ask::Finish => "finalize-response",
    };
    let field = |name: &str| fields(text).find(|(key, _)| key == name).map(|(_, value)| value);
    if field("cmd").as_deref() != Some(expected) {
        return Err(nonsense());
    }
    let done = field("rc").as_deref() == Some("0");
    let found = field("found").is_none_or(|found| found == "TRUE");
    match ask {
        Ask::Mapping if !done || !found => return Ok(Answer::Done),
        Ask::Get { .. } if !done || !found => {
            return Ok(Answer::Missing(Fault::refused(text).to_string()));
        }
        _ if !done => return Err(Fault::refused(text)),
        _ => {}
    }
    match ask {
        Ask::Register => {
            let number = |name: &str| field(name).and_then(|number| number.parse::<u32>().ok());
            let (Some(id), Some(count)) = (number("rank"), number("size")) else { return Err(nonsense()) };
            // Slurm's server responds to a wrong job with size 0.
            if (id, count) != (process.id, process.count) {
                return Err(Fault::OtherId { id, count, told: process.id, of: process.count });
            }
            process.set_value_max(VALUE_MAX).ok_or_else(nonsense)?;
        }
        Ask::Name => process.name = field("jobid").filter(|name| !name.is_empty()).ok_or_else(nonsense)?,
        Ask::Mapping => process.one_host = field("value").as_deref().and_then(is_one_host),
        Ask::Get { .. } => return Ok(Answer::Value(field("value").ok_or_else(nonsense)?)),
        _ => {}
    }
    Ok(Answer::Done)
}

/// Whether the server supports PMI-2, from its response to the opening line.
fn opened(line: &str) -> Result<Answer, Fault> {
    let has = |word: &str| line.split(' ').any(|said| said == word);
    match (has("cmd=response_to_init"), has("rc=0") && has("pmi_version=2")) {
        (true, true) => Ok(Answer::Done),
        (true, false) => Err(Fault::refused(line)),
        (false, _) => Err(Fault::nonsense(line)),
    }
}

/// The fields of a message as names and values. Doubled semicolons are unescaped.
fn fields(text: &str) -> impl Iterator<Item = (String, String)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut word = String::new();
        if rest.is_empty() {
            return None;
        }
        // Terminates: each iteration consumes a part of the rest.
        loop {
            let (part, behind) = rest.split_once(';').unwrap_or((rest, ""));
            word.push_str(part);
            match behind.strip_prefix(';') {
                Some(behind) => (rest, word) = (behind, word + ";"),
                None => {
                    rest = behind;
                    break;
                }
            }
            if rest.is_empty() {
                break;
            }
        }
        let (key, value) = word.split_once('=').unwrap_or((&word, ""));
        Some((key.to_owned(), value.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_process() -> Process {
        Process { id: 1, count: 2, name: "J".into(), ..Process::default() }
    }

    #[test]
    fn questions_carry_their_length() {
        let text = |process: &Process, ask: Ask| String::from_utf8(question(process, &ask)).unwrap();
        let slurm = Process { job: Some("77.0".into()), ..own_process() };
        assert_eq!(text(&own_process(), Ask::Init), "cmd=init pmi_version=2 pmi_subversion=0\n");
        assert_eq!(text(&own_process(), Ask::Register), "    38cmd=fullinit;pmirank=1;threaded=FALSE;");
        assert_eq!(text(&slurm, Ask::Register), "    52cmd=fullinit;pmijobid=77.0;pmirank=1;threaded=FALSE;");
        assert_eq!(text(&own_process(), Ask::Name), "    14cmd=job-getid;");
        let put = Ask::Put { key: "key0".into(), value: "got".into() };
        assert_eq!(text(&own_process(), put), "    31cmd=kvs-put;key=key0;value=got;");
        assert_eq!(text(&own_process(), Ask::Fence), "    14cmd=kvs-fence;");
        let get = Ask::Get { of: 0, key: "key0".into() };
        assert_eq!(text(&own_process(), get), "    37cmd=kvs-get;jobid=J;srcid=0;key=key0;");
        assert_eq!(text(&own_process(), Ask::Finish), "    13cmd=finalize;");
    }

    #[test]
    fn both_ways_to_write_a_length_are_read() {
        for text in ["    13cmd=finalize;", "13    cmd=finalize;", "000013cmd=finalize;"] {
            assert_eq!(cut(text.as_bytes()), Ok(Some((&b"cmd=finalize;"[..], 19))), "{text}");
            assert_eq!(cut(&text.as_bytes()[..18]), Ok(None));
            assert_eq!(cut(&text.as_bytes()[..5]), Ok(None));
        }
        for text in ["      cmd=finalize;", "-00013cmd", "cmd=finalize;", "1 3   ", "999999x"] {
            let whole = cut(text.as_bytes());
            assert!(matches!(whole, Err(Fault::Nonsense(_)) | Ok(None)), "{text}");
        }
        assert_eq!(cut(b"999999x"), Ok(None), "it is refused when too much has come");
    }

    #[test]
    fn answers_are_believed_as_far_as_they_make_sense() {
        let mut process = own_process();
        let mut said = |ask: Ask, text: &str| answer(&mut process, &ask, text);
        let get = || Ask::Get { of: 0, key: "k".into() };
        let done = Ok(Answer::Done);
        assert_eq!(said(Ask::Init, "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0"), done);
        let full = "cmd=fullinit-response;rc=0;rank=1;size=2;appnum=0;pmiverbose=0;";
        assert_eq!(said(Ask::Register, full), done);
        assert_eq!(said(Ask::Name, "cmd=job-getid-response;rc=0;jobid=K;"), done);
        let mapping = "cmd=info-getjobattr-response;rc=0;found=TRUE;value=(vector,(0,2,1));";
        assert_eq!(said(Ask::Mapping, mapping), done);
        assert_eq!(said(Ask::Fence, "cmd=kvs-fence-response;rc=0;"), done);
        let value = said(get(), "cmd=kvs-get-response;rc=0;found=TRUE;value=got;;key0=;");
        assert_eq!(value, Ok(Answer::Value("got;key0=".into())));
        for missing in ["cmd=kvs-get-response;rc=0;found=FALSE;", "cmd=kvs-get-response;rc=14;errmsg=no;"] {
            assert!(matches!(said(get(), missing), Ok(Answer::Missing(_))));
        }
        assert!(matches!(said(Ask::Init, "cmd=response_to_init pmi_version=1 rc=0"), Err(Fault::Refused(_))));
        assert!(matches!(said(Ask::Fence, "cmd=kvs-fence-response;rc=3;"), Err(Fault::Refused(_))));
        let none = said(Ask::Register, "cmd=fullinit-response;rc=0;rank=1;size=0;");
        assert_eq!(none, Err(Fault::OtherId { id: 1, count: 0, told: 1, of: 2 }));
        for (ask, text) in [
            (Ask::Fence, "cmd=kvs-put-response;rc=0;"),
            (Ask::Register, "cmd=fullinit-response;rc=0;size=2;"),
            (Ask::Name, "cmd=job-getid-response;rc=0;jobid=;"),
            (get(), "cmd=kvs-get-response;rc=0;found=TRUE;"),
            (Ask::Init, "hello"),
        ] {
            assert!(matches!(said(ask.clone(), text), Err(Fault::Nonsense(_))), "{ask:?}: {text}");
        }
        let expected = Process { name: "K".into(), value_max: 1023, one_host: Some(false), ..own_process() };
        assert_eq!(process, expected);
    }
}
