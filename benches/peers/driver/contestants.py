"""Who is compared with whom: the rows of the tables, and the commands behind them."""

import os
from dataclasses import dataclass, field

FAMILIES = ["gpc", "bare", "openmpi", "mpich", "tarpc", "tonic"]

# What is measured: one round at a time; 64 rounds in flight; 64 MiB to 8 processes; 64 processes from start to end.
KINDS = ["one", "flight", "bulk", "start"]

IN_FLIGHT = 64
BULK_BYTES, BULK_N = 64 << 20, 8
START_N = 64
SPIN_US = 50
LINKS = {"tcp": "TCP", "unix": "Unix"}


@dataclass(frozen=True)
class Row:
    """A contestant; `arguments` go to its program before what is measured."""

    name: str
    family: str
    program: tuple
    kinds: tuple
    against: str = None  # the row of chained GPC with the same tree and link
    wanted: dict = field(default_factory=dict, hash=False)  # what the ratio is to be, by table
    environment: dict = field(default_factory=dict, hash=False)
    takes_rounds: bool = True
    # It collapses with more processes than cores: one repetition says so.
    once: bool = False
    # A program of MPI is started by a launcher that is told how many.
    launcher: tuple = ()

    def command(self, kind, n, options):
        if not self.takes_rounds:
            return [*self.launched(n), *(word.replace("{n}", str(n)) for word in self.program)]
        # A round over few processes is over soon: a run lasts some tens of milliseconds, or it measures a moment.
        rounds = options.rounds * min(16, max(1, 64 // n))
        warmup, window, size = max(1, options.rounds // 10), 1, 64
        if kind == "flight":
            rounds, warmup, window = 4 * rounds, 4 * warmup, IN_FLIGHT
        elif kind == "bulk":
            rounds, warmup, size = 20, 2, BULK_BYTES >> (3 if options.quick else 0)
        elif kind == "start":
            rounds, warmup = 1, 0
        numbers = {"n": n, "rounds": rounds, "warmup": warmup, "window": window, "bytes": size}
        return [*self.launched(n), *self.program, *options_of(**numbers, seconds=options.seconds)]

    def launched(self, n):
        known = {"{n}": str(n), "{yield}": str(int(n > os.cpu_count()))}
        return [known.get(word, word) for word in self.launcher]


def rows(built, options):
    """The rows whose programs were built, in the order of the tables."""
    makers = {"gpc": gpc, "bare": bare, "openmpi": openmpi, "mpich": mpich}
    makers.update({family: rpc(family) for family in ["tarpc", "tonic"]})
    families = [family for family in FAMILIES if family in options.only and family not in built.skipped]
    found = [row for family in families for row in makers[family](built.programs)]
    if options.match:
        chosen = [row for row in found if options.match in row.name]
        wanted = {row.name for row in chosen} | {row.against for row in chosen}
        found = [row for row in found if row.name in wanted]
    return found


def options_of(**pairs):
    return tuple(word for name, value in pairs.items() for word in (f"--{name}", str(value)))


def gpc(programs):
    program = str(programs["rounds-gpc"])

    def row(name, kinds, **pairs):
        return Row(f"chained GPC, {name}", "gpc", (program, *options_of(**pairs)), kinds)

    both = ("one", "flight")
    call = (str(programs["gpc"]), "call", "echo", "-n", "{n}")
    return [
        row("TCP binomial", (*both, "start"), link="tcp", tree="binomial", wait="block"),
        row("TCP flat", both, link="tcp", tree="flat", wait="block"),
        row("Unix binomial", (*both, "start"), link="unix", tree="binomial", wait="block"),
        row("Unix flat", both, link="unix", tree="flat", wait="block"),
        row("TCP binomial, spin", ("one",), link="tcp", tree="binomial", wait="spin"),
        row("TCP binomial, adaptive", both, link="tcp", tree="binomial", wait="adaptive"),
        row("TCP flat, adaptive", both, link="tcp", tree="flat", wait="adaptive"),
        row("Unix flat, spin", ("one",), link="unix", tree="flat", wait="spin"),
        row("Unix flat, adaptive", both, link="unix", tree="flat", wait="adaptive"),
        row("shared memory binomial", both, link="shm", tree="binomial", wait="block"),
        row("shared memory flat", both, link="shm", tree="flat", wait="block"),
        row("shared memory flat, spin", ("one",), link="shm", tree="flat", wait="spin"),
        row("shared memory flat, adaptive", (*both, "start"), link="shm", tree="flat", wait="adaptive"),
        row("TCP binomial, threaded root", both, link="tcp", tree="binomial", root="thread"),
        row("TCP chain", ("bulk",), link="tcp", tree="chain", form="streaming"),
        row("Unix chain", ("bulk",), link="unix", tree="chain", form="streaming"),
        row("shared memory chain", ("bulk",), link="shm", tree="chain", form="streaming"),
        row("TCP chain, whole", ("bulk",), link="tcp", tree="chain"),
        row("Unix chain, whole", ("bulk",), link="unix", tree="chain"),
        row("shared memory chain, whole", ("bulk",), link="shm", tree="chain"),
        Row("chained GPC, gpc call", "gpc", call, ("start",), takes_rounds=False),
    ]


def bare(programs):
    def row(name, program, kinds, against, wanted, **pairs):
        command = (str(programs[program]), *options_of(**pairs))
        return Row(f"bare C, {name}", "bare", command, kinds, f"chained GPC, {against}", wanted)

    both, found = ("one", "flight"), []
    spin, yielding = {"spin": SPIN_US}, {"spin": SPIN_US, "yield": 1}
    for link, title in LINKS.items():
        for tree in ["binomial", "flat"]:
            kinds = (*both, "start") if tree == "binomial" else both
            wanted = {"one": "≤ 1.15", "cpu": "≤ 1.20"}
            found.append(row(f"{title} {tree}", "sockets", kinds, f"{title} {tree}", wanted, link=link, tree=tree))
    for link, tree in [("tcp", "binomial"), ("unix", "flat")]:
        name, pairs = f"{LINKS[link]} {tree}", {"link": link, "tree": tree}
        found.append(row(f"{name}, spin", "sockets", ("one",), f"{name}, spin", {"one": "≤ 1.20 at 2"}, **pairs, **spin))
        found.append(row(f"{name}, spin and yield", "sockets", both, f"{name}, adaptive", {}, **pairs, **yielding))
    found.append(row("TCP flat, spin and yield", "sockets", both, "TCP flat, adaptive", {}, link="tcp", tree="flat", **yielding))
    for tree in ["binomial", "flat"]:
        found.append(row(f"shared memory {tree}", "shared", both, f"shared memory {tree}", {}, tree=tree))
    found.append(row("shared memory flat, spin", "shared", ("one",), "shared memory flat, spin", {}, tree="flat", **spin))
    found.append(row("shared memory flat, spin and yield", "shared", both, "shared memory flat, adaptive", {}, tree="flat", **yielding))
    for link, title in LINKS.items():
        found.append(row(f"{title} chain", "bulk", ("bulk",), f"{title} chain", {"bulk": "≤ 1.11"}, link=link))
    found.append(row("shared memory chain", "bulk_shared", ("bulk",), "shared memory chain", {"bulk": "≤ 1.11"}))
    return found


def openmpi(programs):
    launcher = ["mpirun.openmpi", "--oversubscribe", "-n", "{n}", "--mca", "mpi_yield_when_idle", "{yield}"]
    if os.geteuid() == 0:
        launcher.insert(1, "--allow-run-as-root")
    tcp = (*launcher, "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo")
    shared = (*launcher, "--mca", "pml", "ob1", "--mca", "btl", "vader,self")
    wanted = [{"one": "≤ 0.25 at 64", "start": "< 1"}, {"one": "< 1 from 4 up", "bulk": "< 1"}]
    return mpi("Open MPI", "openmpi", programs, [(tcp, {}), (shared, {})], wanted)


def mpich(programs):
    launcher = ("mpirun.mpich", "-n", "{n}")
    # Debian's is built on UCX, which would find the shared memory again.
    tcp = {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_NO_LOCAL": "1", "UCX_TLS": "tcp,self"}
    return mpi("MPICH", "mpich", programs, [(launcher, tcp), (launcher, {})], [{}, {}], once=True)


def mpi(title, family, programs, links, wanted, once=False):
    """Two rows for each link, since its bulk goes beside another tree of ours; over TCP first, then by shared memory."""
    program = (str(programs[f"rounds.{family}"]),)
    found = []
    for link, ours, (launcher, environment), wants in zip(["TCP", "shared memory"], ["TCP", "shared memory"], links, wanted):
        common = {"wanted": wants, "environment": environment, "launcher": launcher, "once": once}
        name, kinds = f"{title}, {link}", ("one", "flight", "start")
        beside = f"chained GPC, {ours} flat, adaptive"
        found.append(Row(name, family, program, kinds, beside, **common))
        found.append(Row(f"{name}, bulk", family, program, ("bulk",), f"chained GPC, {ours} chain", **common))
    true = {"takes_rounds": False, "launcher": links[0][0], "once": once}
    return [*found, Row(f"{title}, mpirun true", family, ("true",), ("start",), "chained GPC, gpc call", **true)]


def rpc(family):
    def maker(programs):
        wanted = {"one": {"tarpc": "≤ 0.50 at 64", "tonic": "≤ 0.20 at 64"}[family]}
        program = (str(programs[f"rounds-{family}"]),)
        return [Row(f"{family}, flat", family, program, ("one", "flight", "start"), "chained GPC, TCP flat, adaptive", wanted)]

    return maker
