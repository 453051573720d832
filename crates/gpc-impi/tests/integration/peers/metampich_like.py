"""A client that behaves on the wire as that of MetaMPICH.

It offers method 0 of AUTH alone, leaves out C_TAGUB, H_ACKMARK and H_HIWATER, passes over labels until its own comes, sends
IPv4 as ::ffff:a.b.c.d, byte by byte, and does not wait for DONE. A cluster is one host. It prints what it receives.

Usage: metampich_like.py RANK HOST:PORT ADDRESS PORT PROCS [narrow] [label]
  narrow: H_PORT has the 2 bytes of an in_port_t
  label:  sends a label that nobody knows before DONE, which the real one does not
"""

import socket
import struct
import sys

from impi_wire import AUTH, COLL, DONE, FINI, IMPI, LABELS, Abort, connect, run, show, words


def bytewise(conn, data):
    for byte in data:
        conn.write(bytes([byte]))


def exchange(conn, name, data):
    label = LABELS[name]
    conn.ints(COLL, 4 + len(data))
    conn.ints(label)
    bytewise(conn, data)
    while True:
        command, length = conn.two()
        if command != COLL:
            raise Abort(f"command {command:#x} where COLL was expected")
        answered, mask = conn.two()
        values = conn.read(length - 8)
        show(answered, mask, values)
        if answered == label:
            return values


def agreed(name, values, own):
    if any(value not in (-1, own) for value in words(values)):
        raise Abort(f"{name} differs: {words(values)}")


def main():
    rank, server, address, port, procs = sys.argv[1:6]
    rank, port, procs = int(rank), int(port), int(procs)
    number = lambda value: struct.pack(">I", value & 0xFFFFFFFF)
    ipv6 = bytes(10) + b"\xff\xff" + socket.inet_aton(address)
    conn = connect(server)
    conn.ints(AUTH, 4)
    conn.ints(1)
    conn.two()
    conn.ints(IMPI, 4)
    conn.ints(rank)
    conn.two()
    conn.read(4)
    exchange(conn, "C_VERSION", bytes(8))
    exchange(conn, "C_NHOSTS", number(1))
    exchange(conn, "C_NPROCS", number(procs))
    exchange(conn, "C_DATALEN", number(1024))
    agreed("C_COLL_XSIZE", exchange(conn, "C_COLL_XSIZE", number(-1)), -1)
    agreed("C_COLL_MAXLINEAR", exchange(conn, "C_COLL_MAXLINEAR", number(-1)), -1)
    exchange(conn, "H_IPV6", ipv6)
    exchange(conn, "H_PORT", struct.pack(">H", port) if "narrow" in sys.argv else number(port))
    exchange(conn, "H_NPROCS", number(procs))
    exchange(conn, "P_IPV6", ipv6 * procs)
    exchange(conn, "P_PID", b"".join(struct.pack(">Q", 2000 + i) for i in range(procs)))
    if "label" in sys.argv:
        conn.ints(COLL, 4, 0x9000)
    conn.ints(DONE, 0)
    print("DONE", flush=True)
    # Its processes end when the test says so.
    sys.stdin.read()
    conn.ints(FINI, 0)


run(main)
