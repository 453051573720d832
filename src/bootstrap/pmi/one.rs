//! PMI-1: one line for each request and each response, of words `name=value`.

use super::mapping::{MAPPING, is_one_host};
use super::messages::{Answer, Ask, Fault};
use super::process::Process;

/// Number of lines of a response in port mode: an acknowledgement and three values.
const PORT_LINES: usize = 4;

/// Encodes a request.
pub(super) fn question(process: &Process, ask: &Ask) -> Vec<u8> {
    let name = &process.name;
    let line = match ask {
        Ask::Port => format!("cmd=initack pmiid={}", process.id),
        Ask::Init => "cmd=init pmi_version=1 pmi_subversion=1".into(),
        Ask::Register => "cmd=get_maxes".into(),
        Ask::Name => "cmd=get_my_kvsname".into(),
        Ask::Mapping => format!("cmd=get kvsname={name} key={MAPPING}"),
        Ask::Put { key, value } => format!("cmd=put kvsname={name} key={key} value={value}"),
        Ask::Fence => "cmd=barrier_in".into(),
        Ask::Get { key, .. } => format!("cmd=get kvsname={name} key={key}"),
        Ask::Finish => "cmd=finalize".into(),
    };
    (line + "\n").into_bytes()
}

/// Returns the first complete response, without its newline, and the number of bytes that it takes with it.
pub(super) fn cut<'a>(came: &'a [u8], ask: &Ask) -> Option<(&'a [u8], usize)> {
    let lines = if matches!(ask, Ask::Port) { PORT_LINES } else { 1 };
    let mut ends = came.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let (end, _) = ends.nth(lines - 1)?;
    Some((&came[..end], end + 1))
}

/// Parses a response.
pub(super) fn answer(process: &mut Process, ask: &Ask, text: &str) -> Result<Answer, Fault> {
    let nonsense = || Fault::nonsense(text);
    let expected = match ask {
        Ask::Port => return port(process, text),
        Ask::Init => "response_to_init",
        Ask::Register => "maxes",
        Ask::Name => "my_kvsname",
        Ask::Put { .. } => "put_result",
        Ask::Fence => "barrier_out",
        Ask::Get { .. } | Ask::Mapping => "get_result",
        Ask::Finish => "finalize_ack",
    };
    if field(text, "cmd") != Some(expected) {
        return Err(nonsense());
    }
    let rc = field(text, "rc");
    match ask {
        Ask::Get { .. } if rc != Some("0") => return Ok(Answer::Missing(Fault::refused(text).to_string())),
        Ask::Mapping if rc != Some("0") => return Ok(Answer::Done),
        Ask::Init if rc != Some("0") || field(text, "pmi_version") != Some("1") => {
            return Err(Fault::refused(text));
        }
        _ if !matches!(rc, None | Some("0")) => return Err(Fault::refused(text)),
        _ => {}
    }
    match ask {
        Ask::Register => {
            let max = field(text, "vallen_max").and_then(|max| max.parse().ok());
            max.and_then(|max| process.set_value_max(max)).ok_or_else(nonsense)?;
        }
        Ask::Name => {
            process.name =
                field(text, "kvsname").filter(|name| !name.is_empty()).ok_or_else(nonsense)?.into();
        }
        Ask::Mapping => process.one_host = field(text, "value").and_then(is_one_host),
        Ask::Get { .. } => {
            return Ok(Answer::Value(field(text, "value").ok_or_else(nonsense)?.into()));
        }
        _ => {}
    }
    Ok(Answer::Done)
}

/// Parses what a server in port mode reports about the connected process.
fn port(process: &mut Process, text: &str) -> Result<Answer, Fault> {
    let mut lines = text.lines();
    if lines.next().and_then(|line| field(line, "cmd")) != Some("initack") {
        return Err(Fault::nonsense(text));
    }
    let number = |name: &str| {
        let line = text.lines().find(|line| field(line, "cmd") == Some("set") && field(line, name).is_some());
        line.and_then(|line| field(line, name)?.parse::<u32>().ok())
    };
    match (number("rank"), number("size")) {
        (Some(id), Some(count)) if id < count => {
            (process.id, process.count) = (id, count);
            Ok(Answer::Done)
        }
        _ => Err(Fault::nonsense(text)),
    }
}

