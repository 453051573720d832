//! The node's side of a supervisor that the test plays.

use std::os::fd::{AsFd as _, AsRawFd as _};

use super::*;
use crate::exit::Exit;
use crate::start_error::StartError;
use crate::supervisor::Recipients;
use crate::supervisor::stand_in::StandIn;

const fn member(rank: u32) -> Member {
    Member { group: GroupId(1), rank }
}

fn start(rank: u32) -> SupervisorOrder {
    let env = [(GROUP, "d/g1"), (NODE, "7")];
    SupervisorOrder::Start {
        member: member(rank),
        program: b"p".to_vec(),
        args: Vec::new(),
        env: env.map(|(name, value)| (name.to_vec(), value.into())).to_vec(),
        wdir: None,
        bind: None,
        image: None,
    }
}

/// Four descriptors; the first is the reading end of a pipe that the test writes to.
fn descriptors() -> (Vec<OwnedFd>, OwnedFd) {
    let (read, write) = rustix::pipe::pipe().unwrap();
    let null = || std::fs::File::open("/dev/null").unwrap().into();
    (vec![read, null(), null(), null()], write)
}

fn connect() -> (Connection, StandIn) {
    let (mut connection, mut stand_in) = StandIn::connect(40, Clock::system());
    stand_in.greet();
    assert_eq!(connection.event().unwrap(), None);
    (connection, stand_in)
}

fn starts(connection: &mut Connection, ranks: impl Iterator<Item = u32>) -> Vec<OwnedFd> {
    let mut writers = Vec::new();
    for rank in ranks {
        let (descriptors, writer) = descriptors();
        connection.order(start(rank), descriptors);
        writers.push(writer);
    }
    writers
}

/// Nothing is left to be sent or answered.
fn is_empty(connection: &Connection) {
    assert_eq!(chained_gpc::Snapshot::new(connection.counts()).left(&[]), []);
}

/// A process got the standard input and the socket of another one.
#[test]
fn each_order_arrives_with_its_own_descriptors() {
    let (mut connection, mut stand_in) = connect();
    let writers = starts(&mut connection, 0..25);
    assert!(connection.flush().unwrap());
    let orders = stand_in.orders();
    assert_eq!(orders.len(), 25);
    for (rank, ((order, descriptors), writer)) in (0..).zip(orders.iter().zip(&writers)) {
        assert_eq!((order, descriptors.len()), (&start(rank), 4));
        rustix::io::write(writer, &rank.to_le_bytes()).unwrap();
        let mut read = [0; 4];
        rustix::io::read(&descriptors[0], &mut read).unwrap();
        assert_eq!(u32::from_le_bytes(read), rank);
    }
    for rank in 0..25 {
        stand_in.tell(&SupervisorEvent::Started(member(rank), 100 + rank));
        stand_in.tell(&SupervisorEvent::Ended(member(rank), Exit::Code(0)));
    }
    stand_in.tell(&SupervisorEvent::Emptied(GroupId(1)));
    let events: Vec<_> = std::iter::from_fn(|| connection.event().unwrap()).collect();
    assert_eq!(events.len(), 51);
    is_empty(&connection);
}

/// A supervisor was sent more descriptors than the system lets a user have in transit.
#[test]
fn so_many_starts_are_unanswered_at_a_time() {
    let (mut connection, mut stand_in) = connect();
    let _writers = starts(&mut connection, 0..300);
    assert!(!connection.flush().unwrap());
    let mut ordered = Vec::new();
    let mut most = 0;
    for rank in 0..300 {
        let orders = stand_in.orders();
        ordered.extend(orders.iter().map(|(order, _)| match order {
            SupervisorOrder::Start { member, .. } => *member,
            other => panic!("{other:?}"),
        }));
        most = most.max(connection.unanswered);
        assert!((1..=UNANSWERED_MAX).contains(&connection.unanswered), "{}", connection.unanswered);
        // The supervisor answers one: started, or not.
        let event = match rank % 2 {
            0 => SupervisorEvent::Started(member(rank), 5),
            _ => SupervisorEvent::NotStarted(member(rank), StartError::new(2, 127, "no")),
        };
        stand_in.tell(&event);
        assert_eq!(connection.event().unwrap(), Some(event));
        assert_eq!(connection.event().unwrap(), None);
    }
    assert_eq!(ordered, (0..300).map(member).collect::<Vec<_>>(), "in order, each once");
    assert!(most > UNANSWERED_MAX - 10, "{most}");
    assert_eq!(connection.unanswered, 0);
}

