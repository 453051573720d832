"""Where and when something was measured."""

import datetime
import os
import platform
import shlex
import subprocess
import sys


# Of a process that is executed with this everything lies where it lies in all others of its program.
NOT_RANDOM = ["setarch", "-R"]


def one_layout():
    """What goes before a command so that all its processes have one layout of memory; nothing where the system does not allow it."""
    try:
        subprocess.run([*NOT_RANDOM, "true"], check=True, capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return []
    return NOT_RANDOM


def describe(prefix):
    """The date, the machine and the command, one line each."""
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {processor()}, {platform.system()} {platform.release()}",
        "command": shlex.join(["benches/peers/run", *sys.argv[1:]]),
        "layout": "all with one layout of memory" if prefix else "each executed process with its own layout of memory",
        "load": os.getloadavg()[0],
    }


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()
