"""Random matrices in the bytes of GGUF's weight types, for files that are made for speed.

Weights have a mean near 0 and a standard deviation of about 1.4 / sqrt(inputs): activations stay finite over all
layers. Scales are alike in all blocks; numbers, which are most of the bytes, are random.
"""

import gguf
import numpy as np

DEVIATION = 1.4
# The distance of neighbours among 16 even numbers that gives DEVIATION; with more bits they are as much nearer.
STEP_OF_4_BITS = 0.3
# Of their 16 numbers.
IQ4_DEVIATION, MXFP4_DEVIATION = 69, 2.93


def _halves(count, value):
    return np.full(count, value, np.float16)


def _bytes(rng, count, size):
    return rng.integers(0, 256, (count, size), np.uint8)


def _constant(count, *values):
    return np.tile(np.array(values, np.uint8), (count, 1))


def _either_sign(rng, count, value):
    """Of types whose numbers are not spread evenly about 0, so that the mean is."""
    return np.where(rng.random(count) < 0.5, value, -value).astype(np.float16)


# All 8 scales and 8 minima of a block of Q4_K or Q5_K are 32. The first four of either have 6 bits of a byte, and above
# them stand 2 of one of the last four, whose other 4 come after.
_K_SCALES = (0xA0,) * 8 + (0,) * 4


def _parts(kind, rng, count, deviation):
    """The fields of `count` blocks, in the order of a file."""
    step = STEP_OF_4_BITS * deviation / DEVIATION
    if kind == "q4_0":
        return [_halves(count, step), _bytes(rng, count, 16)]
    if kind == "q4_1":
        return [_halves(count, step), _halves(count, -7.5 * step), _bytes(rng, count, 16)]
    if kind == "q8_0":
        return [_halves(count, step / 16), rng.integers(-127, 128, (count, 32), np.int8)]
    if kind == "q4_k":
        scales = [_halves(count, step / 32), _halves(count, 7.5 * step / 32), _constant(count, *_K_SCALES)]
        return [*scales, _bytes(rng, count, 128)]
    if kind == "q5_k":
        scales = [_halves(count, step / 64), _halves(count, 15.5 * step / 64), _constant(count, *_K_SCALES)]
        return [*scales, _bytes(rng, count, 32 + 128)]
    if kind == "q6_k":
        return [_bytes(rng, count, 128 + 64), _constant(count, *[64] * 16), _halves(count, step / 4 / 64)]
    if kind == "iq4_nl":
        return [_either_sign(rng, count, deviation / IQ4_DEVIATION), _bytes(rng, count, 16)]
    if kind == "iq4_xs":
        # Its 6-bit scales stand for 32 less: 48 is 16; the 2 upper bits come first.
        scales = [_either_sign(rng, count, deviation / IQ4_DEVIATION / 16), _constant(count, 0xFF, 0xFF, 0, 0, 0, 0)]
        return [*scales, _bytes(rng, count, 128)]
    if kind == "mxfp4":
        return [_constant(count, 127 + round(np.log2(deviation / MXFP4_DEVIATION))), _bytes(rng, count, 16)]
    raise ValueError(f"found {kind}, expected one of {', '.join(KINDS)}")


_NAMES = ("f16", "q4_0", "q4_1", "q8_0", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4")
KINDS = {name: gguf.GGMLQuantizationType[name.upper()] for name in _NAMES}


def block_size(kind):
    """Weights of a block: rows are whole blocks."""
    return gguf.GGML_QUANT_SIZES[KINDS[kind]][0]


def random_matrix(rng, kind, rows, columns):
    """An array whose bytes are those of the type."""
    deviation = DEVIATION / np.sqrt(columns)
    if kind == "f16":
        return (rng.standard_normal((rows, columns), np.float32) * deviation).astype(np.float16)
    count = rows * columns // block_size(kind)
    parts = _parts(kind, rng, count, deviation)
    return np.concatenate([part.reshape(count, -1).view(np.uint8) for part in parts], axis=1).reshape(rows, -1)
