"""Print how many all_sums of 64 KiB a second this rank takes part in, after a warm-up."""

import time

import mlx.core as mx

ROUNDS = 400

group = mx.distributed.init(backend="ring", strict=True)
data = mx.ones(16384)


def rounds(count: int) -> None:
    for _ in range(count):
        mx.eval(mx.distributed.all_sum(data))


rounds(50)
began = time.perf_counter()
rounds(ROUNDS)
print(f"rank {group.rank()} did {ROUNDS / (time.perf_counter() - began):.1f} all_sums a second", flush=True)
