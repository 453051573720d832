//! `gpc_rendezvous.h`, clients of rendezvous services: resources, registrations, waits and properties.

use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gpc_rendezvous::bootstrap::client_options;
use gpc_rendezvous::client::{Client, ServiceUrl, draw_token};
use gpc_rendezvous::{Handle as Resource, Parent, RankChoice, Scope, Spec, Token};

use super::pointers::{Pointers, border, handle, object, opaque};
use super::rendezvous_types::*;
use crate::error::{Error, Result};
use crate::handles::{insert, remove};
use crate::rendezvous::{Completed, Service};
use crate::status::*;

/// Makes a client. `options` may be null. Free it with cgpc_rendezvous_free. It has no thread; a name in a URL is
/// looked up on one, for as long as that takes.
///
/// Errors: CGPC_ERR_ARGUMENT if a file or a variable cannot be used. May be called from any thread, and in a forked
/// child.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_rendezvous_new(
    options: *const cgpc_rendezvous_options,
    client: *mut *mut cgpc_rendezvous,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.needs(client, "client")?;
            let options = if options.is_null() { c.zeroed() } else { c.sized(options)? };
            let file = |file, name| Ok::<_, Error>(c.text_if_any(file, name)?.map(PathBuf::from));
            let token_file = file(options.token_file, "token_file")?;
            let mut chosen = client_options(token_file, file(options.ca_file, "ca_file")?)
                .map_err(|error| Error::argument(error.to_string()))?;
            if options.limit_us > 0 {
                chosen.limit = Duration::from_micros(options.limit_us);
            }
            if options.data_max > 0 {
                chosen.data_max = options.data_max;
            }
            let made = Service { client: Client::new(&chosen)?, limit: chosen.limit };
            c.store(client, opaque(insert(Arc::new(made))?), "client")?;
            Ok(CGPC_OK)
        })
    }
}

/// Frees a client. Its subscriptions and the calls of other threads go on. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_rendezvous_free(client: *mut cgpc_rendezvous) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            remove::<Service>(handle(client))?;
            Ok(CGPC_OK)
        })
    }
}

/// Draws a token for a registrant: CGPC_TOKEN_SIZE bytes with the final zero. A registration that is repeated with its
/// token is the same registration. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_rendezvous_token(token: *mut c_char, capacity: usize) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.needs(token, "token")?;
            c.copy_text(draw_token()?.as_str(), (token, capacity), std::ptr::null_mut(), "token")
        })
    }
}

/// Creates a resource at a service, http://HOST:PORT/rendezvous or https, and stores its handle, a text. The buffer has
/// at least CGPC_HANDLE_SIZE bytes: a handle that did not fit would be lost. `length`, which may be null, gets the
/// length without the zero. A request whose answer is lost is not repeated: the resource may exist until the end of its
/// lifetime.
///
/// Errors: CGPC_ERR_FAULT if the service refuses, CGPC_ERR_SERVER if it is not reached, CGPC_ERR_ARGUMENT,
/// CGPC_ERR_TRUNCATED if the buffer is too small: then nothing was asked for. So for the functions below. May be called
/// from anywhere; it waits for the service, at most the limit of the client.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_rendezvous_create(
    client: *const cgpc_rendezvous,
    service: *const c_char,
    spec: *const cgpc_rendezvous_spec,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let client = object::<Service, _>(client)?;
            let service: ServiceUrl = c.text(service, "service")?.parse().map_err(wrong)?;
            let spec = read_spec(c, &c.sized(spec)?)?;
            c.needs(buffer, "buffer")?;
            if capacity < CGPC_HANDLE_SIZE {
                let message = format!("`buffer` has room for {capacity} bytes: give it {CGPC_HANDLE_SIZE}");
                return Err(Error::new(CGPC_ERR_TRUNCATED, message));
            }
            let made = client.client.create(&service, &spec)?.to_string();
            c.copy_text(&made, (buffer, capacity), length, "buffer")
        })
    }
}

