"""Eight bytes at a time: the machine-word operations that the byte kernels share.

What: an unaligned 8-byte load and store, and for eight bytes at once which of them are ASCII word
characters or end a JSON string, in ordinary 64-bit arithmetic.
Why: most text is ASCII, and a loop over bytes mispredicts a branch at every word's end; the length
of a word in a mask needs no branch.
Trade-off: needs a little-endian machine, as all machines that numba supports in practice are.
Reference: Warren, Hacker's Delight, 6-1 (finding a byte in a word).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

Word: TypeAlias = Any
"""A uint64 inside a kernel; only numba needs its type."""

HIGH = np.uint64(0x8080808080808080)
REACH = 72
"""Bytes that are loaded for a window of 64: its last byte begins the last word."""
_LOW7 = np.uint64(0x7F7F7F7F7F7F7F7F)
_GATHER = np.uint64(0x0102040810204080)  # moves the lowest bit of each byte to the top byte
_SEVEN = np.uint64(7)
_TOP_BYTE = np.uint64(56)
_EACH = np.uint64(0x0101010101010101)
_QUOTE = np.uint64(0x2222222222222222)
_NEWLINE = np.uint64(0x0A0A0A0A0A0A0A0A)
_BACKSLASH = np.uint64(0x5C5C5C5C5C5C5C5C)
_CASE = np.uint64(0x2020202020202020)
_ABOVE_A = np.uint64(0x1F1F1F1F1F1F1F1F)  # 0x80 - "a"
_ABOVE_Z = np.uint64(0x0505050505050505)  # 0x7f - "z"
_ABOVE_0 = np.uint64(0x5050505050505050)  # 0x80 - "0"
_ABOVE_9 = np.uint64(0x4646464646464646)  # 0x7f - "9"
_UNDERSCORE = np.uint64(0x5F5F5F5F5F5F5F5F)

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""The step between two states of SplitMix64."""


@intrinsic
def load(typingctx: Any, data: Any, offset: Any) -> Any:
    """`load(data, i)`: the 8 bytes data[i : i + 8] as a uint64; the caller keeps i + 8 <= n."""
    signature = types.uint64(data, types.intp)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        array = context.make_array(sig.args[0])(context, builder, args[0])
        address = cgutils.pointer_add(builder, array.data, args[1])
        word = builder.bitcast(address, ir.IntType(64).as_pointer())
        return builder.load(word, align=1)

    return signature, generate


@intrinsic
def store(typingctx: Any, data: Any, offset: Any, value: Any) -> Any:
    """`store(data, i, x)`: write the 8 bytes of x to data[i : i + 8]."""
    signature = types.void(data, types.intp, types.uint64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        array = context.make_array(sig.args[0])(context, builder, args[0])
        address = cgutils.pointer_add(builder, array.data, args[1])
        builder.store(args[2], builder.bitcast(address, ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def zeros_below(typingctx: Any, value: Any) -> Any:
    """`zeros_below(x)`: number of zero bits below the lowest one bit of a uint64; 64 for 0."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@njit(cache=True, nogil=True, inline="always")
def bytes_before(mask: Word) -> Any:
    """Number of bytes before the first with its high bit set; 8 if there is none."""
    return zeros_below(mask) >> 3


@njit(cache=True, nogil=True, inline="always")
def letter_bytes(x: Word) -> Word:
    """The high bit of every byte of x that is an ASCII letter."""
    folded = (x & _LOW7) | _CASE
    return (folded + _ABOVE_A) & ~(folded + _ABOVE_Z) & ~x & HIGH


@njit(cache=True, nogil=True, inline="always")
def first_stop(x: Word) -> Any:
    """Number of bytes before the first quote, backslash or control character; 8 if none."""
    quote = x ^ _QUOTE
    backslash = x ^ _BACKSLASH
    zero = ((quote - _EACH) & ~quote) | ((backslash - _EACH) & ~backslash)
    return bytes_before((zero | ((x - _CASE) & ~x)) & HIGH)


@njit(cache=True, nogil=True, inline="always")
def newline_bytes(x: Word) -> Word:
    """The high bit of the first byte of x that is a line end; later bits are unreliable."""
    other = x ^ _NEWLINE
    return (other - _EACH) & ~other & HIGH


@njit(cache=True, nogil=True, inline="always")
def word_bytes(x: Word) -> Word:
    """The high bit of every byte of x that is an ASCII letter, digit or underscore."""
    low = x & _LOW7
    folded = low | _CASE
    letter = (folded + _ABOVE_A) & ~(folded + _ABOVE_Z)
    digit = (low + _ABOVE_0) & ~(low + _ABOVE_9)
    underscore = ~((low ^ _UNDERSCORE) + _LOW7)
    return (letter | digit | underscore) & ~x & HIGH


@njit(cache=True, nogil=True, inline="always")
def word_bits(data: NDArray[np.uint8], i: int) -> tuple[Word, Word]:
    """For the 64 bytes from i on, one bit each: ASCII word character or not ASCII; not ASCII."""
    word = np.uint64(0)
    other = np.uint64(0)
    for j in range(8):
        x = load(data, i + 8 * j)
        high = x & HIGH
        shift = np.uint64(8 * j)
        word |= ((((word_bytes(x) | high) >> _SEVEN) * _GATHER) >> _TOP_BYTE) << shift
        other |= (((high >> _SEVEN) * _GATHER) >> _TOP_BYTE) << shift
    return word, other


@njit(cache=True, nogil=True, inline="always")
def letter_bits(data: NDArray[np.uint8], i: int) -> tuple[Word, Word]:
    """For the 64 bytes from i on, one bit each: ASCII letter; space."""
    letter = np.uint64(0)
    space = np.uint64(0)
    for j in range(8):
        x = load(data, i + 8 * j)
        other = x ^ _CASE
        blank = ~(((other & _LOW7) + _LOW7) | other) & HIGH
        shift = np.uint64(8 * j)
        letter |= (((letter_bytes(x) >> _SEVEN) * _GATHER) >> _TOP_BYTE) << shift
        space |= (((blank >> _SEVEN) * _GATHER) >> _TOP_BYTE) << shift
    return letter, space


@njit(cache=True, nogil=True, inline="always")
def chance(x: Word) -> float:
    """A number in [0, 1) from a state of SplitMix64, by its finalizer."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return float((x ^ (x >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


@njit(cache=True, nogil=True)
def twice(values: NDArray[Any]) -> NDArray[Any]:
    """The values [n] at the begin of an array of twice their number; the rest is not set."""
    # not `np.append`, which numba takes seconds to compile
    wider = np.empty(2 * len(values), values.dtype)
    for i in range(len(values)):
        wider[i] = values[i]
    return wider
