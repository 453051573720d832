"""A stranger to the project's code: docs/wire.md, "Proof", with another implementation of Noise (the package noiseprotocol).

proof.py transcript FILE          checks the example of the document, byte by byte
proof.py join HOST PORT SECRET    proves itself to id 1 as id 7, is linked, and asks for a heartbeat
proof.py attack HOST PORT SECRET  tries what must not pass; prints a line for each attempt
"""

import hashlib
import hmac
import socket
import struct
import sys

from noise.connection import Keypair, NoiseConnection

NAME = b"Noise_XXpsk0_25519_AESGCM_SHA256"
LABEL = b"chained GPC: links, 2"
# The version of the wire.
VERSION = 4
PREAMBLE = b"cGPC" + struct.pack("<HH", VERSION, 1)
LIMIT = 20
PING, PONG, HELLO, GOODBYE = 10, 11, 1, 7


def psk(secret, job):
    extracted = hmac.new(LABEL, secret, hashlib.sha256).digest()
    return hmac.new(extracted, job + b"\x01", hashlib.sha256).digest()


def connection(initiator, secret, job, prologue, static, ephemeral=None):
    noise = NoiseConnection.from_name(NAME)
    noise.set_as_initiator() if initiator else noise.set_as_responder()
    noise.set_psks(psk(secret, job))
    noise.set_prologue(prologue)
    noise.set_keypair_from_private_bytes(Keypair.STATIC, static)
    if ephemeral:
        noise.set_keypair_from_private_bytes(Keypair.EPHEMERAL, ephemeral)
    noise.start_handshake()
    return noise


def with_length(message):
    return struct.pack("<H", len(message)) + bytes(message)


def frame(kind, payload=b""):
    return struct.pack("<IBBH", len(payload), kind, 0, 0) + payload


def hello(sender, to, job, incarnation=1000, generation=1):
    fields = struct.pack("<HHIIQII", VERSION, 0, sender, to, incarnation, generation, 64)
    return frame(HELLO, b"cGPC" + fields + job)


def transcript(path):
    block = open(path).read().split("```proof\n")[1].split("```")[0]
    steps = [bytes.fromhex("".join(step.split("\n", 1)[1].split())) for step in block.split("# ")[1:]]
    secret, job = b"\x11" * 32, bytes(range(0xA0, 0xB0))
    first, second, third, answer = steps
    three = connection(True, secret, job, PREAMBLE, b"\x33" * 32, b"\x35" * 32)
    four = connection(False, secret, job, PREAMBLE, b"\x44" * 32, b"\x46" * 32)
    assert PREAMBLE + with_length(three.write_message(struct.pack("<II", 3, 4))) == first
    assert bytes(four.read_message(first[10:])) == struct.pack("<II", 3, 4)
    assert with_length(four.write_message(struct.pack("<I", 4))) == second
    assert bytes(three.read_message(second[2:])) == struct.pack("<I", 4)
    message = with_length(three.write_message(b""))
    four.read_message(message[2:])
    said = hello(3, 4, job, 0x0102030405060708)
    assert message + with_length(three.encrypt(said)) == third
    assert bytes(four.decrypt(third[len(message) + 2 :])) == said
    assert with_length(four.encrypt(hello(4, 3, job, 0x0102030405060708))) == answer
    print("the same bytes")


class Link:
    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), timeout=LIMIT)

    def send(self, data):
        self.socket.sendall(data)

    def exactly(self, count):
        data = b""
        while len(data) < count:
            try:
                part = self.socket.recv(count - len(data))
            except ConnectionResetError:
                part = b""
            if not part:
                return None
            data += part
        return data

    def message(self):
        """The next message or record; none of length 0, or at the end."""
        length = self.exactly(2)
        return self.exactly(struct.unpack("<H", length)[0]) or None if length else None

    def prove(self, secret, job=bytes(16), ids=(7, 1), preamble=PREAMBLE, prologue=None, static=b"\x77" * 32):
        """The three messages; the connection that seals, or none where it was refused."""
        noise = connection(True, secret, job, prologue or preamble, static)
        self.first = preamble + with_length(noise.write_message(struct.pack("<II", *ids)))
        self.send(self.first)
        second = self.message()
        if second is None:
            return None
        noise.read_message(second)
        self.third = with_length(noise.write_message(b""))
        self.send(self.third)
        return noise


