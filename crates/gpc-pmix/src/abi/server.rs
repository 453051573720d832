//! The functions of libpmix's server side, and the types of its upcalls and callbacks.

use std::ffi::{c_char, c_int, c_void};

use super::{App, Info, Proc, PublishedData, Status};

/// `pmix_op_cbfunc_t`
pub(crate) type OpCallback = unsafe extern "C" fn(Status, *mut c_void);

/// `pmix_release_cbfunc_t`
pub(crate) type ReleaseCallback = unsafe extern "C" fn(*mut c_void);

/// `pmix_modex_cbfunc_t`
pub(crate) type ModexCallback =
    unsafe extern "C" fn(Status, *const c_char, usize, *mut c_void, Option<ReleaseCallback>, *mut c_void);

/// `pmix_lookup_cbfunc_t`
pub(crate) type LookupCallback = unsafe extern "C" fn(Status, *mut PublishedData, usize, *mut c_void);

/// `pmix_spawn_cbfunc_t`
pub(crate) type SpawnCallback = unsafe extern "C" fn(Status, *mut c_char, *mut c_void);

/// `pmix_info_cbfunc_t`
pub(crate) type InfoCallback =
    unsafe extern "C" fn(Status, *mut Info, usize, *mut c_void, Option<ReleaseCallback>, *mut c_void);

/// `pmix_dmodex_response_fn_t`
pub(crate) type DataCallback = unsafe extern "C" fn(Status, *mut c_char, usize, *mut c_void);

/// `pmix_server_client_connected_fn_t` and `pmix_server_client_finalized_fn_t`
pub(crate) type ClientUpcall =
    unsafe extern "C" fn(*const Proc, *mut c_void, Option<OpCallback>, *mut c_void) -> Status;

/// `pmix_server_client_connected2_fn_t`
pub(crate) type Client2Upcall = unsafe extern "C" fn(
    *const Proc,
    *mut c_void,
    *mut Info,
    usize,
    Option<OpCallback>,
    *mut c_void,
) -> Status;

/// `pmix_server_abort_fn_t`
pub(crate) type AbortUpcall = unsafe extern "C" fn(
    *const Proc,
    *mut c_void,
    c_int,
    *const c_char,
    *mut Proc,
    usize,
    Option<OpCallback>,
    *mut c_void,
) -> Status;

/// `pmix_server_fencenb_fn_t`
pub(crate) type FenceUpcall = unsafe extern "C" fn(
    *const Proc,
    usize,
    *const Info,
    usize,
    *mut c_char,
    usize,
    Option<ModexCallback>,
    *mut c_void,
) -> Status;

/// `pmix_server_dmodex_req_fn_t`
pub(crate) type FetchUpcall =
    unsafe extern "C" fn(*const Proc, *const Info, usize, Option<ModexCallback>, *mut c_void) -> Status;

/// `pmix_server_publish_fn_t`
pub(crate) type PublishUpcall =
    unsafe extern "C" fn(*const Proc, *const Info, usize, Option<OpCallback>, *mut c_void) -> Status;

/// `pmix_server_lookup_fn_t`
pub(crate) type LookupUpcall = unsafe extern "C" fn(
    *const Proc,
    *mut *mut c_char,
    *const Info,
    usize,
    Option<LookupCallback>,
    *mut c_void,
) -> Status;

/// `pmix_server_unpublish_fn_t`
pub(crate) type UnpublishUpcall = unsafe extern "C" fn(
    *const Proc,
    *mut *mut c_char,
    *const Info,
    usize,
    Option<OpCallback>,
    *mut c_void,
) -> Status;

/// `pmix_server_spawn_fn_t`
pub(crate) type SpawnUpcall = unsafe extern "C" fn(
    *const Proc,
    *const Info,
    usize,
    *const App,
    usize,
    Option<SpawnCallback>,
    *mut c_void,
) -> Status;

/// `pmix_server_connect_fn_t` and `pmix_server_disconnect_fn_t`
pub(crate) type ConnectUpcall =
    unsafe extern "C" fn(*const Proc, usize, *const Info, usize, Option<OpCallback>, *mut c_void) -> Status;

/// `pmix_server_notify_event_fn_t`
pub(crate) type EventUpcall = unsafe extern "C" fn(
    Status,
    *const Proc,
    u8,
    *mut Info,
    usize,
    Option<OpCallback>,
    *mut c_void,
) -> Status;

/// `pmix_server_register_events_fn_t`
pub(crate) type RegisterEventsUpcall =
    unsafe extern "C" fn(*mut Status, usize, *const Info, usize, Option<OpCallback>, *mut c_void) -> Status;

