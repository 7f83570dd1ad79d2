"""Measure launch, teardown and throughput beside mlx.launch, alternating, on one fabric of four hosts.

    python -m tests.bench [ROUNDS]

Every figure is printed with its smallest, middle and largest value. A ratio is taken round by round, so that it
holds when the machine's speed drifts.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench._cluster import Cluster, last_first, slowest_rate
from tests.fabric.fabric import Fabric, missing

HOSTS = 4


def main() -> None:
    """Run all benchmarks and print their tables."""
    reason = missing()
    if reason:
        raise SystemExit(f"bench: the fabric cannot run here: {reason}")
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    with Fabric(HOSTS, name="bench") as fabric:
        cluster = Cluster(fabric)
        launches(cluster, rounds)
        throughput(cluster, max(3, rounds // 2))


def launches(cluster: Cluster, rounds: int) -> None:
    """From the command to the last rank past its first all_sum, and from the teardown's command to its proof."""
    muster, peer, cold, down, cpu_up, cpu_down = [], [], [], [], [], []
    cluster.muster("first_sum.py", "--stay")
    cluster.teardown()
    for _ in range(rounds):
        cluster.forget()
        up = cluster.muster("first_sum.py", "--stay")
        muster.append(last_first(cluster.logs(), HOSTS) - up.began)
        gone = cluster.teardown()
        down.append(gone.wall)
        cpu_up.append(up.cpu / HOSTS)
        cpu_down.append(gone.cpu / HOSTS)
        cluster.forget()
        began, text = cluster.mlx_launch("first_sum.py")
        peer.append(last_first(text, HOSTS) - began)
        cluster.forget()
        cluster.fabric.controller.close_connections()
        up = cluster.muster("first_sum.py", "--stay")
        cold.append(last_first(cluster.logs(), HOSTS) - up.began)
        cluster.teardown()
    table(
        f"Launch and teardown of {HOSTS} ranks on {HOSTS} hosts, {rounds} rounds",
        [
            ("launch.yml, ssh connections kept: last rank past its first all_sum", muster, "s"),
            ("launch.yml, ssh connections new", cold, "s"),
            ("mlx.launch: last rank past its first all_sum", peer, "s"),
            ("ratio, connections kept", ratios(muster, peer), "x"),
            ("ratio, connections new", ratios(cold, peer), "x"),
            ("teardown.yml to proven absence, wall", down, "s"),
            ("controller CPU per host, launch.yml", cpu_up, "s"),
            ("controller CPU per host, teardown.yml", cpu_down, "s"),
        ],
    )


def throughput(cluster: Cluster, rounds: int) -> None:
    """all_sums a second of the slowest rank."""
    muster, peer = [], []
    for _ in range(rounds):
        cluster.forget()
        cluster.muster("many_sums.py")
        cluster.await_words("all_sums")
        cluster.teardown()
        muster.append(slowest_rate(cluster.logs(), HOSTS))
        cluster.forget()
        peer.append(slowest_rate(cluster.mlx_launch("many_sums.py")[1], HOSTS))
    table(
        f"Throughput of {HOSTS} ranks, all_sum of 64 KiB, {rounds} rounds",
        [
            ("under Muster", muster, "/s"),
            ("under mlx.launch", peer, "/s"),
            ("ratio", ratios(muster, peer), "x"),
        ],
    )


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return ours over theirs, round by round."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def table(title: str, rows: Sequence[tuple[str, Sequence[float], str]]) -> None:
    """Print a table of minimum, median and maximum."""
    print(f"\n{title}\n{'':66} {'min':>9} {'median':>9} {'max':>9}")
    for name, values, unit in rows:
        cells = (min(values), statistics.median(values), max(values))
        print(f"{name:66} " + " ".join(f"{value:9.2f}" for value in cells) + f" {unit}", flush=True)


if __name__ == "__main__":
    main()
