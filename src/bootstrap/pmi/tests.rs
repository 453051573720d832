//! Sessions with a test server, which speaks both versions, and fails on demand.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use super::*;
use crate::bootstrap::{Member, Space as _, Variables, sources};
use crate::runtime::{Call, Functions, Loss};

/// Long enough for everything that succeeds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Short enough that a test can wait for it.
const SHORT: Duration = Duration::from_millis(200);

/// How the server fails at one of its responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    Silent,
    Dies,
    Garbage,
    Refuses,
    Endless,
    /// Half of the response, then nothing.
    Half,
}

/// The state that all connections of the server share.
struct Server {
    count: u32,
    values: Mutex<BTreeMap<String, String>>,
    fence: Barrier,
    /// The supported versions.
    versions: &'static [&'static str],
    /// Whether lengths are aligned as Slurm does, or as MPICH does.
    slurm: bool,
    value_max: usize,
    mapping: &'static str,
}

impl Server {
    fn new(count: u32) -> Server {
        Server {
            count,
            values: Mutex::default(),
            fence: Barrier::new(count as usize),
            versions: &["1", "2"],
            slurm: false,
            value_max: 1024,
            mapping: "(vector,(0,1,99))",
        }
    }

    /// The response to a request, without terminator or length.
    fn answer(&self, id: u32, question: &str) -> String {
        let get = |name: &str| {
            let found = question.split([' ', ';']).find_map(|word| word.strip_prefix(&format!("{name}=")));
            found.unwrap_or_default().to_owned()
        };
        let value = |key: &str| match key {
            "PMI_process_mapping" => Some(self.mapping.to_owned()).filter(|mapping| !mapping.is_empty()),
            key => self.values.lock().unwrap().get(key).cloned(),
        };
        match get("cmd").as_str() {
            "init" if self.versions.contains(&get("pmi_version").as_str()) => {
                format!("cmd=response_to_init pmi_version={} pmi_subversion=0 rc=0", get("pmi_version"))
            }
            "init" => "cmd=response_to_init pmi_version=9 pmi_subversion=0 rc=-1".into(),
            "get_maxes" => format!("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max={}", self.value_max),
            "get_my_kvsname" => "cmd=my_kvsname kvsname=kvs_1".into(),
            "put" => {
                assert!(get("value").len() < self.value_max && get("key").len() < 64);
                self.values.lock().unwrap().insert(get("key"), get("value"));
                "cmd=put_result rc=0 msg=success".into()
            }
            "get" => match value(&get("key")) {
                Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                None => format!("cmd=get_result rc=-1 msg=key_{}_not_found value=unknown", get("key")),
            },
            "barrier_in" => {
                self.fence.wait();
                "cmd=barrier_out".into()
            }
            "finalize" if question.ends_with(';') => "cmd=finalize-response;rc=0;".into(),
            "finalize" => "cmd=finalize_ack".into(),
            "fullinit" => {
                let count = if self.slurm && get("pmijobid") != "7.0" { 0 } else { self.count };
                format!("cmd=fullinit-response;rc=0;rank={id};size={count};appnum=0;")
            }
            "job-getid" => "cmd=job-getid-response;rc=0;jobid=J;".into(),
            "info-getjobattr" => match value(&get("key")) {
                Some(value) => format!("cmd=info-getjobattr-response;rc=0;found=TRUE;value={value};"),
                None => "cmd=info-getjobattr-response;rc=0;found=FALSE;".into(),
            },
            "kvs-put" => {
                self.values.lock().unwrap().insert(get("key"), get("value"));
                "cmd=kvs-put-response;rc=0;".into()
            }
            "kvs-get" => match value(&get("key")) {
                Some(value) => format!("cmd=kvs-get-response;rc=0;found=TRUE;value={value};"),
                None => "cmd=kvs-get-response;rc=0;found=FALSE;".into(),
            },
            "kvs-fence" => {
                self.fence.wait();
                "cmd=kvs-fence-response;rc=0;".into()
            }
            other => panic!("the client asks for {other:?}: {question}"),
        }
    }

