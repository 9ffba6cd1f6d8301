"""What the model-making scripts share: metadata of one GGUF file copied to another, tensors written one after another."""

import os

import gguf

FILE_TYPES = {
    "f16": gguf.LlamaFileType.MOSTLY_F16, "bf16": gguf.LlamaFileType.MOSTLY_BF16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
    "q4_0": gguf.LlamaFileType.MOSTLY_Q4_0, "q4_1": gguf.LlamaFileType.MOSTLY_Q4_1,
}
TENSOR_TYPES = {name: gguf.GGMLQuantizationType[name.upper()] for name in FILE_TYPES}

# The writer sets these by itself.
OWN = ("GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.architecture")


def copy_fields(reader, writer, wanted=lambda key: True):
    """Copies metadata; `wanted` says of a key whether it comes along."""
    for key, field in reader.fields.items():
        if key in OWN or not wanted(key):
            continue
        value, kind = field.contents(), field.types[0]
        if kind == gguf.GGUFValueType.ARRAY:
            writer.add_array(key, value)
        else:
            writer.add_key_value(key, value, kind)


def write_tensors(writer, tensors):
    """`tensors`: (name, array's shape in bytes or elements, its dtype, bytes, type, function that makes the array). Only one array is in memory at a time."""
    for name, shape, dtype, size, kind, _ in tensors:
        writer.add_tensor_info(name, shape, dtype, size, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for *_, make in tensors:
        writer.write_tensor_data(make())
    writer.close()


class AtomicPath:
    """A path beside the wanted one that takes its place when all is written; a script that was cut off leaves no half file under the name."""

    def __init__(self, path):
        self.path, self.part = path, f"{path}.part"

    def __enter__(self):
        return self.part

    def __exit__(self, kind, *_):
        if kind is None:
            os.replace(self.part, self.path)
        elif os.path.exists(self.part):
            os.remove(self.part)
