//! Types and constants of `gpc_rendezvous.h`.

use std::ffi::{c_char, c_void};

use super::pointers::versioned;

/// A client of rendezvous services. Threads can share it, and wait at the same time.
pub enum cgpc_rendezvous {}
/// The data of all, once a rendezvous is complete.
pub enum cgpc_completion {}
/// A subscription to the notifications of a resource.
pub enum cgpc_subscription {}

/// Bytes that a handle has at most, with its final zero.
pub const CGPC_HANDLE_SIZE: usize = 1058;
/// Bytes that a token of cgpc_rendezvous_token has, with its final zero.
pub const CGPC_TOKEN_SIZE: usize = 65;

/// A rank: the resource assigns one.
pub const CGPC_RANK_ASSIGN: i64 = -1;

/// Which completion: that of the resource itself.
pub const CGPC_SCOPE_OWN: i32 = 0;
/// The completion of the topmost resource above, if the service registers the units there. Without one above, that of
/// the resource itself.
pub const CGPC_SCOPE_TOP: i32 = 1;

/// A kind of notification: the number of registrants. First the present one, then each change; changes that follow each
/// other closely are one.
pub const CGPC_NOTIFY_TALLY: i32 = 1;
/// A kind of notification: the rendezvous is complete. The last one.
pub const CGPC_NOTIFY_COMPLETED: i32 = 2;
/// A kind of notification: the rendezvous cannot complete, or the service is not reached any more. The last one.
pub const CGPC_NOTIFY_FAILED: i32 = 3;

/// A fault: the capacity is 0.
pub const CGPC_FAULT_CAPACITY_ZERO: u32 = 1;
/// A fault: the capacity is over the limit of the service.
pub const CGPC_FAULT_CAPACITY_OVER: u32 = 2;
/// A fault: the level is outside 1 to the limit of the service, or does not fit that of the parent.
pub const CGPC_FAULT_LEVEL_OUT_OF_RANGE: u32 = 3;
/// A fault: the lifetime is 0 or over the limit of the service.
pub const CGPC_FAULT_LIFETIME_OUT_OF_RANGE: u32 = 4;
/// A fault: all ranks of the resource are taken.
pub const CGPC_FAULT_CAPACITY_REACHED: u32 = 5;
/// A fault: another registrant has this rank.
pub const CGPC_FAULT_RANK_TAKEN: u32 = 6;
/// A fault: the rank is not below the capacity.
pub const CGPC_FAULT_RANK_OUT_OF_RANGE: u32 = 7;
/// A fault: the data are longer than the limit of the service.
pub const CGPC_FAULT_DATA_TOO_LONG: u32 = 8;
/// A fault: the data are not level-n data of the level below that of the resource.
pub const CGPC_FAULT_MALFORMED_DATA: u32 = 9;
/// A fault: the token has registered already, with other data or another rank.
pub const CGPC_FAULT_TOKEN_REUSED: u32 = 10;
/// A fault: no registrant has this token and this rank.
pub const CGPC_FAULT_NOT_REGISTERED: u32 = 11;
/// A fault: the rendezvous is complete, so registrants cannot withdraw.
pub const CGPC_FAULT_ALREADY_COMPLETE: u32 = 12;
/// A fault: the service has no such resource.
pub const CGPC_FAULT_UNKNOWN_RESOURCE: u32 = 13;
/// A fault: the resource was destroyed.
pub const CGPC_FAULT_DESTROYED: u32 = 14;
/// A fault: the lifetime of the resource has passed.
pub const CGPC_FAULT_EXPIRED: u32 = 15;
/// A fault: the job that the resource belonged to has ended.
pub const CGPC_FAULT_JOB_ENDED: u32 = 16;
/// A fault: a controlling task was lost.
pub const CGPC_FAULT_CONTROLLER_LOST: u32 = 17;
/// A fault: another task controls this unit.
pub const CGPC_FAULT_CONTROLLER_TAKEN: u32 = 18;
/// A fault: the resource above rejected this unit, or its service was not reached.
pub const CGPC_FAULT_ABOVE_FAILED: u32 = 19;
/// A fault: the service is at one of its limits.
pub const CGPC_FAULT_SERVICE_FULL: u32 = 20;
/// A fault: the request is invalid.
pub const CGPC_FAULT_BAD_REQUEST: u32 = 21;
/// A fault: the token of the service is missing or wrong.
pub const CGPC_FAULT_UNAUTHORIZED: u32 = 22;
/// A fault: the service cannot write its store, or is ending. Functions try again until their limit, and return
/// CGPC_ERR_SERVER then.
pub const CGPC_FAULT_UNAVAILABLE: u32 = 23;

/// Options of a client.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_rendezvous_options {
    /// sizeof(cgpc_rendezvous_options).
    pub size: usize,
    /// File with the token of the services. If null, the file that GPC_RENDEZVOUS_TOKEN_FILE names, or no token.
    pub token_file: *const c_char,
    /// File with the certificates (PEM) of the authority that has signed those of https services. If null, the file
    /// that GPC_RENDEZVOUS_CA_FILE names.
    pub ca_file: *const c_char,
    /// How long to try while a service does not answer; 0 for 10 s. Waits have limits of their own.
    pub limit_us: u64,
    /// Longest data of a completion, bytes; 0 for 2 GiB.
    pub data_max: u64,
}

