//! Access control of functions: a request is accepted or rejected by its link, before any part of it runs.

use gpc_trees::{Id, IdList};

use crate::link::peering::Proof;
use crate::wire::{CauseKind, Reason};

/// The ids and links from which a node accepts requests of a function. Each process sets it for itself; it is not sent
/// over the wire.
///
/// The check applies to the *sending link*: the id that sends the request, which is the parent in the call's tree. The
/// root of a call is known only from the parent. So a program that restricts a function to an id also trusts that id to
/// forward only the calls of roots that it accepts. A call that a node starts itself is always accepted there.
///
/// The system authenticates a link over a Unix socket, or through shared memory: the process at the other end belongs
/// to the user of this one, or to an [allowed user](super::Builder::allow_users). The id that such a process claims is
/// accepted, since the process could read the key of that id. Over TCP the [secret](super::Builder::secret) of the job
/// authenticates a link, and so does the key of the id if the [peers](super::Peers::set_key) list one.
///
/// ```
/// use chained_gpc::{Access, Functions, IdList};
///
/// let functions = Functions::new();
/// // Any node that can connect may call it.
/// functions.func("load", |_request, _reply| Ok(()))?;
/// // Only members of the job.
/// functions.access(Access::Proved).func("read", |_request, _reply| Ok(()))?;
/// // Only id 0, whose key the peers list. At other ids this works in a flat tree, where the root is the parent.
/// functions.access(Access::Ids(IdList::range(0..1))).func("start", |_request, _reply| Ok(()))?;
/// # Ok::<(), chained_gpc::FunctionsError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum Access {
    /// From any link.
    #[default]
    Anyone,
    /// From authenticated links of every kind: over TCP by the secret of the job. A node with the secret may claim any
    /// id that is not listed with a key.
    Proved,
    /// From ids that are authenticated as such: over TCP by the key that the peers list for them. The secret alone is
    /// not enough.
    Listed,
    /// From these ids, authenticated in the same way.
    Ids(IdList),
}

impl Access {
    /// Whether a request of this id is accepted; `proof` is the proof of its link.
    pub(super) fn admits(&self, proof: Proof, from: Id) -> bool {
        let known = matches!(proof, Proof::User | Proof::Key);
        match self {
            Access::Anyone => true,
            Access::Proved => proof != Proof::None,
            Access::Listed => known,
            Access::Ids(ids) => known && ids.contains(from),
        }
    }

    /// The reason of a rejection, and what to do.
    #[cold]
    pub(super) fn refusal(&self, name: &str, proof: Proof, from: Id) -> Reason {
        let who = match self {
            Access::Anyone => "anyone",
            Access::Proved => "authenticated links",
            Access::Listed => "authenticated ids",
            Access::Ids(_) => "certain authenticated ids",
        };
        let why = match proof {
            Proof::None => {
                "is not authenticated: give both nodes the secret of the job (Builder::secret, --secret-file), or link them over Unix sockets"
            }
            Proof::Secret => {
                "is authenticated by the secret of the job alone: list its public key among the peers here, and give it the private half (Builder::key, --key-file)"
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
    fn a_rejection_names_the_remedy() {
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
