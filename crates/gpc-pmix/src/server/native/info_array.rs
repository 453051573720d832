//! Pairs that libpmix reads after the callback has returned. It takes over the bytes of byte objects: it frees them
//! with the C library, and sets the pair's pointer to null.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;

use super::lent::Lent;
use crate::abi::{self, ByteObject};
use crate::server::orders::Info;

unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(memory: *mut c_void);
}

/// The pairs.
pub(super) struct InfoArray {
    first: *mut abi::Info,
    /// Pairs whose byte objects are those of the C library.
    count: usize,
    /// Owns the rest.
    _lent: Lent,
}

impl InfoArray {
    /// `None` if a value has no counterpart in C, or there is no memory.
    pub(super) fn new(infos: &[Info]) -> Option<InfoArray> {
        let mut lent = Lent::default();
        let first = lent.infos(infos).ok()?;
        let mut array = InfoArray { first, count: 0, _lent: lent };
        for index in 0..infos.len() {
            // SAFETY: the list has this many pairs, which nothing else uses.
            let value = unsafe { &mut (*first.add(index)).value };
            if value.kind == abi::BYTE_OBJECT {
                // SAFETY: a value of this kind is an object, with the bytes of the message.
                value.data.object = unsafe { copy(value.data.object) }?;
            }
            array.count += 1;
        }
        Some(array)
    }

    pub(super) fn first(&self) -> *mut abi::Info {
        self.first
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }
}

impl Drop for InfoArray {
    fn drop(&mut self) {
        for index in 0..self.count {
            // SAFETY: as in `new`. What libpmix has left is of `malloc`, or null.
            unsafe {
                let value = &(*self.first.add(index)).value;
                if value.kind == abi::BYTE_OBJECT {
                    free(value.data.object.bytes.cast());
                }
            }
        }
    }
}

/// A copy that the C library frees; `None` if there is no memory.
///
/// # Safety
/// The object's bytes are valid.
unsafe fn copy(object: ByteObject) -> Option<ByteObject> {
    if object.size == 0 {
        return Some(ByteObject { bytes: ptr::null_mut(), size: 0 });
    }
    // SAFETY: the copy has this many bytes.
    unsafe {
        let bytes = malloc(object.size).cast::<std::ffi::c_char>();
        if bytes.is_null() {
            return None;
        }
        ptr::copy_nonoverlapping(object.bytes, bytes, object.size);
        Some(ByteObject { bytes, size: object.size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::orders::Value;

    /// libpmix's buffers free what they were given.
    #[test]
    fn bytes_that_were_taken_over_are_freed_by_the_taker_and_others_here() {
        let infos = [
            Info::new("id", Value::size(7)),
            Info::new("taken", Value::object(vec![1, 2, 3])),
            Info::new("left", Value::object(vec![4])),
            Info::new("none", Value::object(Vec::new())),
        ];
        let infos = InfoArray::new(&infos).unwrap();
        assert_eq!(infos.count(), 4);
        // SAFETY: there are four pairs; the second is an object, whose bytes are the taker's.
        unsafe {
            let object = &mut (*infos.first().add(1)).value.data.object;
            assert_eq!(std::slice::from_raw_parts(object.bytes.cast::<u8>(), object.size), [1, 2, 3]);
            free(object.bytes.cast());
            *object = ByteObject { bytes: ptr::null_mut(), size: 0 };
        }
        drop(infos);
        assert!(InfoArray::new(&[Info::new("bad", Value { kind: abi::SIZE, bytes: vec![1] })]).is_none());
    }
}
