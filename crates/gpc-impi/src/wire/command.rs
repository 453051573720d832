//! Commands, and the encoding of outgoing messages.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Label, Method};

/// A command, identified by the number in its head, which is four letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// A client's mask of authentication methods.
    Auth,
    /// From a client its rank, from the server the number of clients.
    Impi,
    /// Values under a label.
    Coll,
    /// From a client: it has sent all its labels. From the server: all clients have.
    Done,
    /// The client's processes have ended.
    Fini,
    /// A command that the source does not define.
    Other(u32),
}

impl Command {
    /// The command with this number in its head.
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

    /// The number in the head.
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

/// The name, such as `COLL`, or else the number.
impl std::fmt::Display for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Command::Auth => f.write_str("AUTH"),
            Command::Impi => f.write_str("IMPI"),
            Command::Coll => f.write_str("COLL"),
            Command::Done => f.write_str("DONE"),
            Command::Fini => f.write_str("FINI"),
            Command::Other(number) => write!(f, "command {number:#010x}"),
        }
    }
}

/// Encodes a command whose payload is 4-byte integers.
pub fn command(command: Command, payload: &[u32]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(8 + 4 * payload.len());
    head(&mut bytes, command, 4 * payload.len());
    payload.iter().for_each(|word| bytes.put_u32(*word));
    bytes.freeze()
}

/// Most bytes of values in one COLL of the server. The length of its payload is a signed 4-byte integer, and includes
/// label and mask.
pub const VALUES_MAX: usize = i32::MAX as usize - 8;

/// Encodes a COLL. One from the server has the mask of the clients with values; one from a client has none.
///
/// # Panics
/// Panics if the values are longer than [`VALUES_MAX`]: callers check the length of values from peers before.
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

/// Encodes the server's choice of a method, which has no head.
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