/// What a resource is created with.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_rendezvous_spec {
    /// sizeof(cgpc_rendezvous_spec).
    pub size: usize,
    /// Number of registrants that make it complete, at least 1.
    pub capacity: u64,
    /// Level of its data: 1 for tasks. 0 for the level below that of the parent, or 1.
    pub level: u32,
    /// Whether the completion has a new job and a new secret, which all members share: 0 or 1.
    pub joint: i32,
    /// Lifetime, microseconds; 0 for that of the service, an hour.
    pub lifetime_us: u64,
    /// Handle of the resource above, at which the service registers this one when it is complete; may be null.
    pub parent: *const c_char,
    /// Rank there, or CGPC_RANK_ASSIGN.
    pub parent_rank: i64,
    /// Job that it belongs to, 32 hexadecimal digits; may be null.
    pub job: *const c_char,
}

/// Properties of a resource.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_rendezvous_properties_of {
    /// sizeof(cgpc_rendezvous_properties_of).
    pub size: usize,
    /// Level of its data when it is complete.
    pub level: u32,
    /// Number of registrants that make it complete.
    pub capacity: u32,
    /// Number of registrants so far.
    pub tally: u32,
    /// Whether it is complete: 0 or 1.
    pub completed: i32,
    /// CGPC_FAULT_EXPIRED and others: why it cannot complete; 0 if it can.
    pub fault: u32,
    /// Number of valid entries of `missing`.
    pub missing_count: u32,
    /// The lowest ranks that have not registered.
    pub missing: [u32; 16],
    /// Bytes of data registered so far.
    pub bytes: u64,
    /// Number of waits.
    pub waiting: u64,
    /// Its creation, microseconds since 1970.
    pub created_us: u64,
    /// The end of its lifetime, microseconds since 1970.
    pub expires_us: u64,
}

/// A notification. Its pointers are valid while the function that gets it runs, or until the next call of
/// cgpc_subscription_next or cgpc_subscription_free for this subscription.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_notification {
    /// sizeof(cgpc_notification).
    pub size: usize,
    /// CGPC_NOTIFY_TALLY and others. The fields below that it does not name are 0.
    pub kind: i32,
    /// Of CGPC_NOTIFY_TALLY: number of registrants so far.
    pub tally: u32,
    /// Of CGPC_NOTIFY_TALLY: number of registrants that make the resource complete.
    pub capacity: u32,
    /// Of CGPC_NOTIFY_COMPLETED: level of the data.
    pub level: u32,
    /// Of CGPC_NOTIFY_COMPLETED: the level-n data of all, by rank.
    pub data: *const c_void,
    /// Length of the data, bytes.
    pub length: usize,
    /// Of CGPC_NOTIFY_FAILED: CGPC_ERR_FAULT, or why the service is not reached.
    pub status: i32,
    /// Of CGPC_ERR_FAULT: CGPC_FAULT_DESTROYED and others.
    pub fault: u32,
    /// Of CGPC_NOTIFY_FAILED: why, for people; otherwise null.
    pub message: *const c_char,
}

/// Receives the notifications of a subscription, one after the other, on the thread of the subscription. It may call
/// any function, also cgpc_subscription_free for its own subscription: then it is not called again.
pub type cgpc_notify_fn =
    Option<unsafe extern "C-unwind" fn(notification: *const cgpc_notification, arg: *mut c_void)>;

versioned! {
    cgpc_rendezvous_options 40,
    cgpc_rendezvous_spec 56,
    cgpc_rendezvous_properties_of 128,
    cgpc_notification 56,
}

#[cfg(test)]
mod tests {
    use gpc_rendezvous::{FaultKind, machine};

    use super::*;
    use crate::abi::pointers::Versioned;

    #[test]
    fn structures_have_the_sizes_of_their_first_version() {
        fn is_first<T: Versioned>() {
            assert_eq!(std::mem::size_of::<T>(), T::FIRST, "{}", T::NAME);
        }
        is_first::<cgpc_rendezvous_options>();
        is_first::<cgpc_rendezvous_spec>();
        is_first::<cgpc_rendezvous_properties_of>();
        is_first::<cgpc_notification>();
    }

    /// The numbers of the header are those of the library; the names are those of the service.
    #[test]
    fn each_fault_has_a_constant() {
        let source = include_str!("rendezvous_types.rs");
        for kind in FaultKind::ALL {
            let name = kind.code().replace('-', "_").to_uppercase();
            let line = format!("pub const CGPC_FAULT_{name}: u32 = {};", kind.number());
            assert!(source.contains(&line), "{line}");
        }
        let token = gpc_rendezvous::client::draw_token().unwrap();
        assert_eq!(CGPC_TOKEN_SIZE, token.as_str().len() + 1);
        assert_eq!(CGPC_HANDLE_SIZE, machine::URL_MAX + 1 + 2 * machine::ID_LENGTH + 1);
    }
}
