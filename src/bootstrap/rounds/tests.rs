//! Announcements of id 0: their queue, their limits, and who may make them.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::root_loss::RootLoss;
use super::*;
use crate::Clock;
use crate::runtime::{Address, LinkKind, Listener, LocalNodes, Node};

const LIMIT: Duration = Duration::from_secs(60);

fn entry() -> Entry {
    "1,h,0123456789abcdef,-,unix:@h".parse().unwrap()
}

fn go() -> Announcement {
    Announcement::Go(CallId { root: 0, sequence: 7 })
}

fn given_up() -> Announcement {
    Announcement::GivenUp("why".into())
}

/// What a process receives whose clock shows what `read` returns for the number of each reading, with its queue.
/// Something listens at the address of id 0, unless `is_gone`.
fn received(
    is_gone: bool,
    read: impl Fn(usize, &Queue) -> Duration + Send + Sync + 'static,
) -> Result<(), BootstrapError> {
    let functions = Functions::new();
    let rounds = Rounds::register(&functions, &entry()).unwrap();
    let nodes = LocalNodes::start(1, LinkKind::Unix, &functions).unwrap();
    let (readings, queue) = (AtomicUsize::new(0), rounds.announcements.clone());
    // The first two readings begin the watch and the limit, the third one measures the whole.
    let clock = Clock::reading(move || match readings.fetch_add(1, Ordering::Relaxed) {
        0..3 => Duration::ZERO,
        // A wait without an end would read it for ever.
        reading if reading > 100 => panic!("the limit is over"),
        reading => read(reading - 3, &queue),
    });
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let root = Address::Abstract(format!("gpc-rounds-{number}-{}", std::process::id()));
    let _listener = (!is_gone).then(|| Listener::bind(&root).unwrap());
    let mut node = nodes.root();
    let mut watch = Watch::new(&mut node, 0, root, &clock, &RootLoss::new(1, 2)).unwrap();
    rounds.receive_go(&mut node, &mut watch, &clock.limit(LIMIT))
}

