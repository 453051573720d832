"""Numbers and sockets of IMPI, for the peers beside it. Standard library only."""

import socket
import struct
import sys

AUTH, IMPI, COLL, DONE, FINI = (int.from_bytes(name, "big") for name in (b"AUTH", b"IMPI", b"COLL", b"DONE", b"FINI"))

LABELS = {
    "C_VERSION": 0x1000,
    "C_NHOSTS": 0x1100,
    "C_NPROCS": 0x1200,
    "C_DATALEN": 0x1300,
    "C_TAGUB": 0x1400,
    "C_COLL_XSIZE": 0x1500,
    "C_COLL_MAXLINEAR": 0x1600,
    "H_IPV6": 0x2000,
    "H_PORT": 0x2100,
    "H_NPROCS": 0x2200,
    "H_ACKMARK": 0x2300,
    "H_HIWATER": 0x2400,
    "P_IPV6": 0x3000,
    "P_PID": 0x3100,
}
NAMES = {number: name for name, number in LABELS.items()}

# However busy the machine: a test that waits longer has failed.
PATIENCE = 60


class Abort(Exception):
    """This peer does not go on."""


class Conn:
    """A connection that is read and written piece by piece, each with its time limit."""

    def __init__(self, sock):
        sock.settimeout(PATIENCE)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock

    def write(self, data):
        self.sock.sendall(data)

    def ints(self, *numbers):
        """Each number leaves by itself."""
        for number in numbers:
            self.write(struct.pack(">I", number & 0xFFFFFFFF))

    def read(self, length):
        data = b""
        while len(data) < length:
            piece = self.sock.recv(length - len(data))
            if not piece:
                raise Abort(f"the connection has ended after {len(data)} of {length} bytes")
            data += piece
        return data

    def two(self):
        return struct.unpack(">II", self.read(8))


def connect(address):
    host, port = address.rsplit(":", 1)
    return Conn(socket.create_connection((host, int(port)), PATIENCE))


def words(data):
    return list(struct.unpack(f">{len(data) // 4}i", data))


def show(label, mask, data):
    """One line for each label that came: its name, the mask, the bytes."""
    print(NAMES.get(label, hex(label)), hex(mask), data.hex() or "-", flush=True)


def run(main):
    try:
        main()
    except (Abort, OSError) as error:
        print(f"abort: {error}", file=sys.stderr, flush=True)
        sys.exit(1)
