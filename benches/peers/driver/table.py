"""What was measured, as tables: times, and chained GPC's time over each other's."""

import json
from dataclasses import asdict
from statistics import median, quantiles

from . import contestants

TITLES = {
    "one": "one round over N processes, µs",
    "flight": f"{contestants.IN_FLIGHT} rounds in flight, µs a round",
    "cpu": "CPU time for each process and round, one round at a time, µs",
    "bulk": f"64 MiB to {contestants.BULK_N} processes, ms",
    "start": "from start to end with one round, ms",
}

# Which figure of a run counts, and in which kind of run.
FIGURES = {
    "one": ("one", lambda result: result["median_us"]),
    "flight": ("flight", lambda result: result["mean_us"]),
    "cpu": ("one", lambda result: result["cpu_us"]),
    "bulk": ("bulk", lambda result: result["median_us"] / 1000),
    "start": ("start", lambda result: result["seconds"] * 1000),
}


def figures(runs, title):
    """By row and N: the figure of each repetition."""
    kind, figure = FIGURES[title]
    found = {}
    for run in runs:
        if run.kind == kind and run.result:
            found.setdefault((run.row, run.n), {})[run.repetition] = figure(run.result)
    return found


def number(value):
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def with_spread(values):
    """The median, and half the distance of the quartiles as a share of it."""
    middle = median(values)
    if len(values) < 3 or middle == 0:
        return number(middle)
    low, _, high = quantiles(values, n=4, method="inclusive")
    return f"{number(middle)} ±{(high - low) / 2 / middle:.0%}"


def aligned(lines):
    """A Markdown table; the first line is its head, numbers stand to the right."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]

    def row(line):
        cells = [line[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
        return "| " + " | ".join(cells) + " |"

    rule = ["-" * widths[0]] + ["-" * (width - 1) + ":" for width in widths[1:]]
    return "\n".join([row(lines[0]), row(rule), *(row(line) for line in lines[1:])])


def times(rows, runs, title):
    kind = FIGURES[title][0]
    found = figures(runs, title)
    columns = sorted({run.n for run in runs if run.kind == kind})
    failures = {(run.row, run.n): run.failure for run in runs if run.kind == kind and run.failure}
    lines = [[TITLES[title], *(f"N={n}" for n in columns)]]
    for row in rows:
        if kind in row.kinds:
            cells = [(row.name, n) for n in columns]
            measured = {cell: with_spread(list(found[cell].values())) for cell in cells if cell in found}
            lines.append([row.name, *(measured.get(cell) or failures.get(cell, "") for cell in cells)])
    return lines


def ratios(rows, runs, title):
    """Chained GPC's time over the other's, of each repetition; their median."""
    kind = FIGURES[title][0]
    found = figures(runs, title)
    columns = sorted({run.n for run in runs if run.kind == kind})
    lines = []
    for row in rows:
        values = []
        for n in columns:
            ours, others = found.get((row.against, n), {}), found.get((row.name, n), {})
            both = [ours[repetition] / others[repetition] for repetition in ours if others.get(repetition)]
            values.append(with_spread(both) if both else "")
        if any(values):
            lines.append([f"{row.against} / {row.name}", *values, row.wanted.get(title, "")])
    head = ["ratio: " + TITLES[title], *(f"N={n}" for n in columns), "wanted"]
    return [head, *lines] if lines else []


def whole(rows, runs, about, skipped, options):
    how = f"medians of {options.repeat} interleaved runs, ± half the distance of the quartiles"
    parts = [f"{about['date']}; {about['machine']}; `{about['command']}`; {about['layout']}; {how}."]
    if about["load"] > 0.5:
        parts.append(f"Other work was running when it began (load {about['load']:.1f}): the figures are noisy.")
    parts += [f"{family}: skipped: {why}" for family, why in skipped.items()]
    for title, (kind, _) in FIGURES.items():
        if kind in options.kind and any(run.kind == kind for run in runs):
            parts.append(aligned(times(rows, runs, title)))
    parts.append("Ratios are chained GPC's time over the other's: below 1 chained GPC is faster.")
    compared = [ratios(rows, runs, title) for title in FIGURES]
    parts += [aligned(lines) for lines in compared if lines]
    if not any(compared):
        parts.pop()
    return "\n\n".join(parts)


def write_json(path, runs, about, skipped):
    everything = {**about, "skipped": skipped, "runs": [asdict(run) for run in runs]}
    path.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
