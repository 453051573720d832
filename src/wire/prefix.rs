//! The start of a request's body: limits, ids, shape and header (docs/wire.md, "REQUEST").

use bytes::{BufMut, Bytes};
use gpc_trees::{Id, IdList, Run, Shape, Tree};

use super::frame::{FrameError, Kind, flags, zero};
use super::head::{IdsForm, RequestHead};
use super::message::Local;
use super::{Body, Parts, ReplyLimits, Request};

/// Looks up the tree registered under a wire id.
pub type TreeLookup<'a> = &'a dyn Fn(u64) -> Option<Tree>;

/// Returns the fixed part of the first frame of `request`.
pub fn request_head(request: &Request) -> RequestHead {
    // So the head tells how many parts there are.
    let ids_form = if request.parts.is_some() { IdsForm::Listed } else { smaller_form(&request.ids) };
    let entries = match ids_form {
        IdsForm::Runs => request.ids.runs().count(),
        IdsForm::Listed => request.ids.len() as usize,
    };
    let (tree, tree_param) = match &request.tree {
        Ok(tree) => (tree.wire_id(), tree.wire_param()),
        Err(unknown) => (*unknown, 0),
    };
    RequestHead {
        call: request.call,
        position: request.position,
        total: request.total,
        func: request.func,
        callback: request.callback.unwrap_or(0),
        tree,
        tree_param,
        ids_form,
        ids_count: entries as u32,
        header_len: request.header.len() as u32,
        data_len: request.body().len(),
        has_reply_limits: !request.reply_limits.is_unlimited(),
        has_parts: request.parts.is_some(),
        limit: request.limit,
        age: request.age,
        skipped: request.skipped,
        left: request.left,
        shape_count: shape(request).map_or(0, |shape| shape.sizes().len() as u32),
    }
}

/// Returns the flags of the first frame of `request`.
pub fn request_flags(request: &Request) -> u8 {
    let bits = [
        (request.reply_wanted, flags::REPLY_WANTED),
        (request.forward_first, flags::FORWARD_FIRST),
        (request.partial, flags::PARTIAL),
        (request.adopted, flags::ADOPTED),
        (!request.reply_limits.is_unlimited(), flags::REPLY_LIMITS),
        (request.local.trace, flags::TRACE),
        (request.parts.is_some(), flags::SCATTER),
    ];
    bits.iter().filter(|(set, _)| *set).fold(0, |flags, (_, bit)| flags | bit)
}

/// Appends limits, ids, shape, header and lengths of parts.
pub fn emit_prefix(request: &Request, form: IdsForm, out: &mut impl BufMut) {
    if !request.reply_limits.is_unlimited() {
        request.reply_limits.emit(out);
    }
    emit_ids(&request.ids, form, out);
    for size in shape(request).map_or(&[][..], Shape::sizes) {
        out.put_slice(&size.to_le_bytes());
    }
    if !request.header.is_empty() {
        out.put_slice(&request.header);
    }
    if let Some(parts) = &request.parts {
        parts.emit(out);
    }
}

/// Returns the request that a fixed part and its complete prefix describe.
pub fn parse_prefix(
    head: &RequestHead,
    set: u8,
    prefix: &[u8],
    data: Body,
    trees: TreeLookup<'_>,
) -> Result<Request, FrameError> {
    let (reply_limits, prefix) = parse_limits(head, prefix);
    let (ids_bytes, prefix) = prefix.split_at(head.ids_count as usize * head.ids_form.entry());
    let (shape_bytes, prefix) = prefix.split_at(head.shape_count as usize * 4);
    let (header, lengths) = prefix.split_at(head.header_len as usize);
    let ids = parse_ids(head.ids_form, ids_bytes).map_err(FrameError::Ids)?;
    if ids.is_empty() {
        return Err(FrameError::Ids("it is empty, but must begin with the receiver".into()));
    }
    if head.position.checked_add(ids.len()).is_none_or(|end| end > head.total) {
        let expected = "at least the receiver's position and the ids of its slice";
        let (kind, value) = (Kind::Request, head.total.into());
        return Err(FrameError::BadField { kind, field: "total", value, expected });
    }
    let request = Request {
        local: Local { trace: set & flags::TRACE != 0, ..Local::default() },
        call: head.call,
        position: head.position,
        total: head.total,
        func: head.func,
        callback: Some(head.callback).filter(|handle| *handle != 0),
        reply_wanted: set & flags::REPLY_WANTED != 0,
        reply_limits,
        forward_first: set & flags::FORWARD_FIRST != 0,
        partial: set & flags::PARTIAL != 0,
        adopted: set & flags::ADOPTED != 0,
        skipped: head.skipped,
        limit: head.limit,
        age: head.age,
        left: head.left,
        tree: parse_tree(head, shape_bytes, ids.len(), trees)?,
        ids,
        header: Bytes::copy_from_slice(header),
        data: Body::default(),
        parts: parse_parts(head, lengths)?.map(Box::new),
    };
    Ok(request.with_body(data))
}

