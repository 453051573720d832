"""Runs the contestants, interleaved, each bounded in time."""

import json
import os
import random
import signal
import subprocess
import time
from dataclasses import dataclass

from . import contestants
from .build import say

# How long a launcher may take to end its processes when it is told to.
END_S = 3


@dataclass
class Run:
    """One run of a row: what its program printed, or why there is nothing."""

    row: str
    kind: str
    n: int
    repetition: int
    result: dict = None
    failure: str = None


def measure(rows, options, folder):
    """Every repetition gives each row its turn, in another order; what took too long once is not tried again."""
    runs, hopeless = [], {}
    order = random.Random(1)
    for repetition in range(options.repeat):
        for kind, n in cells(options):
            turn = [row for row in rows if kind in row.kinds and (repetition == 0 or not row.once)]
            order.shuffle(turn)
            for row in turn:
                run = Run(row.name, kind, n, repetition, failure=hopeless.get((row.name, kind, n)))
                if not run.failure:
                    measure_one(run, row, options, folder)
                if run.failure:
                    hopeless[row.name, kind, n] = run.failure
                runs.append(run)
        say(f"repetition {repetition + 1} of {options.repeat} done")
    return runs


def cells(options):
    """What is measured with how many processes."""
    fixed = {"bulk": contestants.BULK_N, "start": 8 if options.quick else contestants.START_N}
    for kind in options.kind:
        for n in [fixed[kind]] if kind in fixed else options.n:
            yield kind, n


def measure_one(run, row, options, folder):
    command = row.command(run.kind, run.n, options)
    if run.kind != "start":
        command = [*options.prefix, *command]
    # Sockets and session files of the launchers end with this folder.
    environment = {**os.environ, "TMPDIR": str(folder), **row.environment}
    began = time.monotonic()
    try:
        output = bounded(command, environment, options.limit)
        seconds = time.monotonic() - began
        run.result = json.loads(output.splitlines()[0]) if row.takes_rounds else {}
        run.result["seconds"] = seconds
    except subprocess.TimeoutExpired:
        run.failure = f"over {options.limit} s"
    except (OSError, ValueError, IndexError, subprocess.CalledProcessError) as error:
        run.failure = reason(error)
    if run.failure:
        say(f"{run.row}, {run.kind}, n={run.n}: {run.failure}")


def reason(error):
    lines = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
    return lines[0][:100] if lines else "failed"


def bounded(command, environment, limit):
    """The standard output of a command in a session of its own, which is ended after so long."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    pipes |= {"text": True, "errors": "replace"}
    with subprocess.Popen(command, env=environment, start_new_session=True, **pipes) as process:
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            end(process)
            output, errors = process.communicate()
            # It has measured, and only its end took so long.
            if output.startswith("{"):
                return output
            raise
        except BaseException:
            end(process)
            raise
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command, output, errors)
    return output


def end(process):
    """Ends a command that we started: first so that a launcher can end its own, then the whole session."""
    process.terminate()
    try:
        process.wait(timeout=END_S)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
