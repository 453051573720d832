"""Makes the programs that are compared, and installs what they need where that is possible."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
PROJECT = HERE.parent.parent
WARNINGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror"]

# What each program in C is made of, beside the file of its own name.
C_PROGRAMS = {name: ["processes", "measure", "tree"] for name in ["sockets", "shared", "bulk", "bulk_shared"]}
MPI_PACKAGES = {"openmpi": ["openmpi-bin", "libopenmpi-dev"], "mpich": ["mpich", "libmpich-dev"]}
RUST_PACKAGES = {"gpc": "rounds-gpc", "tarpc": "rounds-tarpc", "tonic": "rounds-tonic"}


@dataclass
class Built:
    """Programs by name, and of each family that is left out why."""

    programs: dict = field(default_factory=dict)
    skipped: dict = field(default_factory=dict)


class Missing(Exception):
    """What a family needs and this machine has not."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def build(families, folder, install):
    """Builds the programs of these families; those in C into `folder`, those in Rust beside the project's own."""
    built = Built()
    for family in families:
        say(f"building {family}")
        try:
            if family == "bare":
                bare(folder, built)
            elif family in MPI_PACKAGES:
                mpi(family, folder, install, built)
            else:
                rust(family, built)
        except Missing as missing:
            built.skipped[family] = str(missing)
            say(f"{family}: skipped: {missing}")
    return built


def run(command, what):
    """Runs a step; what it says when it fails becomes the reason."""
    try:
        pipes = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "errors": "replace"}
        done = subprocess.run(command, check=False, **pipes)
    except OSError as error:
        raise Missing(f"{what}: {error}") from error
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        telling = [line for line in lines if "error" in line.lower() or line.startswith("E:")]
        raise Missing(f"{what}: {(telling or lines or ['it failed'])[0]}")


def bare(folder, built):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        raise Missing("needs a C compiler")
    for name, others in C_PROGRAMS.items():
        sources = [str(HERE / "c" / f"{file}.c") for file in [name, *others]]
        run([compiler, *WARNINGS, *sources, "-o", str(folder / name)], f"c/{name}.c does not compile")
        built.programs[name] = folder / name


def mpi(family, folder, install, built):
    compiler, launcher = f"mpicc.{family}", f"mpirun.{family}"
    packages = MPI_PACKAGES[family]
    if not (shutil.which(compiler) and shutil.which(launcher)):
        apt(packages, install)
    if not (shutil.which(compiler) and shutil.which(launcher)):
        raise Missing(f"needs {compiler} and {launcher}, as Debian names them")
    program = folder / f"rounds.{family}"
    sources = [str(HERE / file) for file in ["mpi/rounds.c", "c/measure.c", "c/tree.c"]]
    run([compiler, *WARNINGS, *sources, "-o", str(program)], f"mpi/rounds.c does not compile with {compiler}")
    built.programs[f"rounds.{family}"] = program


def apt(packages, install):
    wanted = f"needs the Debian packages {' and '.join(packages)}"
    if not install:
        raise Missing(wanted)
    if not shutil.which("apt-get") or os.geteuid() != 0:
        raise Missing(f"{wanted}, and root to install them")
    say(f"installing {' '.join(packages)}")
    env = ["env", "DEBIAN_FRONTEND=noninteractive"]
    run([*env, "apt-get", "update"], wanted)
    run([*env, "apt-get", "install", "--yes", "--no-install-recommends", *packages], wanted)


def rust(family, built):
    if not shutil.which("cargo"):
        raise Missing("needs Rust and cargo")
    target = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target")).resolve() / "peers"
    package = RUST_PACKAGES[family]
    build_rust(HERE / "rpc", ["--package", package], target)
    built.programs[package] = target / "dist" / package
    if family == "gpc":
        build_rust(PROJECT, ["--bin", "gpc"], target)
        built.programs["gpc"] = target / "dist" / "gpc"


def build_rust(workspace, what, target):
    manifest = ["--manifest-path", str(workspace / "Cargo.toml"), "--target-dir", str(target)]
    run(["cargo", "build", "--profile", "dist", "--locked", "--quiet", *manifest, *what], f"cargo build {' '.join(what)}")