/// Registers data: any bytes at a resource of level 1, otherwise level-n data of the level below. `rank` is
/// CGPC_RANK_ASSIGN or the rank asked for. If `lease_us` is not 0, the registration is withdrawn unless the registrant
/// waits, subscribes or registers again with its token at least so often, until the rendezvous is complete. `own_rank`,
/// `tally` and `count` get the rank, the number of registrants so far, and the number that makes the resource complete;
/// each may be null. May be called from anywhere, as cgpc_rendezvous_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_rendezvous_register(
    client: *const cgpc_rendezvous,
    resource: *const c_char,
    rank: i64,
    token: *const c_char,
    data: *const c_void,
    length: usize,
    lease_us: u64,
    own_rank: *mut u32,
    tally: *mut u32,
    count: *mut u32,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let client = object::<Service, _>(client)?;
            let (resource, token) = (read_resource(c, resource)?, read_token(c, token)?);
            let token = token.ok_or_else(|| Error::argument("`token` is null: see cgpc_rendezvous_token"))?;
            let data = c.bytes(data, length, "data")?.to_vec();
            let lease = (lease_us > 0).then(|| Duration::from_micros(lease_us));
            let made = client.client.register(&resource, choice(rank)?, &token, data, lease)?;
            c.store_if_wanted(own_rank, made.rank);
            c.store_if_wanted(tally, made.tally);
            c.store_if_wanted(count, made.capacity);
            Ok(CGPC_OK)
        })
    }
}

/// Withdraws a registration before the rendezvous is complete. May be called from anywhere, as cgpc_rendezvous_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_rendezvous_withdraw(
    client: *const cgpc_rendezvous,
    resource: *const c_char,
    rank: u32,
    token: *const c_char,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let client = object::<Service, _>(client)?;
            let (resource, token) = (read_resource(c, resource)?, read_token(c, token)?);
            let token = token.ok_or_else(|| Error::argument("`token` is null"))?;
            client.client.withdraw(&resource, rank.into(), &token)?;
            Ok(CGPC_OK)
        })
    }
}

/// Waits until the rendezvous is complete, at most `limit_us`, and stores its completion: free it with
/// cgpc_completion_free. `scope` is CGPC_SCOPE_OWN or CGPC_SCOPE_TOP. With the token of a registrant, its lease holds
/// meanwhile; `token` may be null. Returns CGPC_PENDING if it is not complete by then, and CGPC_ERR_FAULT if it cannot
/// complete. May be called from anywhere, as cgpc_rendezvous_create, and by several threads at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_rendezvous_wait(
    client: *const cgpc_rendezvous,
    resource: *const c_char,
    scope: i32,
    token: *const c_char,
    limit_us: u64,
    completion: *mut *mut cgpc_completion,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let client = object::<Service, _>(client)?;
            c.needs(completion, "completion")?;
            let (resource, token) = (read_resource(c, resource)?, read_token(c, token)?);
            let limit = Duration::from_micros(limit_us);
            match client
                .client
                .wait(&resource, read_scope(scope)?, token.as_ref(), limit)
                .map_err(Error::from)
            {
                Err(error) if error.status == CGPC_PENDING => Ok(CGPC_PENDING),
                found => {
                    let made = insert(Arc::new(Completed(found?)))?;
                    c.store(completion, opaque(made), "completion")?;
                    Ok(CGPC_OK)
                }
            }
        })
    }
}

/// Stores the level of a completion, and where its level-n data are, until it is freed: see cgpc_level_each. Each
/// result may be null. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_completion_data(
    completion: *const cgpc_completion,
    level: *mut u16,
    data: *mut *const c_void,
    length: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let Completed(found) = &*object::<Completed, _>(completion)?;
            c.store_if_wanted(level, found.level);
            c.store_if_wanted(data, found.data.as_ptr().cast());
            c.store_if_wanted(length, found.data.len());
            Ok(CGPC_OK)
        })
    }
}

/// Copies the job and the secret that the members of a completion share, as cgpc_options takes them: 33 and 65 bytes
/// with the final zeros. Returns CGPC_NONE if the resource was created without `joint`. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_completion_joint(
    completion: *const cgpc_completion,
    job: *mut c_char,
    job_capacity: usize,
    secret: *mut c_char,
    secret_capacity: usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let Completed(found) = &*object::<Completed, _>(completion)?;
            c.needs(job, "job")?;
            c.needs(secret, "secret")?;
            let Some(joint) = &found.joint else { return Ok(CGPC_NONE) };
            let unused = std::ptr::null_mut();
            c.copy_text(&joint.job.to_string(), (job, job_capacity), unused, "job")?;
            c.copy_text(&joint.secret.to_text(), (secret, secret_capacity), unused, "secret")
        })
    }
}

