//! Encoding of the parts of a message. Numbers are little-endian, lists begin with their length (u32), and variants
//! with their number (u8).
//!
//! Each structure and each variant is listed once, for both directions.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use crate::server::orders::{
    Answer, Application, Event, Info, Job, NodeRanks, Order, Process, Upcall, Value,
};
use crate::server::protocol_error::ProtocolError;

/// A part of a message.
pub(in crate::server) trait Field: Sized {
    /// Appends this part.
    fn put(&self, out: &mut BytesMut);

    /// Takes this part from the beginning of the bytes.
    fn get(bytes: &mut Bytes) -> Result<Self, ProtocolError>;

    /// Appends the items of a list. Bytes override it: they are copied at once.
    fn put_items(items: &[Self], out: &mut BytesMut) {
        items.iter().for_each(|item| item.put(out));
    }

    /// Takes the items of a list. An announced length reserves no memory.
    fn get_items(length: usize, bytes: &mut Bytes) -> Result<Vec<Self>, ProtocolError> {
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(Self::get(bytes)?);
        }
        Ok(items)
    }
}

fn short() -> ProtocolError {
    ProtocolError::new("a frame is shorter than its message")
}

fn unknown(what: &str, number: u8) -> ProtocolError {
    ProtocolError(format!("{what} {number} is unknown"))
}

macro_rules! numbers {
    ($($kind:ty, $put:ident, $get:ident;)*) => { $(
        impl Field for $kind {
            fn put(&self, out: &mut BytesMut) {
                out.$put(*self);
            }

            fn get(bytes: &mut Bytes) -> Result<Self, ProtocolError> {
                bytes.$get().map_err(|_| short())
            }
        }
    )* };
}

numbers! {
    u16, put_u16_le, try_get_u16_le;
    u32, put_u32_le, try_get_u32_le;
    u64, put_u64_le, try_get_u64_le;
    i32, put_i32_le, try_get_i32_le;
}

impl Field for bool {
    fn put(&self, out: &mut BytesMut) {
        out.put_u8(u8::from(*self));
    }

    fn get(bytes: &mut Bytes) -> Result<bool, ProtocolError> {
        match u8::get(bytes)? {
            0 => Ok(false),
            1 => Ok(true),
            number => Err(unknown("flag", number)),
        }
    }
}

impl Field for u8 {
    fn put(&self, out: &mut BytesMut) {
        out.put_u8(*self);
    }

    fn get(bytes: &mut Bytes) -> Result<u8, ProtocolError> {
        bytes.try_get_u8().map_err(|_| short())
    }

    fn put_items(items: &[u8], out: &mut BytesMut) {
        out.put_slice(items);
    }

    fn get_items(length: usize, bytes: &mut Bytes) -> Result<Vec<u8>, ProtocolError> {
        if length > bytes.len() {
            return Err(short());
        }
        Ok(bytes.split_to(length).to_vec())
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut BytesMut) {
        // A length that does not fit belongs to a frame that is refused as too long.
        u32::try_from(self.len()).unwrap_or(u32::MAX).put(out);
        T::put_items(self, out);
    }

    fn get(bytes: &mut Bytes) -> Result<Vec<T>, ProtocolError> {
        let length = u32::get(bytes)?;
        T::get_items(length as usize, bytes)
    }
}

impl Field for String {
    fn put(&self, out: &mut BytesMut) {
        u32::try_from(self.len()).unwrap_or(u32::MAX).put(out);
        out.put_slice(self.as_bytes());
    }

    fn get(bytes: &mut Bytes) -> Result<String, ProtocolError> {
        String::from_utf8(Vec::get(bytes)?).map_err(|_| ProtocolError::new("a text is not UTF-8"))
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut BytesMut) {
        match self {
            None => out.put_u8(0),
            Some(value) => {
                out.put_u8(1);
                value.put(out);
            }
        }
    }

    fn get(bytes: &mut Bytes) -> Result<Option<T>, ProtocolError> {
        match u8::get(bytes)? {
            0 => Ok(None),
            1 => T::get(bytes).map(Some),
            number => Err(unknown("option", number)),
        }
    }
}

impl<T: Field, E: Field> Field for Result<T, E> {
    fn put(&self, out: &mut BytesMut) {
        match self {
            Ok(value) => {
                out.put_u8(0);
                value.put(out);
            }
            Err(error) => {
                out.put_u8(1);
                error.put(out);
            }
        }
    }

    fn get(bytes: &mut Bytes) -> Result<Result<T, E>, ProtocolError> {
        match u8::get(bytes)? {
            0 => T::get(bytes).map(Ok),
            1 => E::get(bytes).map(Err),
            number => Err(unknown("result", number)),
        }
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn put(&self, out: &mut BytesMut) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(bytes: &mut Bytes) -> Result<(A, B), ProtocolError> {
        Ok((A::get(bytes)?, B::get(bytes)?))
    }
}

macro_rules! structures {
    ($($name:ident { $($field:ident),* })*) => { $(
        impl Field for $name {
            fn put(&self, out: &mut BytesMut) {
                let $name { $($field),* } = self;
                $($field.put(out);)*
            }

            fn get(bytes: &mut Bytes) -> Result<$name, ProtocolError> {
                Ok($name { $($field: Field::get(bytes)?),* })
            }
        }
    )* };
}

structures! {
    Process { namespace, rank }
    Value { kind, bytes }
    Info { key, value, required }
    NodeRanks { host, ranks, before }
    Job { namespace, parent, slots, nodes, here, applications }
    Application { program, arguments, environment, folder, count, info }
}

macro_rules! variants {
    ($name:ident { $($number:literal $variant:ident $(($one:ident))? $({ $($field:ident),* })?;)* }) => {
        impl Field for $name {
            fn put(&self, out: &mut BytesMut) {
                match self {
                    $($name::$variant $(($one))? $({ $($field),* })? => {
                        out.put_u8($number);
                        $($one.put(out);)?
                        $($($field.put(out);)*)?
                    })*
                }
            }

            fn get(bytes: &mut Bytes) -> Result<$name, ProtocolError> {
                match u8::get(bytes)? {
                    $($number => {
                        $(let $one = Field::get(bytes)?;)?
                        Ok($name::$variant $(($one))? $({ $($field: Field::get(bytes)?),* })?)
                    })*
                    number => Err(unknown(stringify!($name), number)),
                }
            }
        }
    };
}

variants! {
    Order {
        1 Register(job);
        2 Prepare { process, user };
        3 Ended(process);
        4 Forget(namespace);
        5 Answer { serial, answer };
        6 Data { serial, process };
        7 Notify { code, source, to, info };
    }
}

variants! {
    Answer {
        1 Done;
        2 Data(data);
        3 Found(pairs);
        4 Spawned(namespace);
        5 Infos(pairs);
    }
}

variants! {
    Event {
        1 Ready(version);
        2 Failed(why);
        3 Registered { namespace, failed };
        4 Environment { process, variables };
        5 Data { serial, data };
        6 Upcall { serial, upcall };
    }
}

variants! {
    Upcall {
        1 Connected(process);
        2 Finalized(process);
        3 Abort { process, status, message, processes };
        4 Fence { processes, data, info };
        5 Fetch { process, info };
        6 Publish { process, info };
        7 Lookup { process, keys, info };
        8 Unpublish { process, keys, info };
        9 Spawn { process, info, applications };
        10 Connect { processes, info };
        11 Disconnect { processes, info };
        12 Control { process, targets, info };
        13 Event { code, source, range, info };
        14 Group { constructs, name, processes, info };
    }
}
