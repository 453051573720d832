"""A client that behaves on the wire as that of LAM 7.1.4.

It sends all 14 labels, each after the answer to the one before, and ends with an error at anything that it has not asked
for: another label than its own, anything but DONE after P_PID, values of C_COLL_XSIZE or C_COLL_MAXLINEAR that differ.
A cluster is one host. It prints what it receives.

Usage: lam_like.py RANK HOST:PORT ADDRESS PORT PROCS
"""

import os
import socket
import struct
import sys

from impi_wire import AUTH, COLL, DONE, FINI, IMPI, LABELS, Abort, connect, run, show, words


def prove(conn):
    none, key = "IMPI_AUTH_NONE" in os.environ, os.environ.get("IMPI_AUTH_KEY")
    conn.ints(AUTH, 4)
    conn.ints((1 if none else 0) | (2 if key is not None else 0))
    which, _ = conn.two()
    if which == 1:
        conn.write(struct.pack(">q", int(key)))
    elif which != 0:
        raise Abort(f"method {which} of AUTH")


def exchange(conn, name, data):
    """Sends one label, and takes the next command as its answer."""
    label = LABELS[name]
    conn.ints(COLL, 4 + len(data))
    conn.ints(label)
    conn.write(data)
    command, length = conn.two()
    if command != COLL:
        raise Abort(f"command {command:#x} where COLL was expected")
    answered, mask = conn.two()
    if answered != label:
        raise Abort(f"label {answered:#x} where {label:#x} was expected")
    values = conn.read(length - 8)
    show(label, mask, values)
    return values


def agreed(name, values, default):
    values = [default if value == -1 else value for value in words(values)]
    if len(set(values)) > 1:
        raise Abort(f"{name} differs: {values}")


def main():
    rank, server, address, port, procs = sys.argv[1:]
    rank, port, procs = int(rank), int(port), int(procs)
    number = lambda value: struct.pack(">I", value & 0xFFFFFFFF)
    ipv6 = bytes(12) + socket.inet_aton(address)
    conn = connect(server)
    prove(conn)
    conn.ints(IMPI, 4)
    conn.ints(rank)
    command, _ = conn.two()
    if command != IMPI:
        raise Abort(f"command {command:#x} where IMPI was expected")
    size = words(conn.read(4))[0]
    if rank >= size:
        raise Abort(f"rank {rank} of {size}")
    exchange(conn, "C_VERSION", bytes(8))
    exchange(conn, "C_NHOSTS", number(1))
    exchange(conn, "C_NPROCS", number(procs))
    exchange(conn, "C_DATALEN", number(8192))
    exchange(conn, "C_TAGUB", number(32767))
    agreed("C_COLL_XSIZE", exchange(conn, "C_COLL_XSIZE", number(-1)), 1024)
    agreed("C_COLL_MAXLINEAR", exchange(conn, "C_COLL_MAXLINEAR", number(-1)), 4)
    exchange(conn, "H_IPV6", ipv6)
    exchange(conn, "H_PORT", number(port))
    exchange(conn, "H_NPROCS", number(procs))
    exchange(conn, "H_ACKMARK", number(8))
    exchange(conn, "H_HIWATER", number(24))
    exchange(conn, "P_IPV6", ipv6 * procs)
    exchange(conn, "P_PID", b"".join(struct.pack(">Q", 1000 + i) for i in range(procs)))
    conn.ints(DONE, 0)
    command, length = conn.two()
    if command != DONE:
        raise Abort(f"command {command:#x} where DONE was expected")
    conn.read(length)
    print("DONE", flush=True)
    # Its processes end when the test says so.
    sys.stdin.read()
    conn.ints(FINI, 0)


run(main)