/// Returns the parts of a scatter call, without their bytes.
fn parse_parts(head: &RequestHead, lengths: &[u8]) -> Result<Option<Parts>, FrameError> {
    if !head.has_parts {
        return Ok(None);
    }
    match Parts::parse(lengths).filter(|parts| parts.len() == head.data_len) {
        Some(parts) => Ok(Some(parts)),
        None => Err(FrameError::BadField {
            kind: Kind::Request,
            field: "data length",
            value: head.data_len,
            expected: "the sum of the lengths of the parts",
        }),
    }
}

/// Returns the limits for replies, and the bytes after them.
fn parse_limits<'a>(head: &RequestHead, prefix: &'a [u8]) -> (ReplyLimits, &'a [u8]) {
    match prefix.split_first_chunk() {
        Some((limits, rest)) if head.has_reply_limits => (ReplyLimits::parse(limits), rest),
        _ => (ReplyLimits::UNLIMITED, prefix),
    }
}

/// Appends the ids only.
pub(super) fn emit_ids(ids: &IdList, form: IdsForm, out: &mut impl BufMut) {
    match form {
        IdsForm::Runs => ids.runs().for_each(|run| {
            out.put_slice(&run.first.to_le_bytes());
            out.put_slice(&run.count.to_le_bytes());
        }),
        IdsForm::Listed if ids.len() == 1 => {
            out.put_slice(&ids.first().unwrap_or_default().to_le_bytes());
        }
        IdsForm::Listed => ids.iter().for_each(|id| out.put_slice(&id.to_le_bytes())),
    }
}

/// A run takes as many bytes as two listed ids.
pub(super) fn smaller_form(ids: &IdList) -> IdsForm {
    if ids.len() == 1 {
        return IdsForm::Listed;
    }
    match ids.runs().count() * 2 <= ids.len() as usize {
        true => IdsForm::Runs,
        false => IdsForm::Listed,
    }
}

fn shape(request: &Request) -> Option<&Shape> {
    match &request.tree {
        Ok(Tree::Explicit(shape)) => Some(shape),
        _ => None,
    }
}

pub(super) fn parse_ids(form: IdsForm, bytes: &[u8]) -> Result<IdList, String> {
    let word = |bytes: &[u8]| Id::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    match form {
        IdsForm::Runs => {
            let runs =
                bytes.chunks_exact(8).map(|run| Run { first: word(&run[..4]), count: word(&run[4..]) });
            IdList::from_runs(runs).map_err(|error| error.to_string())
        }
        IdsForm::Listed => {
            IdList::from_ids(bytes.chunks_exact(4).map(word)).map_err(|error| error.to_string())
        }
    }
}

