"""Writes the golden files of the weight types: random blocks, and what they mean according to the `gguf` package.

    pip install gguf==0.19.0 numpy && python make_weight_types.py

One file a type, little-endian: int32 rows, int32 inputs, int32 bytes per row; the rows as a GGUF file has them; float32 [rows][inputs].
"""

import pathlib

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

ROWS = 5
HERE = pathlib.Path(__file__).parent
# Byte offsets of the half-precision numbers within a block.
HALVES = {
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
    Type.IQ4_NL: [0], Type.IQ4_XS: [0], Type.MXFP4: [],
}


def random_halves(random: np.random.Generator, count: int) -> np.ndarray:
    """Of either sign, over the magnitudes that scales have; now and then zero, subnormal or large."""
    values = (random.choice([-1.0, 1.0], count) * np.exp(random.uniform(-12, 0, count))).astype(np.float16)
    special = np.array([0.0, -0.0, 6e-8, -3e-6, 60000.0, -65504.0], np.float16)
    return np.where(random.random(count) < 0.15, random.choice(special, count), values).astype(np.float16)


def random_rows(random: np.random.Generator, type: Type, inputs: int) -> np.ndarray:
    if type in (Type.F32, Type.F16, Type.BF16):
        width = 4 if type == Type.F32 else 2
        bits = random.integers(0, 1 << (8 * width), (ROWS, inputs), np.uint64)
        exponent = {Type.F32: 0x7F800000, Type.F16: 0x7C00, Type.BF16: 0x7F80}[type]
        bits = np.where((bits & exponent) == exponent, bits & ~np.uint64(exponent), bits)  # neither infinities nor NaN
        return bits.astype(np.uint32 if width == 4 else np.uint16).view(np.uint8).reshape(ROWS, -1)
    elements, size = GGML_QUANT_SIZES[type]
    blocks = random.integers(0, 256, (ROWS * inputs // elements, size), np.uint8)
    for offset in HALVES[type]:
        blocks[:, offset:offset + 2] = random_halves(random, len(blocks)).view(np.uint8).reshape(-1, 2)
    if type == Type.MXFP4:  # exponents up to the largest of which no number is beyond float32
        blocks[:, 0] = np.where(random.random(len(blocks)) < 0.5, random.integers(100, 130, len(blocks)), random.integers(0, 253, len(blocks)))
        blocks[:3, 0] = [0, 1, 252]
    return blocks.reshape(ROWS, -1)


def main() -> None:
    random = np.random.default_rng(20251121)
    for type in [Type.F32, Type.F16, Type.BF16, *HALVES]:
        inputs = 37 if type in (Type.F32, Type.F16, Type.BF16) else max(96, GGML_QUANT_SIZES[type][0])
        rows = random_rows(random, type, inputs)
        values = dequantize(rows, type).astype(np.float32).reshape(ROWS, inputs)
        assert np.isfinite(values).all()
        header = np.array([ROWS, inputs, rows.shape[1]], np.int32)
        (HERE / f"{type.name}.bin").write_bytes(header.tobytes() + rows.tobytes() + values.tobytes())


if __name__ == "__main__":
    main()