/// Frees a completion. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_completion_free(completion: *mut cgpc_completion) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            remove::<Completed>(handle(completion))?;
            Ok(CGPC_OK)
        })
    }
}

/// Stores the properties of a resource. Set `properties->size` before. May be called from anywhere, as
/// cgpc_rendezvous_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_rendezvous_properties(
    client: *const cgpc_rendezvous,
    resource: *const c_char,
    properties: *mut cgpc_rendezvous_properties_of,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let client = object::<Service, _>(client)?;
            let resource = read_resource(c, resource)?;
            c.sized(properties)?;
            let found = client.client.properties(&resource)?;
            let mut filled: cgpc_rendezvous_properties_of = c.zeroed();
            filled.level = found.level.into();
            (filled.capacity, filled.tally) = (found.capacity, found.tally);
            filled.completed = found.completed.into();
            filled.fault = found.failed.map_or(0, |fault| fault.kind.number().into());
            for (place, rank) in filled.missing.iter_mut().zip(&found.missing) {
                (*place, filled.missing_count) = (*rank, filled.missing_count + 1);
            }
            (filled.bytes, filled.waiting) = (found.bytes, found.waiting as u64);
            filled.created_us = found.created.saturating_mul(1000);
            filled.expires_us = found.expires.saturating_mul(1000);
            c.fill_sized(properties, &filled)?;
            Ok(CGPC_OK)
        })
    }
}

/// Destroys a resource: its waits and subscriptions end with CGPC_FAULT_DESTROYED. May be called from anywhere, as
/// cgpc_rendezvous_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_rendezvous_destroy(
    client: *const cgpc_rendezvous,
    resource: *const c_char,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let client = object::<Service, _>(client)?;
            client.client.destroy(&read_resource(c, resource)?)?;
            Ok(CGPC_OK)
        })
    }
}

fn wrong(error: impl std::fmt::Display) -> Error {
    Error::argument(error.to_string())
}

/// The handle of a resource. Errors do not quote it.
pub(super) fn read_resource(c: &Pointers<'_>, resource: *const c_char) -> Result<Resource> {
    c.text(resource, "resource")?.parse().map_err(wrong)
}

/// The token of a registrant; `None` for null.
pub(super) fn read_token(c: &Pointers<'_>, token: *const c_char) -> Result<Option<Token>> {
    let Some(token) = c.text_if_any(token, "token")? else { return Ok(None) };
    let unfit = || Error::argument("`token` has 1 to 128 printable letters: see cgpc_rendezvous_token");
    Token::new(token).map(Some).ok_or_else(unfit)
}

pub(super) fn read_scope(scope: i32) -> Result<Scope> {
    match scope {
        CGPC_SCOPE_OWN => Ok(Scope::Own),
        CGPC_SCOPE_TOP => Ok(Scope::Top),
        _ => Err(Error::argument(format!("`scope` is {scope}: use CGPC_SCOPE_OWN or CGPC_SCOPE_TOP"))),
    }
}

fn choice(rank: i64) -> Result<RankChoice> {
    match u64::try_from(rank) {
        Ok(rank) => Ok(RankChoice::Rank(rank)),
        Err(_) if rank == CGPC_RANK_ASSIGN => Ok(RankChoice::Assign),
        Err(_) => Err(Error::argument(format!("there is no rank {rank}: they begin with 0"))),
    }
}

fn read_spec(c: &Pointers<'_>, spec: &cgpc_rendezvous_spec) -> Result<Spec> {
    let mut made = Spec::new(spec.capacity);
    made.level = (spec.level > 0).then_some(spec.level.into());
    // At least a millisecond, so that a short time does not become the default.
    made.lifetime = (spec.lifetime_us > 0).then(|| spec.lifetime_us.div_ceil(1000));
    made.joint = match spec.joint {
        0 | 1 => spec.joint == 1,
        other => return Err(Error::argument(format!("`joint` is {other}: it is 0 or 1"))),
    };
    made.job = c.text_if_any(spec.job, "job")?.map(|job| job.parse().map_err(wrong)).transpose()?;
    if !spec.parent.is_null() {
        made.parent =
            Some(Parent { handle: read_resource(c, spec.parent)?, rank: choice(spec.parent_rank)? });
    }
    Ok(made)
}
