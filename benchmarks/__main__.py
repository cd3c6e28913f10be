"""
Measure Holdfast beside the bare driver and its peers, and compare with its targets.

The table goes to stdout, progress to stderr, every number to benchmarks/out/<store>.json (with
-quick or -part in its name if it is not a whole run). The first run installs the peers into
benchmarks/.venv. Each number is the median over the repeats;
each repeat is a fresh process in a fresh directory below --dir, which must be on a real disk.
A store on a server has one of its own for the run, with its syncs on and its data below /tmp.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import version
from pathlib import Path
from sqlite3 import sqlite_version
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.environment import HERE, PeersUnavailable, ensure_peers
from benchmarks.machine import machine_facts
from benchmarks.plan import Plan
from benchmarks.report import Report
from benchmarks.runner import Runner
from benchmarks.servers import running
from benchmarks.subjects import LINEUPS, on_server
from benchmarks.targets import TARGETS
from benchmarks.workloads import WORKLOADS

_UNEVEN = 3
"""From this ratio of the slowest sync to the fastest on, rounds can't be compared."""

_EPILOG = "workloads:\n" + "\n".join(f"  {workload.name:9} {workload.title}" for workload in WORKLOADS)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--store", choices=sorted(LINEUPS), default="sqlite", help="which store (default: sqlite)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes and one repeat: does it run, not how fast"
    )
    parser.add_argument("--only", metavar="W1,W2", help="these workloads (W3 includes W3-bytes)")
    parser.add_argument(
        "--repeats", type=int, metavar="N", help="rounds over all subjects (default: 3, quick: 1)"
    )
    parser.add_argument("--no-peers", action="store_true", help="only Holdfast and the bare driver")
    parser.add_argument(
        "--dir", type=Path, default=HERE / "data", help="where files go (default: benchmarks/data)"
    )
    given = parser.parse_args()

    wanted = given.only.split(",") if given.only else [workload.name for workload in WORKLOADS]
    workloads = [w for w in WORKLOADS if w.name in wanted or w.name.partition("-")[0] in wanted]
    if not workloads:
        parser.error(f"no workload {given.only!r}; there are {', '.join(w.name for w in WORKLOADS)}")
    entries = [entry for entry in LINEUPS[given.store] if not (given.no_peers and entry.kind == "peer")]
    workloads = [w for w in workloads if any(w.name in entry.workloads for entry in entries)]
    plan = Plan.of(given.store, quick=given.quick)
    repeats: int = given.repeats or (1 if given.quick else 3)
    try:
        peers = ensure_peers() if any(entry.kind == "peer" for entry in entries) else None
    except PeersUnavailable as exc:
        print(exc, file=sys.stderr)
        return 1

    given.dir.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=given.dir) as scratch, running(given.store) as server:
        runner = Runner(
            given.store,
            quick=given.quick,
            repeats=repeats,
            peers=peers,
            scratch=Path(scratch),
            disk=server.folder if server else Path(scratch),
        )
        results = runner.run(workloads, entries, plan)
    syncs = sorted(runner.syncs)
    facts = machine_facts() | {
        "database": server.description if server else f"SQLite {sqlite_version}",
        "holdfast": version("holdfast"),
        "store": given.store,
        "fdatasync": f"{median(syncs):.2f} ms (from {syncs[0]:.2f} to {syncs[-1]:.2f} over the run)",
        "repeats": repeats,
        "workloads": " ".join(workload.name for workload in workloads),
        "size": "quick: too small to compare" if given.quick else "full",
    }
    if syncs[-1] > _UNEVEN * syncs[0]:
        facts["warning"] = "the disk was busy with other work in some rounds: do not trust W1, W2 and W3"
    report = Report(
        results,
        workloads,
        entries,
        plan,
        TARGETS[given.store](plan),
        facts=facts,
        failures=runner.failures,
        grows=on_server(given.store),
    )
    print(report.markdown())
    part = "-quick" if given.quick else "-part" if given.only or given.no_peers else ""
    out = HERE / "out" / f"{given.store}{part}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(report.document(), ensure_ascii=False, indent=2) + "\n")
    print(f"\nEvery number is in {out}", file=sys.stderr)
    return 1 if runner.failures else 0


if __name__ == "__main__":
    sys.exit(main())
