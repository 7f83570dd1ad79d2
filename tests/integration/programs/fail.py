"""Rank RANK prints LINES lines and exits with CODE at once, the others wait for it: fail.py RANK CODE LINES."""

import os
import sys

import mlx.core as mx

rank, code, lines = map(int, sys.argv[1:])
if int(os.environ["MLX_RANK"]) == rank:
    for number in range(1, lines + 1):
        print(f"line {number} of rank {rank}")
    sys.exit(code)
mx.distributed.init(backend="ring", strict=True)
