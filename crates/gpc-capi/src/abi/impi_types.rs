//! Types of `impi.h`: commands and labels of IMPI, as its source spells them, and options of a session.
//!
//! Source: IMPI, "Startup", of the Interoperable MPI protocol, draft of March 1999.

use std::ffi::c_char;

use super::pointers::versioned;

/// A signed integer of 32 bits; big-endian on the wire, as all of them.
pub type IMPI_Int4 = i32;
/// An unsigned integer of 32 bits.
pub type IMPI_Uint4 = u32;
/// A signed integer of 64 bits.
pub type IMPI_Int8 = i64;
/// An unsigned integer of 64 bits.
pub type IMPI_Uint8 = u64;

/// Head of a command. `len` is the length of what follows it, bytes.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct IMPI_Cmd {
    /// IMPI_CMD_AUTH and others.
    pub cmd: IMPI_Int4,
    /// Length of the payload, bytes.
    pub len: IMPI_Int4,
}

/// Payload of AUTH.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct IMPI_Client_auth {
    /// Bit i for method i.
    pub auth_mask: IMPI_Uint4,
}

/// The answer of the server to AUTH, without a head.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct IMPI_Server_auth {
    /// IMPI_AUTH_NONE or IMPI_AUTH_KEY.
    pub which: IMPI_Int4,
    /// Not used.
    pub len: IMPI_Int4,
}

/// What the client sends if the server chooses IMPI_AUTH_KEY.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct IMPI_Auth_key {
    /// The key.
    pub key: IMPI_Uint8,
}

/// Payload of IMPI from a client.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct IMPI_Client_impi {
    /// Rank of the client.
    pub rank: IMPI_Int4,
}

/// Payload of IMPI from the server.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct IMPI_Server_impi {
    /// Number of clients.
    pub size: IMPI_Int4,
}

/// Begin of the payload of COLL from a client; the values follow.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct IMPI_Coll {
    /// IMPI_C_NHOSTS and others.
    pub label: IMPI_Int4,
}

/// Begin of the payload of COLL from the server; the values of the clients follow, by ascending rank.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct IMPI_Chdr {
    /// The label.
    pub label: IMPI_Int4,
    /// Bit i for client i.
    pub client_mask: IMPI_Uint4,
}

/// A version of the protocol: the element of IMPI_C_VERSION.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct IMPI_Version {
    /// Number before the point.
    pub major: IMPI_Uint4,
    /// Number after the point.
    pub minor: IMPI_Uint4,
}

/// A command: methods of authentication ("AUTH").
pub const IMPI_CMD_AUTH: i32 = 0x4155_5448;
/// A command: rank, or number of clients ("IMPI").
pub const IMPI_CMD_IMPI: i32 = 0x494D_5049;
/// A command: values of a label ("COLL").
pub const IMPI_CMD_COLL: i32 = 0x434F_4C4C;
/// A command: all labels were sent ("DONE").
pub const IMPI_CMD_DONE: i32 = 0x444F_4E45;
/// A command: the processes of the client have ended ("FINI").
pub const IMPI_CMD_FINI: i32 = 0x4649_4E49;

/// A method of authentication: none.
pub const IMPI_AUTH_NONE: i32 = 0;
/// A method of authentication: a key of 64 bits.
pub const IMPI_AUTH_KEY: i32 = 1;

/// Most clients of a session.
pub const IMPI_CLIENTS_MAX: i32 = 32;

