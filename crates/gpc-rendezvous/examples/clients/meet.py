#!/usr/bin/env python3
"""One task of a rendezvous, with the standard library alone: registers its contact, waits for all others, prints the
contacts of all, one a line, in the order of their ranks.

    meet.py CONTACT [RANK]      RANK is `assign` unless it is given
    meet.py --decode LEVEL      prints the data of all tasks in the level-n data at standard input

GPC_JOB_HANDLE               where this task registers
GPC_MULTIJOB_HANDLE          the resource above; used where the service does not register there itself
GPC_SUBJOB_RANK              the rank of this job there
GPC_RENDEZVOUS_TOKEN_FILE    the file that has the service's token, if it wants one
GPC_RENDEZVOUS_CA_FILE       certificates that an https service is checked by
MEET_SECONDS                 how long to try, 300 unless it is set

Bytes that a terminal would act upon, and backslashes, are printed as \\xNN.
"""

import http.client
import json
import os
import secrets
import ssl
import sys
import time
import urllib.parse

# Most digits of a count: enough for 999 TB.
DIGITS_MAX = 15


class Failure(Exception):
    """What ends this task, for people."""


def decode(level, data):
    """The data of all tasks in data of this level, a list of bytes. Nothing may be missing or left over."""
    found, at = [], 0
    # Values of each level that are awaited, the innermost last; a value of level 0 is bytes.
    missing = [1]
    while missing:
        if missing[-1] == 0:
            missing.pop()
            continue
        missing[-1] -= 1
        space = data.find(b" ", at, at + DIGITS_MAX + 1)
        digits = data[at:space] if space >= 0 else b""
        if not digits.isdigit() or (digits[:1] == b"0" and digits != b"0"):
            raise Failure(f"byte {at} of the data: a count is missing or malformed")
        count, at = int(digits), space + 1
        if len(missing) <= level:
            missing.append(count)
        elif len(data) - at < count:
            raise Failure("the data end too early")
        else:
            found.append(data[at : at + count])
            at += count
    if at != len(data):
        raise Failure(f"byte {at} of the data: something follows them")
    return found


def line(data):
    """Bytes as they may be printed."""
    return b"".join(b"\\x%02x" % byte if byte < 32 or byte in (92, 127) else bytes([byte]) for byte in data)


class Service:
    """Asks a service. The same token in every request of a task makes it safe to ask again where an answer was lost."""

    def __init__(self):
        seconds = os.environ.get("MEET_SECONDS") or "300"
        if not (seconds.isascii() and seconds.isdigit() and len(seconds) < 7):
            raise Failure("MEET_SECONDS is a number from 1 to 999999")
        self.seconds = int(seconds)
        self.until = time.monotonic() + self.seconds
        self.headers = {"Registrant-Token": secrets.token_hex(16)}
        if path := os.environ.get("GPC_RENDEZVOUS_TOKEN_FILE"):
            with open(path, encoding="ascii") as file:
                service_token = file.readline().strip()
            if not service_token:
                raise Failure(f"{path} has no token")
            self.headers["Authorization"] = "Bearer " + service_token

    def connection(self, url):
        if url.scheme not in ("http", "https") or not url.hostname:
            raise Failure("a handle is http://HOST:PORT/PATH?ID")
        if url.scheme == "http":
            return http.client.HTTPConnection(url.hostname, url.port, timeout=60)
        context = ssl.create_default_context(cafile=os.environ.get("GPC_RENDEZVOUS_CA_FILE"))
        return http.client.HTTPSConnection(url.hostname, url.port, timeout=60, context=context)

    def ask(self, method, handle, what, data=None):
        """The answer: status, level and body. Asks until there is one."""
        service, _, resource = handle.partition("?")
        url = urllib.parse.urlsplit(f"{service}/{resource}{what}")
        why = "no answer"
        while time.monotonic() < self.until:
            connection = self.connection(url)
            try:
                connection.request(method, f"{url.path}?{url.query}", data, self.headers)
                answer = connection.getresponse()
                body = answer.read()
                # A service that is full or is ending says 503.
                if answer.status != 503:
                    return answer.status, int(answer.headers.get("Rendezvous-Level", "0")), body
                why = body[:600]
            except ssl.SSLCertVerificationError as error:
                raise Failure(f"this is not the service, or GPC_RENDEZVOUS_CA_FILE is not its: {error}") from error
            except (OSError, http.client.HTTPException) as error:
                why = error
            finally:
                connection.close()
            time.sleep(1)
        raise Failure(f"there was no completion within {self.seconds} s; the last failure: {why!r}")

    def meet(self, handle, wanted="assign", data=None):
        """Waits until the rendezvous is complete: rank, level and data. Registers `data` before, if there are any, and
        again each time: that keeps the registration, and brings it back if this task was silent for longer than its lease."""
        rank, query = None, f"rank={urllib.parse.quote(wanted)}&lease=60"
        while time.monotonic() < self.until:
            if data is not None:
                status, _, body = self.ask("POST", handle, f"/registrants?{query}", data)
                if status != 201:
                    raise refused(status, body)
                rank = json.loads(body)["rank"]
            status, level, body = self.ask("GET", handle, "/completion?of=top&wait=20")
            if status == 200:
                return rank, level, body
            if status != 204:
                raise refused(status, body)
        raise Failure(f"there was no completion within {self.seconds} s")


def refused(status, body):
    """What the service says of a failure, without what a terminal would act upon."""
    return Failure(f"status {status}: {line(body[:600]).decode(errors='replace')}")


def variable(name):
    """A variable of the environment, by its neutral name or the original one."""
    return os.environ.get(f"GPC_{name}") or os.environ.get(f"GLOBUS_GRAM_{name}")


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--decode" and arguments[1].isdigit():
        return decode(int(arguments[1]), sys.stdin.buffer.read())
    if not 1 <= len(arguments) <= 2 or arguments[0] == "--decode":
        raise Failure("usage: meet.py CONTACT [RANK], or meet.py --decode LEVEL")
    job, multijob = variable("JOB_HANDLE"), variable("MULTIJOB_HANDLE")
    if not job:
        raise Failure("GPC_JOB_HANDLE is not set: it says where to register")
    contact = os.fsencode(arguments[0])
    service = Service()
    rank, level, data = service.meet(job, *arguments[1:] or ["assign"], contact)
    if multijob and level == 1:
        # The service does not register above: the task of rank 0 is the controlling task.
        if rank == 0:
            _, level, data = service.meet(multijob, variable("SUBJOB_RANK") or "assign", data)
        else:
            _, level, data = service.meet(multijob)
    return decode(level, data)


if __name__ == "__main__":
    try:
        contacts = main(sys.argv[1:])
    except (Failure, OSError, ValueError) as failure:
        sys.exit(f"meet.py: {failure}")
    for contact in contacts:
        sys.stdout.buffer.write(line(contact) + b"\n")
