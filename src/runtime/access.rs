//! Who may send a call of a function: judged by the link on which the request comes, before anything of it runs.

use gpc_trees::{Id, IdList};

use crate::peering::Proof;
use crate::wire::{CauseKind, Reason};

/// From whom a node takes requests of a function. Each process says it for itself: it does not go over the wire.
///
/// Judged is the *sending link*: the id that sends the request, which is the parent in the call's tree. The root of a call is what its parent says it is, and so a member's word: who restricts a function to an id trusts that id to
/// ask only for whom it should. A call that a node starts itself is always taken there.
///
/// A link over a Unix socket, or through shared memory, is proved by the system: the process at the other end belongs to the user of this one, or to a [user that is allowed](super::Builder::allow_users). Such a process is taken for the id
/// that it claims, since it could read the key of that id. Over TCP a link is proved by the [secret](super::Builder::secret) of the job, and by the key of the id where the [peers](super::Peers::set_key) list one.
///
/// ```
/// use chained_gpc::{Access, Functions, IdList};
///
/// let functions = Functions::new();
/// // Whoever can connect may ask for it.
/// functions.func("load", |_request, _reply| Ok(()))?;
/// // Members of the job alone.
/// functions.access(Access::Proved).func("read", |_request, _reply| Ok(()))?;
/// // Id 0 alone, whose key the peers list; so at the others in a flat tree, whose parent is the root.
/// functions.access(Access::Ids(IdList::range(0..1))).func("start", |_request, _reply| Ok(()))?;
/// # Ok::<(), chained_gpc::FunctionsError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum Access {
    /// From whoever has a link.
    #[default]
    Anyone,
    /// From links that are proved, in whatever way: over TCP by the secret of the job. Who has the secret may claim any id that is not listed with a key.
    Proved,
    /// From ids that are known: over TCP by the key that the peers list for them. The secret alone is not enough.
    Listed,
    /// From these ids, known in the same way.
    Ids(IdList),
}

impl Access {
    /// Whether requests of this id are taken, whose link has this proof.
    pub(super) fn admits(&self, proof: Proof, from: Id) -> bool {
        let known = matches!(proof, Proof::User | Proof::Key);
        match self {
            Access::Anyone => true,
            Access::Proved => proof != Proof::None,
            Access::Listed => known,
            Access::Ids(ids) => known && ids.contains(from),
        }
    }

    /// Why they are not, and what to do.
    #[cold]
    pub(super) fn refusal(&self, name: &str, proof: Proof, from: Id) -> Reason {
        let who = match self {
            Access::Anyone => "anyone",
            Access::Proved => "links that are proved",
            Access::Listed => "ids that prove who they are",
            Access::Ids(_) => "certain ids, which prove who they are",
        };
        let why = match proof {
            Proof::None => {
                "proves nothing: give both nodes the secret of the job (Builder::secret, --secret-file), or link them over Unix sockets"
            }
            Proof::Secret => {
                "proves the secret of the job alone: list its public key among the peers here, and give it the private half (Builder::key, --key-file)"
            }
            Proof::User | Proof::Key => {
                "is of none of them: call through one that is, in a tree where it is the parent, or change Functions::access"
            }
        };
        let message = format!("here `{name}` is restricted to {who}, and the link of id {from} {why}");
        Reason::new(CauseKind::NotAuthorised, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_admits_as_far_as_it_goes() {
        let admits = |access: Access| {
            [Proof::None, Proof::Secret, Proof::User, Proof::Key].map(|proof| access.admits(proof, 7))
        };
        assert_eq!(admits(Access::Anyone), [true; 4]);
        assert_eq!(admits(Access::Proved), [false, true, true, true]);
        assert_eq!(admits(Access::Listed), [false, false, true, true]);
        assert_eq!(admits(Access::Ids(IdList::range(5..8))), [false, false, true, true]);
        assert_eq!(admits(Access::Ids(IdList::range(0..7))), [false; 4]);
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let said = |access: Access, proof| {
            let reason = access.refusal("start", proof, 7);
            assert_eq!(reason.kind, CauseKind::NotAuthorised);
            assert!(reason.message.contains("`start`") && reason.message.contains("id 7"));
            reason.message
        };
        assert!(said(Access::Proved, Proof::None).contains("--secret-file"));
        assert!(said(Access::Listed, Proof::Secret).contains("--key-file"));
        assert!(said(Access::Ids(IdList::range(0..1)), Proof::Key).contains("is the parent"));
    }
}
