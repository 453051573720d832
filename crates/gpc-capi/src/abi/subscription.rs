//! `gpc_rendezvous.h`, subscriptions: notifications that a function receives, or that the application asks for.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

use super::callees::{Argument, no_unwind};
use super::pointers::{Pointers, border, handle, object, opaque};
use super::rendezvous::{read_resource, read_scope, read_token};
use super::rendezvous_types::*;
use super::types::cgpc_release_fn;
use crate::error::Error;
use crate::handles::{insert, remove};
use crate::rendezvous::{Notified, Service, Subscribed};
use crate::status::*;

/// Subscribes to the notifications of a resource. A subscriber that comes late gets the present state, and the
/// completion. `scope` and `token` as for cgpc_rendezvous_wait: the lease holds as long as the subscription. Free it
/// with cgpc_subscription_free.
///
/// With a function `notify`, the subscription has a thread that calls it with each notification and `arg`, and
/// `release`, which may be null, releases `arg` once: after the last call, or now if the function fails. It ends with
/// CGPC_NOTIFY_FAILED if the service is not reached for the limit of the client. Without one, there is no thread:
/// cgpc_subscription_next waits for the notifications.
///
/// Errors: those of cgpc_rendezvous_create. May be called from anywhere; it waits for the service, at most the limit of
/// the client.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_rendezvous_subscribe(
    client: *const cgpc_rendezvous,
    resource: *const c_char,
    scope: i32,
    token: *const c_char,
    notify: cgpc_notify_fn,
    arg: *mut c_void,
    release: cgpc_release_fn,
    subscription: *mut *mut cgpc_subscription,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let argument = Argument::new(arg, release);
            let client = object::<Service, _>(client)?;
            c.needs(subscription, "subscription")?;
            let (resource, token) = (read_resource(c, resource)?, read_token(c, token)?);
            let opened = client.client.subscribe(&resource, read_scope(scope)?, token.as_ref())?;
            if notify.is_none() {
                let made = insert(Arc::new(Subscribed::polled(opened)))?;
                c.store(subscription, opaque(made), "subscription")?;
                return Ok(CGPC_OK);
            }
            let (made, go) = Subscribed::threaded(opened, client.limit, calling(notify, argument))?;
            c.store(subscription, opaque(insert(Arc::new(made))?), "subscription")?;
            // From now on the function may free the subscription. If the thread has ended, it needs no start.
            let _ = go.send(());
            Ok(CGPC_OK)
        })
    }
}

/// Waits for the next notification of a subscription without a function, at most `limit_us` (at least 10 ms), and
/// stores it. Set `notification->size` before. Returns CGPC_PENDING if none has arrived by then, and CGPC_NONE after
/// the last one. Another error ends the wait, and not the subscription.
///
/// Errors: those of cgpc_rendezvous_create, CGPC_ERR_BUSY if another thread waits, CGPC_ERR_STATE if another thread
/// frees it, CGPC_ERR_UNSUPPORTED if it has a function. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_subscription_next(
    subscription: *mut cgpc_subscription,
    limit_us: u64,
    notification: *mut cgpc_notification,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let subscribed = object::<Subscribed, _>(subscription)?;
            c.sized(notification)?;
            match subscribed.next(Duration::from_micros(limit_us)) {
                Ok(Some(notified)) => fill(c, notification, &notified),
                Ok(None) => Ok(CGPC_NONE),
                Err(error) if error.status == CGPC_PENDING => Ok(CGPC_PENDING),
                Err(error) => Err(error),
            }
        })
    }
}

/// Ends a subscription and frees it. Its function has returned then, and is not called again; if the function itself
/// calls this, it is the last call. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_subscription_free(subscription: *mut cgpc_subscription) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            remove::<Subscribed>(handle(subscription))?.end();
            Ok(CGPC_OK)
        })
    }
}

/// Calls a function of the application with its argument.
fn calling(notify: cgpc_notify_fn, argument: Argument) -> impl FnMut(&Notified) + Send + 'static {
    move |notified| {
        let (Some(notify), arg) = (notify, argument.pointer()) else { return };
        let notification = of_notified(notified);
        // SAFETY: a function of the application, with a notification that lives until it has returned.
        no_unwind(|| unsafe { notify(&raw const notification, arg) });
    }
}

fn fill(c: &Pointers<'_>, place: *mut cgpc_notification, notified: &Notified) -> Result<c_int, Error> {
    c.fill_sized(place, &of_notified(notified))?;
    Ok(CGPC_OK)
}

/// The structure, whose pointers lead into `notified`.
fn of_notified(notified: &Notified) -> cgpc_notification {
    let mut filled = cgpc_notification {
        size: size_of::<cgpc_notification>(),
        kind: CGPC_NOTIFY_TALLY,
        tally: 0,
        capacity: 0,
        level: 0,
        data: std::ptr::null(),
        length: 0,
        status: CGPC_OK,
        fault: 0,
        message: std::ptr::null(),
    };
    match notified {
        Notified::Tally(tally, capacity) => (filled.tally, filled.capacity) = (*tally, *capacity),
        Notified::Completed(completion) => {
            (filled.kind, filled.level) = (CGPC_NOTIFY_COMPLETED, completion.level.into());
            (filled.data, filled.length) = (completion.data.as_ptr().cast(), completion.data.len());
        }
        Notified::Failed(status, fault, message) => {
            (filled.kind, filled.status) = (CGPC_NOTIFY_FAILED, *status);
            (filled.fault, filled.message) = (*fault, message.as_ptr());
        }
    }
    filled
}
