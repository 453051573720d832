//! Long data passed by descriptor beside a link.

use super::*;

/// Empties an outbox; returns the lengths of the extents passed beside the link, the frames, and their bytes.
fn beside_of(outbox: &mut Outbox, beside: &mut Beside) -> (Vec<usize>, Frames, Bytes) {
    let (mut frames, mut all) = (Frames::default(), Vec::new());
    loop {
        let bytes = drain_beside(outbox, usize::MAX, beside);
        if bytes.is_empty() {
            let lengths = beside.extents.borrow().iter().map(|extent| extent.length()).collect();
            return (lengths, frames, all.into());
        }
        frames.take(&bytes);
        all.extend_from_slice(&bytes);
    }
}

#[test]
fn long_data_lie_beside_the_link_and_what_is_left_of_them_goes_through_it() {
    let (mut outbox, mut beside) = (outbox(), Beside::default());
    let len = EXTENT + EXTENT_MIN - 1;
    outbox.push(request(1, IdList::range(4..6), Body::whole(pattern(5, len))));
    outbox.push(request(3, IdList::range(4..6), Body::whole(vec![1; EXTENT_MIN])));
    let (lengths, frames, bytes) = beside_of(&mut outbox, &mut beside);
    assert_eq!((lengths, frames.counts[13]), (vec![EXTENT], 1));
    // Short data and remainders go through the link: the second call needs no descriptor.
    assert!(bytes.len() < 2 * EXTENT_MIN + 1000 && outbox.is_idle());
    let (mut inbox, mut events) = (greeted(), Vec::new());
    inbox.feed(&bytes, &beside, &mut events).unwrap();
    let Event::Request(request) = &events[0] else { panic!("{events:?}") };
    assert_eq!(request.data.bytes().unwrap(), pattern(5, len));
    assert!(inbox.is_idle());
}

/// A window ends within an extent that arrived by descriptor: the extent leaves once the window has room for all of it.
#[test]
fn what_came_by_descriptor_leaves_in_one_piece_when_the_window_has_room_for_it() {
    let (mut outbox, mut beside) = (outbox(), Beside::default());
    let (body, mut writer) = Body::arriving(4 * WINDOW);
    outbox.push(request(1, IdList::range(4..6), body));
    let piece: Extent = Arc::new(Plain(vec![7; EXTENT_MAX - 1].into()));
    (0..3).for_each(|_| assert!(writer.extend(&piece)));
    let (lengths, ..) = beside_of(&mut outbox, &mut beside);
    assert_eq!(lengths, [EXTENT_MAX - 1; 2]);
    outbox.extend_window(&WindowRef { call: call(1), of_response: false, limit: WINDOW + WINDOW / 2 - 4 });
    assert_eq!(beside_of(&mut outbox, &mut beside).0.len(), 2);
    outbox.extend_window(&WindowRef { call: call(1), of_response: false, limit: WINDOW + WINDOW / 2 - 3 });
    assert_eq!(beside_of(&mut outbox, &mut beside).0, [EXTENT_MAX - 1; 3]);
}

/// A stream that waits until the peer takes descriptors holds up no other stream, and continues later.
#[test]
fn others_go_on_while_descriptors_wait() {
    let (mut outbox, mut beside) = (outbox(), Beside::default());
    beside.rooms = [DescriptorRoom::Available, DescriptorRoom::Full, DescriptorRoom::Full].into();
    outbox.push(request(1, IdList::range(4..6), Body::whole(vec![1; 2 * EXTENT])));
    let (lengths, ..) = beside_of(&mut outbox, &mut beside);
    assert_eq!(lengths, [EXTENT]);
    outbox.push(small(3));
    let (lengths, frames, _) = beside_of(&mut outbox, &mut beside);
    assert_eq!((lengths.len(), frames.counts[2]), (2, 1));
    assert!(outbox.is_idle());
}
