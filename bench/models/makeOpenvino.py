"""Writes a folder of makeHfFolder.py as OpenVINO reads it without its reader of GGUF: an IR, whose matrices nncf has
compressed. In 8 bits with one scale a row, in 4 with one for each group; head and table have 8 bits in both.

usage: makeOpenvino.py FOLDER INTO --bits 8|4
needs: optimum-intel, nncf
"""

import argparse

from optimum.intel import OVModelForCausalLM, OVWeightQuantizationConfig
from transformers import AutoConfig


def compression(bits, config):
    if bits == 8:
        return OVWeightQuantizationConfig(bits=8, sym=False)
    heads = config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    widths = [config.hidden_size, config.intermediate_size, heads * head_dim]
    # 128 is what OpenVINO's own models have; of other widths the largest that divides all of them.
    size = next(size for size in (128, 64, 32, 16) if all(width % size == 0 for width in widths))
    return OVWeightQuantizationConfig(bits=4, sym=False, group_size=size, ratio=1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("into")
    parser.add_argument("--bits", type=int, choices=[8, 4], required=True)
    options = parser.parse_args()
    quantisation = compression(options.bits, AutoConfig.from_pretrained(options.folder))
    model = OVModelForCausalLM.from_pretrained(
        options.folder, export=True, compile=False, quantization_config=quantisation
    )
    model.save_pretrained(options.into)


main()