    /// Serves one process until it ends, and fails at the response of this number.
    fn serve(&self, id: u32, stream: UnixStream, wrong: Option<(usize, Wrong)>) -> Vec<String> {
        let mut writer = stream.try_clone().unwrap();
        let mut reader = BufReader::new(stream);
        let (mut asked, mut messages) = (Vec::new(), false);
        while let Some(question) = next(&mut reader, messages) {
            let answer = self.answer(id, &question);
            let framed = |answer: &str| match messages {
                false => format!("{answer}\n"),
                true if self.slurm => format!("{:<6}{answer}", answer.len()),
                true => format!("{:>6}{answer}", answer.len()),
            };
            let (bytes, refusal) = (framed(&answer), framed(&answer.replace("rc=0", "rc=-1")));
            messages |= answer.starts_with("cmd=response_to_init pmi_version=2") && answer.ends_with("rc=0");
            asked.push(question);
            let place = asked.len() - 1;
            let Some((_, wrong)) = wrong.filter(|(at, _)| *at == place) else {
                // The client may have gone.
                let _ = writer.write_all(bytes.as_bytes());
                continue;
            };
            let _ = match wrong {
                Wrong::Silent => Ok(()),
                Wrong::Dies => break,
                Wrong::Garbage => writer.write_all(b"\xff\x1b[2Jcmd=nonsense rc=0 \xc3\n14    \n"),
                Wrong::Refuses => writer.write_all(refusal.as_bytes()),
                Wrong::Endless => writer.write_all(&[b'9'; 100_000]),
                Wrong::Half => writer.write_all(&bytes.as_bytes()[..bytes.len() / 2]),
            };
        }
        asked
    }
}

/// The next request: a line, or a message with a length prefix.
fn next(reader: &mut BufReader<UnixStream>, messages: bool) -> Option<String> {
    if !messages {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        return Some(line.trim_end_matches('\n').to_owned());
    }
    let mut length = [0; 6];
    reader.read_exact(&mut length).ok()?;
    let length: usize = std::str::from_utf8(&length).unwrap().trim().parse().unwrap();
    let mut message = vec![0; length];
    reader.read_exact(&mut message).ok()?;
    Some(String::from_utf8(message).unwrap())
}

/// Runs one process whose server may fail; returns its result and the requests that the server received.
fn with_server<T>(
    server: Server,
    wrong: Option<(usize, Wrong)>,
    use_it: impl FnOnce(Link, Process) -> T,
) -> (T, Vec<String>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let process = Process { id: 0, count: server.count, job: Some("7.0".into()), ..Process::default() };
    let serving = thread::spawn(move || server.serve(0, theirs, wrong));
    let result = use_it(Link::closing(ours.into()), process);
    (result, serving.join().unwrap())
}

/// All requests of one process, from the opening to the end.
fn whole(link: Link, process: Process, limit: Duration) -> Result<(&'static str, String), BootstrapError> {
    let clock = Clock::system();
    let bootstrap = open(link, &process, (&clock, &clock.limit(limit)))?;
    let crate::bootstrap::setup::ExchangeMethod::Space(mut space) = bootstrap.method else {
        panic!("it is a space")
    };
    space.put("key", "value", limit)?;
    space.fence(limit)?;
    let value = space.get(0, "key", limit)?;
    space.finish(limit)?;
    Ok((space.launcher(), format!("{} {value} {:?}", space.name(), space.one_host())))
}

#[test]
fn a_server_is_spoken_to_in_the_first_version_that_it_speaks() {
    let spoken =
        |server: Server| with_server(server, None, |link, process| whole(link, process, PATIENCE)).0.unwrap();
    assert_eq!(spoken(Server::new(1)), ("PMI-1", "kvs_1 value Some(true)".into()));
    let two = |slurm| Server { versions: &["2"], slurm, mapping: "", ..Server::new(1) };
    for slurm in [false, true] {
        assert_eq!(spoken(two(slurm)), ("PMI-2", "J value None".into()));
    }
    let neither = Server { versions: &["3"], ..Server::new(1) };
    let (error, asked) = with_server(neither, None, |link, process| whole(link, process, PATIENCE));
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with("PMI-2: to open the conversation") && error.contains("PMI-1: the server refuses"),
        "{error}"
    );
    assert_eq!(asked.len(), 2);
}

