"""Writes a GGUF file's model as vLLM and transformers read it: a folder with config.json and safetensors, its weights
dequantised. Without a tokenizer: the benchmarks hand over ids.

usage: makeHfFolder.py MODEL.gguf FOLDER [--dtype bfloat16|float32]

A matrix at a time is in memory, so models may be larger than it; transformers' own reader has all of them in float32.
needs: torch, transformers, gguf (what vllm brings)
"""

import argparse
import json
import os

import gguf
import torch
import transformers
from safetensors.torch import save_file

# Families whose tensors stand in a GGUF file as they do in transformers, but for the order of LLaMA's heads, and for
# the one that Gemma adds to the weights of its norms, which llama.cpp adds when it makes the file.
FAMILIES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "gemma3": gguf.MODEL_ARCH.GEMMA3,
}
SHARD_BYTES = 2**30


def halves_first(matrix, heads):
    """LLaMA's rows of a head, of which llama.cpp pairs neighbours for rotating, as transformers has them: halves."""
    rows, columns = matrix.shape
    return matrix.reshape(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def tensors_of(reader, config, family, dtype):
    """(name, tensor) of each that the model has; an output that the file has none of is the table's."""
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    config.architectures = [type(model).__name__]
    name_map = gguf.get_tensor_name_map(FAMILIES[family], config.num_hidden_layers)
    found = {tensor.name: tensor for tensor in reader.tensors}
    for name in model.state_dict():
        tensor = found.get(name_map.get_name(name, try_suffixes=(".weight", ".bias")))
        if tensor is None and name == "lm_head.weight":
            continue
        if tensor is None:
            raise SystemExit(f"found no tensor for {name}, expected all of a {family} model")
        shape = [int(extent) for extent in reversed(tensor.shape)]
        values = torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).copy()).reshape(shape)
        if family == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            of_keys = name.endswith("k_proj.weight")
            values = halves_first(values, config.num_key_value_heads if of_keys else config.num_attention_heads)
        if family == "gemma3" and name.endswith("norm.weight"):
            values -= 1
        yield name, values.to(dtype).contiguous()


def write_shards(folder, tensors):
    files, shard, size, total = {}, {}, 0, 0

    def write():
        nonlocal shard, size
        file = f"model-{len(set(files.values())) + 1:05}.safetensors"
        save_file(shard, os.path.join(folder, file), metadata={"format": "pt"})
        files.update(dict.fromkeys(shard, file))
        shard, size = {}, 0

    for name, tensor in tensors:
        shard[name] = tensor
        size, total = size + tensor.nbytes, total + tensor.nbytes
        if size >= SHARD_BYTES:
            write()
    if shard:
        write()
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": files}, file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("folder")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    options = parser.parse_args()
    reader = gguf.GGUFReader(options.model)
    family = reader.fields["general.architecture"].contents()
    if family not in FAMILIES:
        parser.error(f"found a {family} model, expected one of {', '.join(FAMILIES)}")
    os.makedirs(options.folder, exist_ok=True)
    directory, name = os.path.split(os.path.abspath(options.model))
    config = transformers.AutoConfig.from_pretrained(directory, gguf_file=name)
    config.dtype = getattr(torch, options.dtype)
    write_shards(options.folder, tensors_of(reader, config, family, config.dtype))
    config.save_pretrained(options.folder)


if __name__ == "__main__":
    main()
