"""Writes a GGUF file with the matrices of another one in another type: dequantised to float32, then rounded to the type by gguf-py.

usage: requantise.py SOURCE.gguf OUT.gguf --type q4_0|q4_1|q8_0|f16|bf16

From a quantised file this rounds twice: a Q4_0 file made of a Q4_1 one is right for comparing speeds and says nothing about accuracy.
With f16 it is the 16-bit baseline: the values of the file, rounded to 11 binary digits.
Vectors (norms, biases) stay as they are.
needs: pip install -r bench/models/requirements.txt
"""

import argparse

import gguf
import numpy as np

from ggufCopy import FILE_TYPES, TENSOR_TYPES, AtomicPath, copy_fields, write_tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("out")
    parser.add_argument("--type", choices=FILE_TYPES, required=True)
    options = parser.parse_args()
    kind = TENSOR_TYPES[options.type]
    reader = gguf.GGUFReader(options.source)

    def matrix(tensor):
        shape = tuple(int(extent) for extent in reversed(tensor.shape))
        if shape[-1] % gguf.GGML_QUANT_SIZES[kind][0]:
            parser.error(f"{tensor.name}: found rows of {shape[-1]} weights, expected a multiple of {gguf.GGML_QUANT_SIZES[kind][0]}, the block of {options.type}")

        def make():
            values = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(shape)
            return values.astype(np.float16) if options.type == "f16" else gguf.quantize(values, kind)

        if options.type == "f16":
            return tensor.name, shape, np.dtype(np.float16), 2 * int(np.prod(shape)), None, make
        stored = gguf.quant_shape_to_byte_shape(shape, kind)
        return tensor.name, stored, np.dtype(np.uint8), int(np.prod(stored)), kind, make

    def vector(tensor):
        return tensor.name, tensor.data.shape, tensor.data.dtype, tensor.data.nbytes, None, lambda: tensor.data

    tensors = [matrix(tensor) if len(tensor.shape) > 1 else vector(tensor) for tensor in reader.tensors]
    with AtomicPath(options.out) as path:
        writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
        copy_fields(reader, writer, lambda key: key not in ("general.file_type", "general.quantization_version"))
        writer.add_file_type(FILE_TYPES[options.type])
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
        write_tensors(writer, tensors)


if __name__ == "__main__":
    main()
