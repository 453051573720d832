//! The border to C: pointers of arguments become slices and texts, errors become statuses, and panics stop here.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::slice;

use chained_gpc::IdList;

use super::near::Held;
use crate::error::{Error, Result};
use crate::handles::{Handle, Object, get};
use crate::status::{CGPC_ERR_TRUNCATED, CGPC_OK};

/// The caller's promise that the pointers among the arguments of one C call are as its documentation demands: null, or
/// valid for the stated length while the call lasts. Null is checked here.
pub(crate) struct Pointers<'c>(PhantomData<&'c ()>);

/// Runs the body of a C function: its result or error becomes a status. A panic is an internal error.
///
/// # Safety
/// The pointers that `body` passes to [`Pointers`] must be null or valid, as described there.
pub(crate) unsafe fn border(body: impl FnOnce(&Pointers<'_>) -> Result<c_int>) -> c_int {
    match catch_unwind(AssertUnwindSafe(|| body(&Pointers(PhantomData)))) {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => error.record(),
        Err(panic) => Error::of_panic(&*panic).record(),
    }
}

/// A structure of C that begins with its size, so that later versions can add fields at its end. All zeros is a valid
/// value of it.
///
/// # Safety
/// The type is `repr(C)`, its first field is the `usize` of its size, and any bytes that C can store in it, also all
/// zeros, are a valid value.
pub(crate) unsafe trait Versioned: Copy {
    /// Its name in C.
    const NAME: &'static str;
    /// The size of its first version.
    const FIRST: usize;
}

/// Declares structures that begin with their size; each has its first version.
macro_rules! versioned {
    ($($name:ident $first:literal,)+) => {
        // SAFETY: `repr(C)`, first a `usize`, then numbers, pointers and optional functions: zeros are valid, and so is
        // what C stores in them.
        $(unsafe impl $crate::abi::pointers::Versioned for $name {
            const NAME: &'static str = stringify!($name);
            const FIRST: usize = $first;
        })+
    };
}

pub(crate) use versioned;

impl<'c> Pointers<'c> {
    /// Bytes that the caller lends. Null is allowed if the length is 0.
    pub(crate) fn bytes(&self, start: *const c_void, len: usize, name: &str) -> Result<&'c [u8]> {
        self.items(start.cast(), len, name)
    }

    /// Items that the caller lends: bytes or numbers, of which any bits are valid. Null is allowed if there are none.
    pub(crate) fn items<T: Copy>(&self, start: *const T, len: usize, name: &str) -> Result<&'c [T]> {
        if len == 0 {
            return Ok(&[]);
        }
        if start.is_null() {
            return Err(Error::argument(format!("`{name}` is null, and its length is {len}")));
        }
        if len > isize::MAX as usize / mem::size_of::<T>().max(1) {
            return Err(Error::argument(format!(
                "the length of `{name}`, {len}, is more than any memory has"
            )));
        }
        if !start.is_aligned() {
            return Err(Error::argument(format!("`{name}` is not aligned for its type")));
        }
        // SAFETY: not null, aligned, and valid for `len` items while the call lasts, as the caller of `border`
        // promises.
        Ok(unsafe { slice::from_raw_parts(start, len) })
    }

    /// A text that the caller lends.
    pub(crate) fn text(&self, start: *const c_char, name: &str) -> Result<&'c str> {
        self.text_if_any(start, name)?.ok_or_else(|| null(name))
    }

    /// A text that the caller lends; `None` for null.
    pub(crate) fn text_if_any(&self, start: *const c_char, name: &str) -> Result<Option<&'c str>> {
        let text = self.zero_ended_if_any(start).map(CStr::to_str).transpose();
        text.map_err(|_| Error::argument(format!("`{name}` is not UTF-8")))
    }

    /// Bytes before a zero, which the caller lends.
    #[cfg(feature = "bnr")]
    pub(crate) fn zero_ended(&self, start: *const c_char, name: &str) -> Result<&'c [u8]> {
        self.zero_ended_if_any(start).map(CStr::to_bytes).ok_or_else(|| null(name))
    }

    /// The same; `None` for null.
    pub(crate) fn zero_ended_if_any(&self, start: *const c_char) -> Option<&'c CStr> {
        // SAFETY: not null, and a text that ends with a zero, as the caller of `border` promises.
        (!start.is_null()).then(|| unsafe { CStr::from_ptr(start) })
    }

    /// Texts that the caller lends, in a list that ends with null. Null is an empty list.
    ///
    /// # Errors
    /// The list has more than 2^20 texts: it lacks its end.
    #[cfg(feature = "bnr")]
    pub(crate) fn list(&self, start: *const *mut c_char, name: &str) -> Result<Vec<&'c [u8]>> {
        let mut texts = Vec::new();
        if start.is_null() {
            return Ok(texts);
        }
        while let Some(text) = self.zero_ended_if_any(self.load(start.wrapping_add(texts.len()), name)?) {
            if texts.len() == LIST_MAX {
                return Err(Error::argument(format!(
                    "`{name}` has more than {LIST_MAX} texts: end it with null"
                )));
            }
            texts.push(text.to_bytes());
        }
        Ok(texts)
    }

    /// Stores a result of a call.
    pub(crate) fn store<T: Copy>(&self, place: *mut T, value: T, name: &str) -> Result<()> {
        if place.is_null() {
            return Err(null(name));
        }
        self.store_if_wanted(place, value);
        Ok(())
    }

    /// Stores a result of a call, unless the caller passed null.
    pub(crate) fn store_if_wanted<T: Copy>(&self, place: *mut T, value: T) {
        if !place.is_null() {
            // SAFETY: valid for a value of this type, as the caller of `border` promises; it need not be aligned.
            unsafe { place.write_unaligned(value) };
        }
    }

    /// Checks a pointer for a result before anything is done whose result would be lost.
    pub(crate) fn needs<T>(&self, place: *mut T, name: &str) -> Result<()> {
        if place.is_null() { Err(null(name)) } else { Ok(()) }
    }

    /// Reads a number that the call replaces.
    pub(crate) fn load<T: Copy>(&self, place: *const T, name: &str) -> Result<T> {
        if place.is_null() {
            return Err(null(name));
        }
        // SAFETY: valid for a value of this type, as the caller of `border` promises; it need not be aligned.
        Ok(unsafe { place.read_unaligned() })
    }

    /// Copies bytes into a buffer of the caller, and stores their length, which may be more than the buffer has.
    ///
    /// # Errors
    /// [`CGPC_ERR_TRUNCATED`] if the buffer is too short; it has the first bytes then.
    pub(crate) fn copy(
        &self,
        bytes: &[u8],
        (buffer, capacity): (*mut c_void, usize),
        length: *mut usize,
        name: &str,
    ) -> Result<c_int> {
        self.store_if_wanted(length, bytes.len());
        if buffer.is_null() && capacity > 0 {
            return Err(Error::argument(format!("`{name}` is null, and its length is {capacity}")));
        }
        let fits = bytes.len().min(capacity);
        if fits > 0 {
            // SAFETY: the buffer is valid for `capacity` bytes, as the caller of `border` promises. `copy` allows that
            // it overlaps the bytes, which may be lent by this library.
            unsafe { ptr::copy(bytes.as_ptr(), buffer.cast(), fits) };
        }
        match fits == bytes.len() {
            true => Ok(CGPC_OK),
            false => Err(Error::new(
                CGPC_ERR_TRUNCATED,
                format!("`{name}` has room for {capacity} of {} bytes", bytes.len()),
            )),
        }
    }

    /// Copies ids into a buffer of the caller, and stores their number.
    ///
    /// # Errors
    /// As for [`copy`](Self::copy).
    pub(crate) fn copy_ids(
        &self,
        ids: &IdList,
        buffer: (*mut u32, usize),
        count: *mut usize,
    ) -> Result<c_int> {
        let (place, capacity) = buffer;
        self.store_if_wanted(count, ids.len() as usize);
        if place.is_null() && capacity > 0 {
            return Err(Error::argument(format!("`ids` is null, and has room for {capacity}")));
        }
        for (index, id) in ids.iter().take(capacity).enumerate() {
            self.store_if_wanted(place.wrapping_add(index), id);
        }
        match ids.len() as usize <= capacity {
            true => Ok(CGPC_OK),
            false => {
                let message = format!("`ids` has room for {capacity} of {} ids", ids.len());
                Err(Error::new(CGPC_ERR_TRUNCATED, message))
            }
        }
    }

    /// Copies a text and a final zero into a buffer of the caller. The stored length is that of the text alone.
    ///
    /// # Errors
    /// As for [`copy`](Self::copy); the buffer has a shorter text then.
    pub(crate) fn copy_text(
        &self,
        text: &str,
        (buffer, capacity): (*mut c_char, usize),
        length: *mut usize,
        name: &str,
    ) -> Result<c_int> {
        let room = capacity.saturating_sub(1);
        let mut fits = text.len().min(room);
        // A character is not cut.
        while !text.is_char_boundary(fits) {
            fits -= 1;
        }
        let mut bytes = text.as_bytes()[..fits].to_vec();
        bytes.push(0);
        bytes.truncate(capacity);
        self.copy(&bytes, (buffer.cast(), capacity), ptr::null_mut(), name)?;
        self.store_if_wanted(length, text.len());
        match fits == text.len() && capacity > 0 {
            true => Ok(CGPC_OK),
            false => Err(Error::new(
                CGPC_ERR_TRUNCATED,
                format!("`{name}` has room for {capacity} bytes, and the text has {} and a zero", text.len()),
            )),
        }
    }

    /// A structure with all fields 0.
    pub(crate) fn zeroed<T: Versioned>(&self) -> T {
        // SAFETY: zeros are a valid value, as the trait demands.
        unsafe { MaybeUninit::zeroed().assume_init() }
    }

    /// Sets a structure of this size to zeros, and its field `size`.
    pub(crate) fn clear<T: Versioned>(&self, place: *mut T, size: usize) -> Result<c_int> {
        if !(T::FIRST..=SIZE_MAX).contains(&size) {
            return Err(Error::argument(format!("the size of {} is {size}: pass its sizeof", T::NAME)));
        }
        self.needs(place, T::NAME)?;
        // SAFETY: the caller of `border` promises that the structure has the bytes of its size.
        unsafe { place.cast::<u8>().write_bytes(0, size) };
        self.store(place.cast::<usize>(), size, T::NAME)?;
        Ok(CGPC_OK)
    }

    /// Reads a structure that begins with its size. Fields that the caller's version lacks are zero.
    pub(crate) fn sized<T: Versioned>(&self, start: *const T) -> Result<T> {
        if start.is_null() {
            return Err(null(T::NAME));
        }
        // SAFETY: a structure begins with its size, and the caller of `border` promises that it is there.
        let size = unsafe { start.cast::<usize>().read_unaligned() };
        if size < T::FIRST {
            return Err(Error::argument(format!(
                "the field `size` of {} is {size}, and the structure has at least {} bytes: set it to its sizeof",
                T::NAME,
                T::FIRST
            )));
        }
        if size > SIZE_MAX {
            return Err(Error::argument(format!(
                "the field `size` of {} is {size}: it was not set",
                T::NAME
            )));
        }
        if size == mem::size_of::<T>() {
            // SAFETY: the caller of `border` promises that the structure has the bytes of its size, of which any are
            // valid.
            return Ok(unsafe { start.read_unaligned() });
        }
        let known = size.min(mem::size_of::<T>());
        // SAFETY: the caller of `border` promises that the structure has the bytes of its size.
        let rest = unsafe { slice::from_raw_parts(start.cast::<u8>().add(known), size - known) };
        if rest.iter().any(|&byte| byte != 0) {
            return Err(Error::argument(format!(
                "{} has {size} bytes with fields that this library does not know: it is older than the header",
                T::NAME
            )));
        }
        let mut value = MaybeUninit::<T>::zeroed();
        // SAFETY: both have `known` bytes, and the new value does not overlap the caller's.
        unsafe { ptr::copy_nonoverlapping(start.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), known) };
        // SAFETY: all bytes are set, and any are valid, as the trait demands.
        Ok(unsafe { value.assume_init() })
    }

    /// Fills a structure of the caller that begins with its size: as many bytes as the caller's version has.
    pub(crate) fn fill_sized<T: Versioned>(&self, place: *mut T, value: &T) -> Result<()> {
        let size = self.load(place.cast::<usize>(), T::NAME)?;
        if size < T::FIRST {
            return Err(Error::argument(format!("set the field `size` of {} to its sizeof", T::NAME)));
        }
        let from = mem::size_of::<usize>();
        let known = size.min(mem::size_of::<T>());
        // SAFETY: the caller of `border` promises that the structure has the bytes of its size; the size itself stays.
        unsafe {
            let (to, bytes) = (place.cast::<u8>().add(from), (&raw const *value).cast::<u8>().add(from));
            ptr::copy_nonoverlapping(bytes, to, known - from);
        }
        Ok(())
    }
}

/// Upper limit of the size of a structure: a larger one is a mistake, such as a size that was not set.
const SIZE_MAX: usize = 4096;

/// Most texts of a list that ends with null.
#[cfg(feature = "bnr")]
const LIST_MAX: usize = 1 << 20;

#[cold]
#[inline(never)]
fn null(name: &str) -> Error {
    Error::argument(format!("`{name}` is null"))
}

/// The handle in a pointer from C, which is never followed.
pub(crate) fn handle<T>(pointer: *const T) -> Handle {
    Handle(pointer.addr() as u64)
}

/// The object of a handle from C.
#[inline]
pub(crate) fn object<O: Object, T>(pointer: *const T) -> Result<Held<O>> {
    get(handle(pointer))
}

/// A handle as a pointer for C.
pub(crate) fn opaque<T>(handle: Handle) -> *mut T {
    ptr::without_provenance_mut(handle.0 as usize)
}

const _: () = assert!(mem::size_of::<usize>() == 8, "a handle has 64 bits");