def greet(link, noise, sender=7, to=1, job=bytes(16)):
    """The hellos; the kind of the answer."""
    link.send(with_length(noise.encrypt(hello(sender, to, job))))
    answer = link.message()
    return bytes(noise.decrypt(answer))[4] if answer else None


def join(host, port, secret):
    link = Link(host, port)
    noise = link.prove(secret)
    assert greet(link, noise) == HELLO, "linked"
    for _ in range(3):
        link.send(with_length(noise.encrypt(frame(PING))))
        assert bytes(noise.decrypt(link.message())) == frame(PONG)
    print("linked, and answered")


def attempt(name, passed):
    print(f"{name}: {'PASSED' if passed else 'refused'}")


def attack(host, port, secret):
    link = lambda: Link(host, port)
    attempt("another secret", link().prove(b"\x22" * 32))
    attempt("a short secret", link().prove(b""))
    attempt("another job", link().prove(secret, job=b"\x01" * 16))
    attempt("another id is looked for", link().prove(secret, ids=(7, 2)))
    attempt("the node's own id", link().prove(secret, ids=(1, 1)))
    plain = b"cGPC" + struct.pack("<HH", VERSION, 0)
    attempt("encryption dropped on the way", link().prove(secret, preamble=plain, prologue=PREAMBLE))
    old = b"cGPC" + struct.pack("<HH", 2, 1)
    attempt("an older version", link().prove(secret, preamble=old))
    attempt("unknown flags", link().prove(secret, preamble=b"cGPC" + struct.pack("<HH", VERSION, 0x8001)))

    clear = link()
    clear.send(hello(7, 1, bytes(16)))
    answer = clear.exactly(16)
    attempt("a hello in clear", answer != frame(GOODBYE, b"\x02refused") or clear.exactly(1))

    of_another = link()
    noise = of_another.prove(secret)
    attempt("a hello of another id than the proof", greet(of_another, noise, sender=8) == HELLO)

    listed = link()
    noise = listed.prove(secret, ids=(5, 1))
    attempt("a listed id, with another key", greet(listed, noise, sender=5) == HELLO)

    recorded = link()
    noise = recorded.prove(secret)
    record = with_length(noise.encrypt(hello(7, 1, bytes(16))))
    recorded.send(record)
    assert recorded.message(), "the right one is answered"
    again = link()
    again.send(recorded.first)
    again.message()
    again.send(recorded.third + record)
    attempt("a proof that was recorded", again.message() is not None)

    reflected = link()
    reflected.send(recorded.first)
    second = reflected.message()
    reflected.send(with_length(second))
    attempt("its own message sent back", reflected.message() is not None)

    twice = link()
    noise = twice.prove(secret, ids=(9, 1), static=b"\x79" * 32)
    greet(twice, noise, sender=9)
    ping = with_length(noise.encrypt(frame(PING)))
    twice.send(ping)
    assert bytes(noise.decrypt(twice.message())) == frame(PONG)
    twice.send(ping)
    attempt("a record sent twice", twice.message() is not None)

    empty = link()
    noise = empty.prove(secret, ids=(10, 1), static=b"\x7a" * 32)
    greet(empty, noise, sender=10)
    empty.send(with_length(noise.encrypt(b"")))
    attempt("a record without bytes", empty.message() is not None)

    hidden = link()
    hidden.send(PREAMBLE + struct.pack("<H", 65535) + bytes(70000))
    attempt("a message of the longest length", hidden.message() is not None)


def main(command, *arguments):
    if command == "transcript":
        return transcript(*arguments)
    host, port, secret = arguments
    {"join": join, "attack": attack}[command](host, int(port), bytes.fromhex(secret))


main(*sys.argv[1:])
