"""Where and when something was measured."""

import datetime
import os
import platform
import shlex
import sys


def describe():
    """The date, the machine and the command, one line each."""
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {processor()}, {platform.system()} {platform.release()}",
        "command": shlex.join(["benches/peers/run", *sys.argv[1:]]),
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
