"""Writes a folder of makeHfFolder.py with the layers' matrices in 8 bits (W8A8 of compressed-tensors): one scale for each
row of a matrix, and activations rounded to 8 bits as they come. Head and embedding stay as they are.

usage: makeW8a8.py FOLDER INTO
needs: torch, safetensors (what vllm brings)
"""

import json
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file


def integers(strategy, dynamic):
    return {"num_bits": 8, "type": "int", "symmetric": True, "strategy": strategy, "dynamic": dynamic}


def quantised(name, tensor):
    if tensor.ndim != 2 or "layers." not in name:
        return {name: tensor}
    values = tensor.float()
    # A row of zeros has any scale.
    scale = values.abs().amax(1, keepdim=True).clamp(min=1e-10) / 127
    return {
        name: (values / scale).round().clamp(-127, 127).to(torch.int8),
        f"{name}_scale": scale.to(torch.bfloat16),
    }


def main():
    source, into = map(Path, sys.argv[1:])
    into.mkdir(parents=True)
    config = json.loads((source / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": integers("channel", False),
                "input_activations": integers("token", True),
            }
        },
    }
    (into / "config.json").write_text(json.dumps(config, indent=1))
    tensors = {}
    for file in sorted(source.glob("*.safetensors")):
        with safe_open(file, "pt") as shard:
            for name in shard.keys():
                tensors.update(quantised(name, shard.get_tensor(name)))
    save_file(tensors, into / "model.safetensors", metadata={"format": "pt"})


main()