#[test]
fn an_announcement_may_come_until_the_limit() {
    let moment = Duration::from_millis(1);
    for (late, comes) in [(LIMIT - moment, true), (LIMIT, false)] {
        let result = received(false, move |_, queue| {
            if comes {
                queue.push(go());
            }
            late
        });
        match result {
            Ok(()) => assert!(comes),
            Err(BootstrapError::Late { from: 0, limit }) => assert!(!comes && limit == LIMIT),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Id 0 announces that all know all, and leaves at once. Its announcement counts.
#[test]
fn an_announcement_counts_though_its_sender_has_gone() {
    // The second reading is that of the watch: the address is probed, and nothing listens there.
    let announces = |announcement: fn() -> Option<Announcement>| {
        received(true, move |reading, queue| {
            if reading == 1 {
                announcement().into_iter().for_each(|announcement| assert!(queue.push(announcement)));
            }
            LIMIT - Duration::from_millis(1)
        })
    };
    assert!(announces(|| Some(go())).is_ok());
    assert!(matches!(announces(|| None), Err(BootstrapError::Gone(0))));
    let error = announces(|| Some(given_up())).unwrap_err();
    assert!(matches!(&error, BootstrapError::GivenUp(why) if why == "why"), "{error}");
}

#[test]
fn announcements_are_taken_in_their_order_and_have_a_bound() {
    let queue = Queue::default();
    assert!(queue.push(go()) && queue.push(given_up()) && queue.push(given_up()));
    assert!(!queue.push(go()));
    assert!(matches!(queue.pop(Duration::ZERO), Some(Announcement::Go(_))));
    assert!(matches!(queue.pop(Duration::ZERO), Some(Announcement::GivenUp(_))));
    assert!(queue.push(go()), "there is room again");
    assert!(queue.pop(Duration::ZERO).is_some() && queue.pop(Duration::ZERO).is_some());
    assert!(queue.pop(Duration::ZERO).is_none());
}

/// An announcement ends the wait for it.
#[test]
fn a_waiting_process_is_woken() {
    let queue = Arc::new(Queue::default());
    let other = queue.clone();
    let waiting = std::thread::spawn(move || other.pop(LIMIT).is_some());
    queue.push(go());
    assert!(waiting.join().unwrap());
}

#[test]
fn only_id_0_announces_and_each_id_has_room_for_what_it_says() {
    let functions = Functions::new();
    let rounds = Rounds::register(&functions, &entry()).unwrap();
    let nodes = LocalNodes::start(2, LinkKind::Unix, &functions).unwrap();
    let call = |from: Id, call: Call| match nodes.node(from).call(call).unwrap().wait() {
        Ok(_) => "done".to_owned(),
        Err(error) => error.to_string(),
    };
    for what in [GO, GIVE_UP, TABLE] {
        let refused = call(1, rounds.say(what, 2).ids([1]));
        assert!(refused.contains("only id 0 says where all are"), "{refused}");
    }
    let refused = call(1, Call::new(rounds.up).ids([1]));
    assert!(refused.contains("only id 0 says that all are up"), "{refused}");
    assert!(rounds.announcements.pop(Duration::ZERO).is_none());
    // Both nodes have one queue here, and id 0 says nothing to itself.
    assert_eq!(call(0, Call::new(rounds.up).ids(0..2)), "done");
    assert!(matches!(rounds.announcements.pop(Duration::ZERO), Some(Announcement::Go(_))));
    assert!(rounds.announcements.pop(Duration::ZERO).is_none());
    for _ in 0..ANNOUNCEMENTS_MAX {
        assert_eq!(call(0, rounds.say(GIVE_UP, 2).data(b"why".to_vec())), "done");
    }
    assert!(call(0, rounds.say(GO, 2)).contains("this id does not expect that"));
    assert!(
        matches!(rounds.announcements.pop(Duration::ZERO), Some(Announcement::GivenUp(why)) if why == "why")
    );
    assert!(call(0, rounds.say(b"nonsense", 2)).contains("this id does not expect that"));
}

/// Id 0 learned the addresses last, so calls of the others that passed through it failed.
#[test]
fn id_0_knows_all_before_any_other_goes_on() {
    let functions = Functions::new();
    let rounds = Rounds::register(&functions, &entry()).unwrap();
    let nodes = LocalNodes::start(2, LinkKind::Unix, &functions).unwrap();
    let knows = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (announcements, known) = (rounds.announcements.clone(), knows.clone());
    let follower = std::thread::spawn(move || {
        let Some(Announcement::Table(_, token)) = announcements.pop(LIMIT) else {
            panic!("the table is first")
        };
        assert!(known.load(Ordering::SeqCst));
        token.reply(Reply::default());
        matches!(announcements.pop(LIMIT), Some(Announcement::Go(_)))
    });
    let learn = |_: &mut dyn Driven, entries: &[Entry]| {
        assert_eq!(entries.len(), 2);
        knows.store(true, Ordering::SeqCst);
        Ok(())
    };
    rounds.lead(&mut nodes.root(), 2, &Clock::system().limit(LIMIT), learn).unwrap();
    assert!(follower.join().unwrap());
}

/// All processes wait in their last step for id 0, which has failed in it.
#[test]
fn the_others_are_told_that_the_last_step_has_failed() {
    let registered = [(); 2].map(|()| {
        let functions = Functions::new();
        let rounds = Rounds::register(&functions, &entry()).unwrap();
        (functions, rounds)
    });
    let (listeners, addresses) = LinkKind::Unix.listen(0..2).unwrap();
    let peers = crate::runtime::Peers::from(addresses);
    let node = |((id, listener), (functions, _)): ((Id, Listener), &(Functions, Rounds))| {
        Node::builder(id).functions(functions).peers(peers.clone()).listener(listener).start().unwrap()
    };
    let nodes: Vec<Node> = (0..2).zip(listeners).zip(&registered).map(node).collect();
    // The call is to reach an id that does not exist, too.
    let error = registered[0].1.go(&mut &nodes[0], None, 3, &Clock::system().limit(LIMIT)).unwrap_err();
    let announcements = std::iter::from_fn(|| registered[1].1.announcements.pop(Duration::ZERO));
    let last = announcements.last();
    assert!(matches!(&last, Some(Announcement::GivenUp(why)) if *why == error.to_string()), "{error}");
}