/// Runs a process whose server goes wrong at a step. A short limit may pass on a busy machine before the process gets
/// there: then it has twice the time.
fn until_step(
    step: usize,
    wrong: Wrong,
    server: impl Fn() -> Server,
) -> (Result<(&'static str, String), BootstrapError>, Vec<String>) {
    let waits = matches!(wrong, Wrong::Silent | Wrong::Half);
    let mut limit = if waits { SHORT } else { PATIENCE };
    loop {
        let (result, asked) =
            with_server(server(), Some((step, wrong)), |link, process| whole(link, process, limit));
        if asked.len() > step || limit >= PATIENCE {
            return (result, asked);
        }
        limit = PATIENCE.min(limit * 2);
    }
}

#[test]
fn a_server_that_goes_wrong_at_any_step_is_an_error_that_says_what_was_asked() {
    for versions in [&["1"], &["2"]] {
        let server = || Server { versions, ..Server::new(1) };
        let (_, asked) = with_server(server(), None, |link, process| whole(link, process, PATIENCE).unwrap());
        for step in 0..asked.len() {
            for wrong in
                [Wrong::Silent, Wrong::Dies, Wrong::Garbage, Wrong::Refuses, Wrong::Endless, Wrong::Half]
            {
                let (result, so_far) = until_step(step, wrong, server);
                let context = format!("{wrong:?} at {:?}", so_far[step]);
                // Some responses have no result code, a session goes on without a mapping, and a refused version leads
                // to a request for the other.
                let question = &asked[step];
                let optional =
                    question.contains("PMI_process_mapping") || question.contains("init pmi_version=1");
                let optional = optional && wrong == Wrong::Refuses && (step > 0 || *versions == ["2"]);
                let bare = ["get_maxes", "my_kvsname", "barrier_in", "cmd=finalize"];
                let bare = wrong == Wrong::Refuses
                    && *versions == ["1"]
                    && bare.iter().any(|bare| question.contains(bare));
                if optional || bare {
                    result.unwrap_or_else(|error| panic!("{context}: {error}"));
                    continue;
                }
                let error = result.expect_err(&context).to_string();
                let said = match wrong {
                    Wrong::Silent | Wrong::Half => "no answer within",
                    Wrong::Dies => "closed its end",
                    Wrong::Garbage => "nonsense",
                    Wrong::Refuses => "refuses",
                    Wrong::Endless => "longer than",
                };
                let nonsense = wrong == Wrong::Endless && error.contains("nonsense");
                assert!(error.contains(said) || nonsense, "{context}: {error}");
                assert!(error.starts_with("PMI-") && error.contains(": to "), "{context}: {error}");
                assert!(!error.contains('\u{1b}') && error.len() < 2000, "{context}: {error}");
            }
        }
    }
}

/// Runs `count` processes, each on a thread, over one server; returns what each makes of its member, by id.
fn job<T: Send + 'static>(
    server: Server,
    each: impl Fn(Member) -> T + Send + Sync + 'static,
) -> Vec<Result<T, BootstrapError>> {
    let (server, each) = (Arc::new(server), Arc::new(each));
    let start = |id: u32| {
        let (server, each) = (server.clone(), each.clone());
        thread::spawn(move || {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let process = Process { id, count: server.count, job: Some("7.0".into()), ..Process::default() };
            let serving = thread::spawn(move || server.serve(id, theirs, None));
            let functions = Functions::new();
            functions
                .func("id", |request, reply| {
                    reply.data = request.me().to_string().into_bytes();
                    Ok(())
                })
                .unwrap();
            let clock = Clock::system();
            let bootstrap = open(Link::closing(ours.into()), &process, (&clock, &clock.limit(PATIENCE)))?;
            let result =
                bootstrap.limit(PATIENCE).start(&functions, |builder| builder).map(|member| each(member));
            serving.join().unwrap();
            result
        })
    };
    let threads: Vec<_> = (0..server.count).map(start).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn processes_of_a_server_get_to_know_each_other() {
    let short = |count| Server { value_max: 40, versions: &["1"], ..Server::new(count) };
    let two = |count| Server { versions: &["2"], slurm: true, ..Server::new(count) };
    for server in [Server::new(1), Server::new(2), Server::new(3), Server::new(13), short(5), two(6)] {
        let count = server.count;
        let all_called = Barrier::new(count as usize);
        // Each id calls all others through ids that it has not linked with before; then id 0 leaves.
        let each = move |mut member: Member| {
            assert_eq!((member.peers().len(), member.hosts().len()), (count as usize, 1));
            let func = member.functions().named("id").unwrap();
            let ids = gpc_trees::IdList::range(0..count).with_first(member.id());
            let outcome =
                member.call(Call::new(func).ids(ids).tree(gpc_trees::Tree::Chain)).unwrap().wait().unwrap();
            let replies = outcome.replies().unwrap();
            assert!(replies.iter().all(|reply| reply.data == reply.id.to_string().as_bytes()));
            all_called.wait();
            let loss = (member.id() > 0).then(|| member.serve_until_left().unwrap());
            let common = (member.job(), member.secret().cloned());
            member.finish(PATIENCE).unwrap();
            (replies.len(), loss, common)
        };
        let all: Vec<_> = job(server, each).into_iter().map(Result::unwrap).collect();
        for (id, (replies, loss, common)) in all.iter().enumerate() {
            assert_eq!(*replies, count as usize);
            assert_eq!(*loss, (id > 0).then_some(Loss::Left), "id {id} of {count}");
            assert!(*common == all[0].2 && !common.0.is_none());
        }
    }
}

#[test]
fn variables_that_do_not_lead_to_a_server_are_an_error() {
    let variables = |pairs: &[(&str, &str)]| -> Variables {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    };
    assert!(sources::find(&variables(&[("PATH", "/bin"), ("HOME", "/")])).unwrap().is_none());
    for (pairs, why) in [
        (&[("PMI_RANK", "0")][..], "neither PMI_FD nor PMI_PORT"),
        (&[("PMI_FD", "x"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")], "PMI_FD=`x` is no number"),
        (&[("PMI_FD", "7"), ("PMI_SIZE", "1")], "PMI_RANK is missing"),
        (&[("PMI_FD", "7"), ("PMI_RANK", "0")], "PMI_SIZE is missing"),
        (&[("PMI_FD", "7"), ("PMI_RANK", "2"), ("PMI_SIZE", "2")], "PMI_RANK=2 is not below PMI_SIZE=2"),
        (&[("PMI_FD", "7"), ("PMI_RANK", "0"), ("PMI_SIZE", "0")], "is not below"),
        (&[("PMI_PORT", "host:1")], "PMI_ID is missing"),
    ] {
        let error = sources::find(&variables(pairs)).map(drop).unwrap_err().to_string();
        assert!(
            error.starts_with("PMI seems to have started this process") && error.contains(why),
            "{error}"
        );
    }
    // The server is not there.
    let there = [("PMI_FD", "999999"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")];
    let error = sources::find(&variables(&there)).unwrap().unwrap().open(SHORT).unwrap_err().to_string();
    assert!(error.contains("over descriptor 999999 (PMI_FD): nothing is open there"), "{error}");
    let port = [("PMI_PORT", "127.0.0.1:1"), ("PMI_ID", "0")];
    let error = sources::find(&variables(&port)).unwrap().unwrap().open(SHORT).unwrap_err().to_string();
    assert!(error.contains("cannot be reached at `127.0.0.1:1` (PMI_PORT)"), "{error}");
}

#[test]
fn a_server_in_port_mode_says_which_process_has_connected() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serving = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut writer = stream.try_clone().unwrap();
        let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
        assert_eq!(lines.next().unwrap(), "cmd=initack pmiid=5");
        writer.write_all(b"cmd=initack\ncmd=set size=4\ncmd=set rank=2\n").unwrap();
        writer.write_all(b"cmd=set debug=0\n").unwrap();
        let server = Server::new(4);
        for line in lines {
            writeln!(writer, "{}", server.answer(2, &line)).unwrap();
        }
    });
    let variables = [("PMI_PORT", address.as_str()), ("PMI_ID", "5")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let bootstrap = sources::find(&variables).unwrap().unwrap().open(PATIENCE).unwrap();
    assert_eq!((bootstrap.id(), bootstrap.count(), bootstrap.launcher()), (Some(2), Some(4), "PMI-1"));
    let crate::bootstrap::setup::ExchangeMethod::Space(mut space) = bootstrap.method else {
        panic!("it is a space")
    };
    space.finish(PATIENCE).unwrap();
    drop(space);
    serving.join().unwrap();
}

/// A space of one process, its server's end of the socket, and the seconds that its clock shows. `read` is called with
/// the number of each reading; so the server may speak while the client waits, and no test waits for the time.
fn space_by(
    version: Version,
    read: impl Fn(usize, &mut UnixStream) -> Duration + Send + Sync + 'static,
) -> (PmiSpace, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let readings = AtomicUsize::new(0);
    let server = Mutex::new(theirs.try_clone().unwrap());
    let clock =
        Clock::reading(move || read(readings.fetch_add(1, Ordering::Relaxed), &mut server.lock().unwrap()));
    let process = Process { count: 1, name: "k".into(), value_max: 1023, ..Process::default() };
    (PmiSpace::of(version, process, Link::closing(ours.into()), clock), theirs)
}

/// Of all requests, only a put had the limit of 30 s of one that depends on no other process. A server that hung cost
/// the whole time limit.
#[test]
fn each_response_has_its_limit_and_a_fence_that_of_the_caller() {
    type Operation = fn(&mut PmiSpace, Duration) -> Result<(), SpaceError>;
    let operations: [(Operation, &str, u64); 4] = [
        (|space, limit| space.put("a", "b", limit), "cmd=put_result rc=0", 30),
        (|space, limit| space.get(0, "a", limit).map(drop), "cmd=get_result rc=0 value=x", 30),
        (|space, limit| space.finish(limit), "cmd=finalize_ack", 30),
        (|space, limit| space.fence(limit), "cmd=barrier_out", 120),
    ];
    for (operation, answer, limit) in operations {
        // The first reading begins the limit, and the second one precedes the wait.
        let at = |late: Duration| {
            let (mut space, server) = space_by(Version::One, move |reading, server| {
                if reading == 0 {
                    return Duration::from_secs(1000);
                }
                writeln!(server, "{answer}").unwrap();
                Duration::from_secs(1000 + limit) - Duration::from_millis(1) + late
            });
            let result = operation(&mut space, Duration::from_secs(120));
            drop(server);
            result
        };
        at(Duration::ZERO).unwrap_or_else(|error| panic!("{answer}: {error}"));
        let error = at(Duration::from_millis(1)).unwrap_err().to_string();
        assert!(error.ends_with(&format!("there was no answer within {limit}s")), "{error}");
    }
    // The caller's limit counts if it is shorter.
    let (mut space, _server) = space_by(Version::One, |reading, _| Duration::from_secs(10 * reading as u64));
    let error = space.get(0, "a", Duration::from_secs(10)).unwrap_err().to_string();
    assert!(error.starts_with("PMI-1: to get `a` of id 0: ") && error.ends_with("within 10s"), "{error}");
}

/// Both versions together have the caller's limit: a server that refused the first one late had as long again.
#[test]
fn the_opening_has_one_limit_whatever_the_version() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    writeln!(theirs, "cmd=response_to_init pmi_version=2 rc=-1").unwrap();
    theirs.set_nonblocking(true).unwrap();
    let (readings, server) = (AtomicUsize::new(0), Mutex::new((Some(theirs), String::new())));
    let clock = Clock::reading(move || {
        // The server ends once it has the second request: a client that waits for its response does not wait long.
        let (server, requests) = &mut *server.lock().unwrap();
        let mut bytes = [0; 256];
        let read = server.as_mut().and_then(|server| server.read(&mut bytes).ok()).unwrap_or(0);
        requests.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        server.take_if(|_| requests.contains("pmi_version=2"));
        Duration::from_secs(if readings.fetch_add(1, Ordering::Relaxed) == 0 { 0 } else { 40 })
    });
    let limit = clock.limit(Duration::from_secs(40));
    let process = Process { count: 1, ..Process::default() };
    let error = open(Link::closing(ours.into()), &process, (&clock, &limit)).unwrap_err().to_string();
    assert!(error.starts_with("PMI-2: to open the conversation"), "{error}");
    assert!(error.contains("no answer within") && error.contains("PMI-1: the server refuses it"), "{error}");
}

/// A server kills a process that closes its end without a farewell, and ends a session that stays open after it.
#[test]
fn the_link_stays_open_until_the_farewell_and_closes_after_it() {
    for is_finished in [false, true] {
        let (ours, mut server) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        let process = Process { count: 1, name: "k".into(), ..Process::default() };
        let mut space = PmiSpace::of(Version::One, process, Link::of(ours.into()), Clock::system());
        if is_finished {
            writeln!(server, "cmd=finalize_ack").unwrap();
            space.finish(PATIENCE).unwrap();
            assert_eq!(server.read(&mut [0; 64]).unwrap(), "cmd=finalize\n".len());
        }
        drop(space);
        match server.read(&mut [0; 64]) {
            Ok(0) => assert!(is_finished),
            Err(error) => assert!(!is_finished && error.kind() == std::io::ErrorKind::WouldBlock, "{error}"),
            Ok(read) => panic!("{read} bytes"),
        }
    }
}