/// No label; never sent.
pub const IMPI_NO_LABEL: i32 = 0;
/// A label of a client: its versions, one or more IMPI_Version, strictly ascending from 0.0.
pub const IMPI_C_VERSION: i32 = 0x1000;
/// A label of a client: number of its hosts, 4 bytes.
pub const IMPI_C_NHOSTS: i32 = 0x1100;
/// A label of a client: number of its processes, 4 bytes.
pub const IMPI_C_NPROCS: i32 = 0x1200;
/// A label of a client: longest packet of data, bytes, 4 bytes. Clients use the least value.
pub const IMPI_C_PKTLEN: i32 = 0x1300;
/// Another name of IMPI_C_PKTLEN, used by implementations.
pub const IMPI_C_DATALEN: i32 = 0x1300;
/// A label of a client: largest tag, 4 bytes, at least 32767. Clients use the least value.
pub const IMPI_C_TAGUB: i32 = 0x1400;
/// A label of a client: bytes from which on collectives count as long, 4 bytes, -1 for 1024. All values are equal.
pub const IMPI_C_COLL_XSIZE: i32 = 0x1500;
/// A label of a client: most hosts for linear collectives, 4 bytes, -1 for 4. All values are equal.
pub const IMPI_C_COLL_MAXLINEAR: i32 = 0x1600;
/// A label of each host: its address, 16 bytes.
pub const IMPI_H_IPV6: i32 = 0x2000;
/// A label of each host: its port, 4 bytes.
pub const IMPI_H_PORT: i32 = 0x2100;
/// A label of each host: number of its processes, 4 bytes.
pub const IMPI_H_NPROCS: i32 = 0x2200;
/// A label of each host: number of packets after which it acknowledges, 4 bytes, at least 1.
pub const IMPI_H_ACKMARK: i32 = 0x2300;
/// A label of each host: most packets without an acknowledgement, 4 bytes, at least the ackmark.
pub const IMPI_H_HIWATER: i32 = 0x2400;
/// A label of each process: its address, 16 bytes.
pub const IMPI_P_IPV6: i32 = 0x3000;
/// A label of each process: a number that is unique among those of its address, 8 bytes, as every implementation sends
/// it. (The text of the source says 4.)
pub const IMPI_P_PID: i32 = 0x3100;

/// A session of a client, until it is freed. One thread at a time uses it.
pub enum cgpc_impi {}

/// Options of a session.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_impi_options {
    /// sizeof(cgpc_impi_options).
    pub size: usize,
    /// Rank of the client, 0 to 31.
    pub rank: u32,
    /// 1 to offer the server both, if there is a key: with it, and without one. A client that has no key always takes
    /// part without one.
    pub without_key: i32,
    /// The key, a decimal number of 64 bits. If null, IMPI_AUTH_KEY of the environment, or none.
    pub key: *const c_char,
    /// Most bytes that the server may send; 0 for 1 GiB.
    pub bytes_max: u64,
}

versioned! {
    cgpc_impi_options 32,
}

#[cfg(test)]
mod tests {
    use gpc_impi::wire::{CLIENTS_MAX, Command, Label};

    use super::*;
    use crate::abi::pointers::Versioned;

    #[test]
    fn structures_have_the_sizes_of_their_first_version_and_of_the_wire() {
        assert_eq!(size_of::<cgpc_impi_options>(), cgpc_impi_options::FIRST);
        let of_the_wire = [
            size_of::<IMPI_Cmd>(),
            size_of::<IMPI_Server_auth>(),
            size_of::<IMPI_Auth_key>(),
            size_of::<IMPI_Chdr>(),
            size_of::<IMPI_Version>(),
        ];
        assert_eq!(of_the_wire, [8; 5]);
        assert_eq!([size_of::<IMPI_Client_impi>(), size_of::<IMPI_Coll>()], [4; 2]);
    }

    #[test]
    fn commands_and_labels_have_the_numbers_of_the_library() {
        let source = include_str!("impi_types.rs");
        for label in Label::KNOWN {
            let line = format!("pub const IMPI_{}: i32 = {:#06x};", label.name().unwrap(), label.0);
            assert!(source.contains(&line), "{line}");
        }
        let commands = [IMPI_CMD_AUTH, IMPI_CMD_IMPI, IMPI_CMD_COLL, IMPI_CMD_DONE, IMPI_CMD_FINI];
        let names = ["AUTH", "IMPI", "COLL", "DONE", "FINI"];
        for (number, name) in commands.into_iter().zip(names) {
            assert_eq!(Command::of(number as u32).to_string(), name);
        }
        assert_eq!((IMPI_C_PKTLEN as u32, IMPI_CLIENTS_MAX as u32), (Label::C_DATALEN.0, CLIENTS_MAX));
    }
}