#[test]
fn a_message_has_as_many_descriptors_as_the_supervisor_may_open() {
    for (at_once, ends) in [(4, 1), (11, 2), (40, 10)] {
        let (mut connection, _stand_in) = StandIn::connect(at_once, Clock::system());
        let _writers = starts(&mut connection, 0..20);
        let sizes: Vec<_> = connection.messages.iter().map(|message| message.descriptors.len()).collect();
        assert_eq!(sizes, vec![ends * 4; 20 / ends]);
    }
}

#[test]
fn orders_wait_for_the_version() {
    let (mut connection, mut stand_in) = StandIn::connect(40, Clock::system());
    let _writers = starts(&mut connection, 0..1);
    assert!(!connection.flush().unwrap() && stand_in.orders().is_empty());
    stand_in.greet();
    assert_eq!(connection.event().unwrap(), None);
    assert_eq!(stand_in.orders().len(), 1);
    let (mut connection, mut stand_in) = StandIn::connect(40, Clock::system());
    stand_in.greet_as("bnr-keeper 0.0.1 1");
    assert_eq!(connection.event().unwrap_err().kind(), ErrorKind::InvalidData);
}

#[test]
fn a_start_that_cannot_be_ordered_is_answered_in_its_turn() {
    let (mut connection, mut stand_in) = connect();
    let _writers = starts(&mut connection, 0..1);
    connection.order(start(1), Vec::new());
    let SupervisorOrder::Start { member: _, program, args: _, env, wdir, bind, image } = start(2) else {
        panic!()
    };
    let args = vec![vec![b'x'; 9 << 20]];
    let long = SupervisorOrder::Start { member: member(2), program, args, env, wdir, bind, image };
    let (own, _writer) = descriptors();
    connection.order(long, own);
    let _more = starts(&mut connection, 3..4);
    assert!(connection.flush().unwrap());
    let messages = stand_in.messages();
    let kinds: Vec<_> = messages
        .iter()
        .map(|message| match message {
            SupervisorMessage::Order(SupervisorOrder::Start { member, .. }, 4) => (member.rank, 0),
            SupervisorMessage::Refused(member, errno) => (member.rank, *errno),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, [(0, 0), (1, Errno::BADF.raw_os_error()), (2, Errno::TOOBIG.raw_os_error()), (3, 0)]);
    assert_eq!((stand_in.descriptors.len(), connection.unanswered), (8, 4));
}

#[test]
fn orders_beyond_the_bound_are_refused_and_kills_are_not() {
    let (mut connection, mut stand_in) = StandIn::connect(40, Clock::system());
    let SupervisorOrder::Start { member: _, program, args: _, env, wdir, bind, image } = start(0) else {
        panic!()
    };
    let order = |rank| SupervisorOrder::Start {
        member: member(rank),
        program: program.clone(),
        args: vec![vec![b'x'; 7 << 20]],
        env: env.clone(),
        wdir: wdir.clone(),
        bind: bind.clone(),
        image: image.clone(),
    };
    let mut rank = 0;
    while connection.waiting <= WAITING_MAX {
        connection.order(order(rank), descriptors().0);
        rank += 1;
    }
    let before = connection.waiting;
    connection
        .order(SupervisorOrder::Signal { group: GroupId(1), signal: 10, to: Recipients::All }, Vec::new());
    assert_eq!(connection.waiting, before, "the signal is dropped");
    // A process whose program was sent here ran the host's own program of that name.
    let mut sent_here = start(rank);
    if let SupervisorOrder::Start { image, .. } = &mut sent_here {
        *image = Some(b"/proc/1/fd/7".to_vec());
    }
    connection.order(sent_here, descriptors().0);
    let refused = connection.waiting;
    assert!((1..100).contains(&(refused - before)));
    connection.order(SupervisorOrder::Kill { group: GroupId(1), grace: None }, Vec::new());
    assert!(connection.waiting > refused);
    assert_eq!(
        connection.messages.iter().map(|message| message.bytes.len()).sum::<usize>(),
        connection.waiting
    );
    // It is sent in many parts.
    stand_in.greet();
    let mut messages = Vec::new();
    assert_eq!(connection.event().unwrap(), None);
    for _ in 0..100_000 {
        messages.extend(stand_in.messages());
        if connection.flush().unwrap() {
            break;
        }
    }
    messages.extend(stand_in.messages());
    assert_eq!(messages.len(), rank as usize + 2);
    let refused = SupervisorMessage::Refused(member(rank), Errno::AGAIN.raw_os_error());
    assert_eq!(messages[rank as usize], refused);
    assert_eq!(
        messages[rank as usize],
        SupervisorMessage::Refused(member(rank), Errno::AGAIN.raw_os_error())
    );
    assert_eq!((connection.waiting, stand_in.descriptors.len()), (0, 4 * rank as usize));
}

/// After the loss of a supervisor, processes of groups that had ended were searched for, and those of others were not.
#[test]
fn what_a_lost_supervisor_can_have_left_is_known() {
    let (mut connection, mut stand_in) = connect();
    let _writers = starts(&mut connection, 0..2);
    assert!(connection.flush().unwrap());
    for rank in 0..2 {
        stand_in.tell(&SupervisorEvent::Started(member(rank), 100 + rank));
    }
    stand_in.tell(&SupervisorEvent::Ended(member(0), Exit::Code(0)));
    while connection.event().unwrap().is_some() {}
    assert_eq!(connection.running.clone().into_iter().collect::<Vec<_>>(), [(member(1), 101)]);
    let tags: Vec<_> = connection.tags.values().cloned().collect();
    assert_eq!(tags, [(b"d/g1".to_vec(), b"7".to_vec())]);
    stand_in.tell(&SupervisorEvent::Emptied(GroupId(2)));
    connection.event().unwrap();
    assert_eq!(connection.tags.len(), 1);
    stand_in.tell(&SupervisorEvent::Emptied(GroupId(1)));
    connection.event().unwrap();
    assert_eq!(connection.tags.len(), 0);
    assert_eq!(stand_in.orders().len(), 2);
    drop(stand_in);
    assert_eq!(connection.event().unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn descriptors_are_closed_here_once_they_are_sent() {
    let (mut connection, stand_in) = connect();
    let (own, writer) = descriptors();
    let number = own[0].as_fd().as_raw_fd();
    connection.order(start(0), own);
    assert!(connection.flush().unwrap());
    assert_eq!(connection.messages.len(), 0);
    // The last reading end of the pipe is the one in transit.
    drop(stand_in);
    drop(connection);
    assert_eq!(rustix::io::write(&writer, b"x").unwrap_err(), Errno::PIPE, "descriptor {number} is open");
}

/// An order was added to a message whose descriptors had been sent: the next process got those of another one.
#[test]
fn a_message_that_is_under_way_takes_no_order() {
    let (mut connection, _stand_in) = connect();
    let _writers = starts(&mut connection, 0..1);
    connection.messages[0].begun = true;
    let _more = starts(&mut connection, 1..3);
    let sizes: Vec<_> = connection.messages.iter().map(|message| message.descriptors.len()).collect();
    assert_eq!(sizes, [4, 8]);
}
