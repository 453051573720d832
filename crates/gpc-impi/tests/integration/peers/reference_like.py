"""A server that behaves on the wire as the reference one, with its defects.

It accepts one connection after the other, each as far as IMPI, which it answers at once. It consumes labels that it does not
know, and answers none of them. DONE erases the values of its client that have not been broadcast. Sizes are not checked.

Usage: reference_like.py CLIENTS
"""

import os
import select
import socket
import struct
import sys

from impi_wire import AUTH, COLL, DONE, FINI, IMPI, LABELS, NAMES, PATIENCE, Abort, Conn, run


class Client:
    def __init__(self, conn):
        self.conn, self.values, self.at, self.done, self.ended = conn, {}, 0, False, False


def joined(conn, clients):
    """The rank of a connection that may take part."""
    key = os.environ.get("IMPI_AUTH_KEY")
    command, length = conn.two()
    mask = struct.unpack(">I", conn.read(4))[0]
    if command != AUTH or length != 4:
        return None
    if key is not None and mask & 2:
        conn.ints(1, 0)
        if struct.unpack(">q", conn.read(8))[0] != int(key):
            return None
    elif "IMPI_AUTH_NONE" in os.environ and mask & 1:
        conn.ints(0, 0)
    else:
        return None
    command, _ = conn.two()
    rank = struct.unpack(">i", conn.read(4))[0]
    if command != IMPI or not 0 <= rank < clients:
        return None
    conn.ints(IMPI, 4, clients)
    return rank


def heard(client):
    command, length = client.conn.two()
    payload = client.conn.read(length)
    if command == COLL:
        label = struct.unpack(">I", payload[:4])[0]
        if label in NAMES:
            client.values[label], client.at = payload[4:], label
    elif command == DONE:
        client.values.clear()
        client.done = True
    elif command == FINI:
        client.ended = True


def broadcast(clients, label):
    mask, values = 0, b""
    for rank, client in enumerate(clients):
        if label in client.values:
            mask |= 1 << rank
            values += client.values.pop(label)
    for client in clients:
        client.conn.write(struct.pack(">IIII", COLL, 8 + len(values), label, mask) + values)


def main():
    count = int(sys.argv[1])
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(PATIENCE)
    print("127.0.0.1:%d" % listener.getsockname()[1], flush=True)
    slots = [None] * count
    while None in slots:
        conn = Conn(listener.accept()[0])
        rank = joined(conn, count)
        if rank is None or slots[rank] is not None:
            conn.sock.close()
        else:
            slots[rank] = Client(conn)
    waiting, told = sorted(NAMES), False
    while not all(client.ended for client in slots):
        open_ones = [client for client in slots if not client.ended]
        ready = select.select([client.conn.sock for client in open_ones], [], [], PATIENCE)[0]
        if not ready:
            raise Abort("nobody goes on")
        for client in open_ones:
            if client.conn.sock in ready:
                heard(client)
        while waiting and all(client.at >= waiting[0] or client.done for client in slots):
            broadcast(slots, waiting.pop(0))
        if not told and all(client.done for client in slots):
            told = True
            for client in slots:
                client.conn.ints(DONE, 0)


run(main)