fn parse_tree(
    head: &RequestHead,
    shape: &[u8],
    n: u32,
    trees: TreeLookup<'_>,
) -> Result<Result<Tree, u64>, FrameError> {
    if head.tree != Tree::EXPLICIT_WIRE_ID {
        if head.shape_count != 0 {
            return Err(FrameError::Shape("it is there, but the tree is not an explicit one".into()));
        }
        let registered = || trees(head.tree).filter(|_| head.tree_param == 0);
        return Ok(Tree::from_wire(head.tree, head.tree_param).or_else(registered).ok_or(head.tree));
    }
    zero(Kind::Request, "tree param of an explicit shape", head.tree_param.into())?;
    let sizes = shape.chunks_exact(4).map(|size| u32::from_le_bytes([size[0], size[1], size[2], size[3]]));
    let shape = Shape::from_sizes(sizes.collect()).map_err(|error| FrameError::Shape(error.to_string()))?;
    if head.shape_count != n {
        return Err(FrameError::Shape(format!("it has {} places for {n} ids", head.shape_count)));
    }
    Ok(Ok(Tree::Explicit(shape)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::CallId;

    fn read(request: &Request) -> Result<Request, FrameError> {
        let head = request_head(request);
        let mut bytes = Vec::new();
        emit_prefix(request, head.ids_form, &mut bytes);
        assert_eq!(bytes.len() as u64, head.prefix_len());
        parse_prefix(&head, 0, &bytes, Body::default(), &|_| None)
    }

    fn of(ids: impl IntoIterator<Item = Id>) -> Request {
        let call = CallId { root: 0, sequence: 1 };
        Request { total: 1000, ..Request::new(call, IdList::from_ids(ids).unwrap()) }
    }

    fn explicit(ids: u32, sizes: &[u32]) -> Request {
        let shape = Shape::from_sizes(sizes.to_vec()).unwrap();
        Request { tree: Ok(Tree::Explicit(shape)), ..of(0..ids) }
    }

    #[test]
    fn ids_take_the_shorter_of_two_forms() {
        let bytes = |ids: Vec<Id>| {
            let request = Request { header: Bytes::from_static(b"hi"), ..of(ids) };
            let back = read(&request).unwrap();
            assert_eq!((&back.ids, &back.header), (&request.ids, &request.header));
            request_head(&request).prefix_len() - 2
        };
        assert_eq!([vec![5], vec![5, 6], vec![5, 7], vec![6, 5]].map(bytes), [4, 8, 8, 8]);
        // Two runs of two ids, and two runs of three ids in all.
        assert_eq!([vec![1, 2, 8, 9], vec![1, 2, 9], (0..100).collect()].map(bytes), [16, 12, 8]);
    }

    #[test]
    fn a_shape_has_a_place_for_each_id() {
        let sound = explicit(3, &[3, 1, 1]);
        assert_eq!(read(&sound).unwrap().tree, sound.tree);
        for other in [explicit(2, &[3, 1, 1]), explicit(4, &[3, 1, 1])] {
            assert!(
                matches!(read(&other), Err(FrameError::Shape(why)) if why.contains("it has 3 places for"))
            );
        }
        let (head, mut bytes) = (request_head(&sound), Vec::new());
        emit_prefix(&sound, head.ids_form, &mut bytes);
        let refused = |head: RequestHead| parse_prefix(&head, 0, &bytes, Body::default(), &|_| None).is_err();
        assert!(refused(RequestHead { tree: Tree::Binary.wire_id(), ..head }), "a shape of another tree");
        assert!(refused(RequestHead { tree_param: 1, ..head }));
        assert!(
            refused(RequestHead { total: 2, ..head }) && refused(RequestHead { position: u32::MAX, ..head })
        );
    }

    #[test]
    fn parts_add_up_to_the_data() {
        let parts = Parts::of_lengths([2, 0, 1].into_iter()).map(Box::new);
        let scatter = Request { parts, ..of([4, 5, 9]) }.with_body(Body::whole("abc"));
        let (head, mut bytes) = (request_head(&scatter), Vec::new());
        emit_prefix(&scatter, head.ids_form, &mut bytes);
        assert_eq!((bytes.len() as u64, head.lengths_len()), (head.prefix_len(), 24));
        let read =
            |head: &RequestHead, bytes: &[u8]| parse_prefix(head, 0, bytes, Body::whole("abc"), &|_| None);
        let back = read(&head, &bytes).unwrap();
        assert!(back.parts.unwrap().lengths().eq([2, 0, 1]));
        assert_eq!(back.data.bytes().unwrap(), "ab");
        for data_len in [2, 4] {
            assert!(read(&RequestHead { data_len, ..head }, &bytes).is_err());
        }
        let last = bytes.len() - 8;
        bytes[last..].fill(0xff);
        assert!(read(&head, &bytes).is_err(), "a sum beyond any number");
    }

    #[test]
    fn ids_are_distinct_and_there_is_one_at_least() {
        assert!(matches!(read(&of([])), Err(FrameError::Ids(_))));
        for (form, words) in
            [(IdsForm::Listed, [3, 3]), (IdsForm::Runs, [u32::MAX, 2]), (IdsForm::Runs, [3, 0])]
        {
            let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
            let ids = parse_ids(form, &bytes);
            assert!(ids.is_err() || ids.is_ok_and(|ids| ids.is_empty()), "{form:?} {words:?}");
        }
    }
}
