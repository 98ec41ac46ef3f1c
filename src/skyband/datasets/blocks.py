"""Streams in fixed blocks: each block is seeded by its number, then blocks are cut into chunks.

A row depends only on the seed and its place in the stream, not on how the stream is read, and any
block can be made without the blocks before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa

from skyband.order import Floats, Ints

BLOCK = 65_536
"""Rows of a block. A constant of the format: another size gives another stream."""

Block = TypeVar("Block")


def generator(seed: int, stream: int, number: int) -> np.random.Generator:
    """The random numbers of one block of one stream.

    ``stream`` keeps the draws of different data sets and purposes apart under the same seed.
    """
    sequence = np.random.SeedSequence([seed, stream, number])
    return np.random.Generator(np.random.SFC64(sequence))


def places(number: int) -> Ints:
    """The places in the stream, from 0, of the rows of a block."""
    return np.arange(number * BLOCK, (number + 1) * BLOCK, dtype=np.int64)


def cut_batches(
    block: Callable[[int], pa.RecordBatch], rows: int, chunk: int
) -> Iterator[pa.RecordBatch]:
    """Record batches of ``chunk`` rows, the last one shorter. Space: two chunks and a block."""
    for parts in _cuts(block, rows, chunk):
        pieces = [batch.slice(low, high - low) for batch, low, high in parts]
        if len(pieces) == 1:
            yield pieces[0]
        else:
            yield from pa.Table.from_batches(pieces).combine_chunks().to_batches()


def cut_scores(block: Callable[[int], Floats], rows: int, chunk: int) -> Iterator[Floats]:
    """Arrays of ``chunk`` scores, the last one shorter. Space: two chunks and a block."""
    for parts in _cuts(block, rows, chunk):
        yield np.concatenate([scores[low:high] for scores, low, high in parts])


def _cuts(
    block: Callable[[int], Block], rows: int, chunk: int
) -> Iterator[list[tuple[Block, int, int]]]:
    """Yield for each chunk its parts: a block, and the rows of it; each block is made once."""
    made = -1  # the number of the current block
    for start in range(0, rows, chunk):
        stop = min(start + chunk, rows)
        parts = []
        while start < stop:
            number, low = divmod(start, BLOCK)
            if number != made:
                current, made = block(number), number
            high = min(BLOCK, low + stop - start)
            parts.append((current, low, high))
            start += high - low
        yield parts
