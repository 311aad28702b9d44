"""Products of rows of bytes with rows of bytes: the multiplication inside the neighbour search.

What: sums of products of unsigned with signed 8-bit numbers, for a tile of rows at once.
Why: a bound on a product needs only 8 bits, and processors that multiply four bytes per lane
(AVX-512 VNNI) do five times as many per second as BLAS in float32 (measured: 300 and 60 billion).
Trade-off: the one instruction is named where the processor has it; elsewhere the same sums are
written out for LLVM, and are slower. One side is laid out in blocks of 16 rows. Rows have a fixed
length, so that the loop over it is unrolled and sums stay in registers.
Reference: Goto and van de Geijn (2008), Anatomy of High-Performance Matrix Multiplication.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

WIDTH = 128
"""Bytes in a row."""

_ROWS, _LANES, _BLOCKS = 4, 16, 2  # one step multiplies 4 rows with 2 blocks of 16
_BYTE, _INT, _LONG = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_SUMS = ir.VectorType(_INT, _LANES)


def laid_out(rows: NDArray[np.int8]) -> NDArray[np.int8]:
    """int8 [n, WIDTH] as [m, WIDTH / 4, 64], blocks of 16 rows, four bytes of each in turn.

    Zeros fill the last block, and one step more.
    """
    step = _LANES * _BLOCKS
    blocks = (len(rows) // step + 2) * _BLOCKS
    filled = np.zeros((blocks * _LANES, WIDTH), np.int8)
    filled[: len(rows)] = rows
    turned = filled.reshape(blocks, _LANES, WIDTH // 4, 4).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(turned).reshape(blocks, WIDTH // 4, 4 * _LANES)


def _dot(context: Any, builder: Any, sums: Any, left: Any, right: Any) -> Any:
    """Add to each of 16 sums the products of 4 unsigned bytes of `left` with 4 of `right`."""
    if "+avx512vnni" in context.codegen().magic_tuple()[2]:
        kind = ir.FunctionType(_SUMS, [_SUMS, _SUMS, _SUMS])
        name = "llvm.x86.avx512.vpdpbusd.512"
        dot = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(dot, [sums, left, right])
    halves = ir.VectorType(ir.IntType(16), 2 * _LANES)
    wide = ir.VectorType(_INT, 2 * _LANES)
    byte = ir.Constant(halves, [8] * (2 * _LANES))
    left, right = (builder.bitcast(side, halves) for side in (left, right))
    low = builder.lshr(builder.shl(left, byte), byte), builder.ashr(builder.shl(right, byte), byte)
    for one, other in (low, (builder.lshr(left, byte), builder.ashr(right, byte))):
        products = builder.mul(builder.sext(one, wide), builder.sext(other, wide))
        for odd in range(2):
            every = ir.Constant(_SUMS, list(range(odd, 2 * _LANES, 2)))
            sums = builder.add(sums, builder.shuffle_vector(products, products, every))
    return sums


@intrinsic
def _step(
    typingctx: Any, rows: Any, i: Any, blocks: Any, b: Any, start: Any, out: Any, r: Any, c: Any
) -> Any:
    """Multiply rows i.. with blocks b.., add `start`, write to `out[r.., c..]`."""
    place = types.intp
    signature = types.void(rows, place, blocks, place, start, out, place, place)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def vector(at: int, kind: Any, *places: Any) -> Any:
            array = context.make_array(sig.args[at])(context, builder, args[at])
            pointer = cgutils.get_item_pointer(context, builder, sig.args[at], array, places)
            return builder.bitcast(pointer, kind.as_pointer())

        def later(value: Any, by: int) -> Any:
            return builder.add(value, _LONG(by))

        _, i, _, b, _, _, r, c = args
        same = ir.Constant(_SUMS, [0] * _LANES)
        lanes = [builder.mul(later(b, block), _LONG(_LANES)) for block in range(_BLOCKS)]
        begin = [builder.load(vector(4, _SUMS, lane), align=4) for lane in lanes]
        sums = [list(begin) for _ in range(_ROWS)]
        for four in range(WIDTH // 4):
            right = [
                builder.load(vector(2, _SUMS, later(b, block), _LONG(four), _LONG(0)), align=1)
                for block in range(_BLOCKS)
            ]
            for row in range(_ROWS):
                word = builder.load(vector(0, _INT, later(i, row), _LONG(4 * four)), align=1)
                first = builder.insert_element(ir.Constant(_SUMS, ir.Undefined), word, _INT(0))
                left = builder.shuffle_vector(first, first, same)
                for block in range(_BLOCKS):
                    dot = _dot(context, builder, sums[row][block], left, right[block])
                    sums[row][block] = dot
        for row in range(_ROWS):
            for block in range(_BLOCKS):
                to = vector(5, _SUMS, later(r, row), later(c, block * _LANES))
                builder.store(sums[row][block], to, align=4)
        return context.get_dummy_value()

    return signature, generate


@njit(cache=True, nogil=True)
def tile_of_dots(
    rows: NDArray[np.uint8],
    first: int,
    last: int,
    blocks: NDArray[np.int8],
    begin: int,
    end: int,
    start: NDArray[np.int32],
    out: NDArray[np.int32],
) -> None:
    """Products of rows [first, last) with the laid out rows from `begin` to `end`, and `start`.

    Args:
        rows: uint8 [n + 3 or more, WIDTH].
        first: the first row.
        last: one past the last.
        blocks: the result of `laid_out` for m rows.
        begin: the first of these rows, a multiple of 32.
        end: one past the last.
        start: int32 [as many as are laid out], added to each row's products.
        out: int32 [last - first + 3 or more, end - begin + 31 or more], overwritten.
    """
    for b in range(begin // _LANES, (end + _LANES - 1) // _LANES, _BLOCKS):
        for i in range(first, last, _ROWS):
            _step(rows, i, blocks, b, start, out, i - first, b * _LANES - begin)