/// The value of a field in a line: one word, but for `value`, which extends to the end of the line.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = line;
    // Terminates: each iteration consumes a word.
    loop {
        rest = rest.trim_start_matches(' ');
        if rest.is_empty() {
            return None;
        }
        let (word, behind) = rest.split_once(' ').unwrap_or((rest, ""));
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        if key == "value" {
            return (name == key).then(|| &rest["value=".len().min(rest.len())..]);
        }
        if key == name {
            return Some(value);
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_process() -> Process {
        Process { id: 1, count: 2, name: "kvs_7".into(), ..Process::default() }
    }

    #[test]
    fn questions_are_lines() {
        let line = |ask: Ask| String::from_utf8(question(&own_process(), &ask)).unwrap();
        assert_eq!(line(Ask::Port), "cmd=initack pmiid=1\n");
        assert_eq!(line(Ask::Init), "cmd=init pmi_version=1 pmi_subversion=1\n");
        assert_eq!(line(Ask::Register), "cmd=get_maxes\n");
        assert_eq!(line(Ask::Name), "cmd=get_my_kvsname\n");
        assert_eq!(line(Ask::Mapping), "cmd=get kvsname=kvs_7 key=PMI_process_mapping\n");
        let put = Ask::Put { key: "gpc.job".into(), value: "1,a".into() };
        assert_eq!(line(put), "cmd=put kvsname=kvs_7 key=gpc.job value=1,a\n");
        assert_eq!(line(Ask::Get { of: 5, key: "k".into() }), "cmd=get kvsname=kvs_7 key=k\n");
        assert_eq!(line(Ask::Fence) + &line(Ask::Finish), "cmd=barrier_in\ncmd=finalize\n");
    }

    #[test]
    fn answers_are_believed_as_far_as_they_make_sense() {
        let mut process = own_process();
        let mut said = |ask: Ask, text: &str| answer(&mut process, &ask, text);
        let get = || Ask::Get { of: 0, key: "k".into() };
        let put = || Ask::Put { key: "k".into(), value: "v".into() };
        let done = Ok(Answer::Done);
        assert_eq!(said(Ask::Init, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"), done);
        assert_eq!(said(Ask::Register, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024"), done);
        assert_eq!(said(Ask::Name, "cmd=my_kvsname kvsname=kvs_9"), done);
        assert_eq!(said(Ask::Mapping, "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))"), done);
        assert_eq!(said(put(), "cmd=put_result rc=0 msg=success"), done);
        assert_eq!(said(Ask::Fence, "cmd=barrier_out tag=0"), done);
        let value = said(get(), "cmd=get_result rc=0 msg=success value=a b=c -");
        assert_eq!(value, Ok(Answer::Value("a b=c -".into())));
        let missing = said(get(), "cmd=get_result rc=-1 msg=key_k_not_found value=unknown").unwrap();
        assert!(matches!(missing, Answer::Missing(why) if why.contains("key_k_not_found")));
        assert!(matches!(said(Ask::Init, "cmd=response_to_init pmi_version=2 rc=0"), Err(Fault::Refused(_))));
        assert!(matches!(
            said(Ask::Init, "cmd=response_to_init pmi_version=1 rc=-1"),
            Err(Fault::Refused(_))
        ));
        assert!(matches!(said(put(), "cmd=put_result rc=-1 msg=full"), Err(Fault::Refused(_))));
        for (ask, text) in [
            (Ask::Fence, "cmd=put_result rc=0"),
            (Ask::Register, "cmd=maxes vallen_max=many"),
            (Ask::Register, "cmd=maxes vallen_max=3"),
            (Ask::Name, "cmd=my_kvsname kvsname="),
            (get(), "cmd=get_result rc=0 msg=success"),
            (get(), "value"),
            (Ask::Port, "cmd=initack\ncmd=set size=2\ncmd=set rank=2\ncmd=set debug=0"),
            (Ask::Port, "cmd=initack"),
        ] {
            assert!(matches!(said(ask.clone(), text), Err(Fault::Nonsense(_))), "{ask:?}: {text}");
        }
        let expected =
            Process { name: "kvs_9".into(), value_max: 1023, one_host: Some(true), ..own_process() };
        assert_eq!(process, expected);
    }

    #[test]
    fn a_server_in_port_mode_says_who_has_connected() {
        let mut process = own_process();
        let text = b"cmd=initack\ncmd=set size=5\ncmd=set rank=3\ncmd=set debug=0\n";
        assert_eq!(cut(&text[..text.len() - 1], &Ask::Port), None);
        let (lines, end) = cut(text, &Ask::Port).unwrap();
        assert_eq!(end, text.len());
        answer(&mut process, &Ask::Port, std::str::from_utf8(lines).unwrap()).unwrap();
        assert_eq!((process.id, process.count), (3, 5));
    }
}