/// `pmix_server_deregister_events_fn_t`
pub(crate) type DeregisterEventsUpcall =
    unsafe extern "C" fn(*mut Status, usize, Option<OpCallback>, *mut c_void) -> Status;

/// `pmix_server_job_control_fn_t`
pub(crate) type ControlUpcall = unsafe extern "C" fn(
    *const Proc,
    *const Proc,
    usize,
    *const Info,
    usize,
    Option<InfoCallback>,
    *mut c_void,
) -> Status;

/// `pmix_server_grp_fn_t`. The first argument is an enumeration.
pub(crate) type GroupUpcall = unsafe extern "C" fn(
    c_int,
    *mut c_char,
    *const Proc,
    usize,
    *const Info,
    usize,
    Option<InfoCallback>,
    *mut c_void,
) -> Status;

/// `PMIX_GROUP_CONSTRUCT`
pub(crate) const GROUP_CONSTRUCT: c_int = 0;

/// `PMIX_GROUP_DESTRUCT`
pub(crate) const GROUP_DESTRUCT: c_int = 1;

/// Pointers in a [`Module`]. A library copies as many as its own `pmix_server_module_t` has: 28 in version 4.2.2, 34 in
/// version 6.
pub(crate) const MODULE_POINTERS: usize = 64;

/// `pmix_server_module_t`. What is null is answered as not supported.
#[repr(C)]
pub(crate) struct Module {
    pub(crate) client_connected: Option<ClientUpcall>,
    pub(crate) client_finalized: Option<ClientUpcall>,
    pub(crate) abort: Option<AbortUpcall>,
    pub(crate) fence_nb: Option<FenceUpcall>,
    pub(crate) direct_modex: Option<FetchUpcall>,
    pub(crate) publish: Option<PublishUpcall>,
    pub(crate) lookup: Option<LookupUpcall>,
    pub(crate) unpublish: Option<UnpublishUpcall>,
    pub(crate) spawn: Option<SpawnUpcall>,
    pub(crate) connect: Option<ConnectUpcall>,
    pub(crate) disconnect: Option<ConnectUpcall>,
    pub(crate) register_events: Option<RegisterEventsUpcall>,
    pub(crate) deregister_events: Option<DeregisterEventsUpcall>,
    pub(crate) listener: Option<OpCallback>,
    pub(crate) notify_event: Option<EventUpcall>,
    /// From `query` to `allocate`.
    pub(crate) null_before_control: [Option<OpCallback>; 4],
    pub(crate) job_control: Option<ControlUpcall>,
    /// From `monitor` to `push_stdin`.
    pub(crate) null_after_control: [Option<OpCallback>; 5],
    pub(crate) late: LateUpcalls,
}

/// The end of a [`Module`]: what version 4 has added, and room for later versions.
#[repr(C)]
pub(crate) struct LateUpcalls {
    pub(crate) group: Option<GroupUpcall>,
    pub(crate) fabric: Option<OpCallback>,
    pub(crate) client_connected2: Option<Client2Upcall>,
    pub(crate) null_at_end: [Option<OpCallback>; MODULE_POINTERS - 28],
}

/// `PMIx_server_init`
pub(crate) type ServerInit = unsafe extern "C" fn(*mut Module, *mut Info, usize) -> Status;

/// `PMIx_server_finalize`
pub(crate) type ServerFinalize = unsafe extern "C" fn() -> Status;

/// `PMIx_server_register_nspace`
pub(crate) type RegisterNamespace =
    unsafe extern "C" fn(*const c_char, c_int, *mut Info, usize, Option<OpCallback>, *mut c_void) -> Status;

/// `PMIx_server_deregister_nspace`
pub(crate) type DeregisterNamespace = unsafe extern "C" fn(*const c_char, Option<OpCallback>, *mut c_void);

/// `PMIx_server_register_client`
pub(crate) type RegisterClient =
    unsafe extern "C" fn(*const Proc, u32, u32, *mut c_void, Option<OpCallback>, *mut c_void) -> Status;

/// `PMIx_server_deregister_client`
pub(crate) type DeregisterClient = unsafe extern "C" fn(*const Proc, Option<OpCallback>, *mut c_void);

/// `PMIx_server_setup_fork`
pub(crate) type SetupFork = unsafe extern "C" fn(*const Proc, *mut *mut *mut c_char) -> Status;

/// `PMIx_server_dmodex_request`
pub(crate) type RequestData = unsafe extern "C" fn(*const Proc, Option<DataCallback>, *mut c_void) -> Status;

/// `PMIx_Notify_event`
pub(crate) type NotifyEvent = unsafe extern "C" fn(
    Status,
    *const Proc,
    u8,
    *const Info,
    usize,
    Option<OpCallback>,
    *mut c_void,
) -> Status;
