//! The commands, and the bytes of what is sent.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Label, Method, Relay};

/// A command by the name in its head. Names are four letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// How the client would prove that it may take part: a mask of methods.
    Auth,
    /// From a client its rank, from the server the number of clients.
    Impi,
    /// Values under a label.
    Coll,
    /// From a client that it has sent all its labels, from the server that all have.
    Done,
    /// The client's processes have ended.
    Fini,
    /// One that the source does not know.
    Other(u32),
}

impl Command {
    /// Of the number in a head.
    pub fn of(number: u32) -> Command {
        match number {
            0x4155_5448 => Command::Auth,
            0x494D_5049 => Command::Impi,
            0x434F_4C4C => Command::Coll,
            0x444F_4E45 => Command::Done,
            0x4649_4E49 => Command::Fini,
            other => Command::Other(other),
        }
    }

    /// The number in a head.
    pub fn number(self) -> u32 {
        match self {
            Command::Auth => 0x4155_5448,
            Command::Impi => 0x494D_5049,
            Command::Coll => 0x434F_4C4C,
            Command::Done => 0x444F_4E45,
            Command::Fini => 0x4649_4E49,
            Command::Other(number) => number,
        }
    }
}

/// As people know it: `COLL`, or the number.
impl std::fmt::Display for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Command::Auth => f.write_str("AUTH"),
            Command::Impi => f.write_str("IMPI"),
            Command::Coll => f.write_str("COLL"),
            Command::Done => f.write_str("DONE"),
            Command::Fini => f.write_str("FINI"),
            Command::Other(number) => match Relay::name_of(*number) {
                Some(name) => f.write_str(name),
                None => write!(f, "command {number:#010x}"),
            },
        }
    }
}

/// A command whose payload is some 4-byte integers.
pub fn command(command: Command, payload: &[u32]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(8 + 4 * payload.len());
    head(&mut bytes, command, 4 * payload.len());
    payload.iter().for_each(|word| bytes.put_u32(*word));
    bytes.freeze()
}

/// Most bytes of values that one COLL of the server has: the length of its payload is a signed integer of 4 bytes, and the label and the mask count.
pub const VALUES_MAX: usize = i32::MAX as usize - 8;

/// A COLL: from a client without a mask, from the server with the mask of the clients whose values there are.
///
/// # Panics
/// When the values are longer than [`VALUES_MAX`]: whoever has values of others looks before.
pub fn coll<'a>(
    label: Label,
    mask: Option<u32>,
    values: impl IntoIterator<Item = &'a [u8]> + Clone,
) -> Bytes {
    let len: usize = values.clone().into_iter().map(<[u8]>::len).sum();
    assert!(len <= VALUES_MAX, "the values of {label} are {len} bytes");
    let payload = 4 + 4 * usize::from(mask.is_some()) + len;
    let mut bytes = BytesMut::with_capacity(8 + payload);
    head(&mut bytes, Command::Coll, payload);
    bytes.put_u32(label.0);
    if let Some(mask) = mask {
        bytes.put_u32(mask);
    }
    values.into_iter().for_each(|value| bytes.put_slice(value));
    bytes.freeze()
}

/// The server's choice among the methods, which has no head.
pub fn server_auth(method: Method) -> Bytes {
    let which: u32 = match method {
        Method::None => 0,
        Method::Key => 1,
    };
    [which.to_be_bytes(), [0; 4]].concat().into()
}

fn head(bytes: &mut BytesMut, command: Command, payload: usize) {
    bytes.put_u32(command.number());
    bytes.put_u32(payload as u32);
}
