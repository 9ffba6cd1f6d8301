"""Writes a LLaMA-shaped GGUF file, or one of Qwen3-MoE's shape (30b-a3b), with random weights and the tokenizer of
another GGUF file: for speed, not for text.

usage: makeDummy.py TOKENIZER.gguf OUT.gguf [--shape 1b|3b|4b|7b|8b|30b-a3b]
       [--type q4_0|q4_1|q8_0|f16|q4_k|q5_k|q6_k|q4_k_m|iq4_nl|iq4_xs|mxfp4]
       [--layers N --hidden N --feed-forward N --heads N --kv-heads N --head-size N]

q4_k_m is a mix of types, as llama.cpp makes it. Every layer stands in the file with data of its own, so that nothing is
read once for all; the data are the same, so that making 4 GB takes as long as writing them.
needs: pip install -r bench/models/requirements.txt
"""

import argparse
from dataclasses import dataclass, fields, replace

import gguf
import numpy as np

from ggufCopy import AtomicPath, copy_fields, write_tensors
from randomBlocks import KINDS, block_size, random_matrix


@dataclass(frozen=True)
class Shape:
    layers: int
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    # 0: the hidden size divided among the heads
    head_size: int = 0
    experts: int = 0
    experts_of_token: int = 0


SHAPES = {
    "1b": Shape(22, 2048, 5632, 32, 4),  # TinyLlama-1.1B
    "3b": Shape(26, 3200, 8640, 32, 32),  # OpenLLaMA-3B
    "4b": Shape(36, 2560, 9728, 32, 8, head_size=128),  # Qwen3-4B, without its norms of heads
    "7b": Shape(32, 4096, 11008, 32, 32),  # LLaMA-2-7B
    "8b": Shape(32, 4096, 14336, 32, 8),  # LLaMA-3-8B
    "30b-a3b": Shape(48, 2048, 768, 32, 4, head_size=128, experts=128, experts_of_token=8),  # Qwen3-30B-A3B
}
# What llama.cpp calls a file most of whose weights are of a type, where it has another name.
FILE_TYPES = {name: name for name in (*KINDS, "q4_k_m")}
FILE_TYPES |= {"q4_k": "q4_k_s", "q5_k": "q5_k_s", "mxfp4": "mxfp4_moe"}


def kind_of(kind, name, layer=0, layers=1):
    """The type of a matrix. Of Q4_K_M, the output has 6 bits, and so have the value and down projections of the first
    and the last eighth of the layers, and of every third between."""
    if kind != "q4_k_m":
        return kind
    eighth = layers // 8
    more_bits = layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2
    return "q6_k" if name == "output" or (name in ("attn_v", "ffn_down") and more_bits) else "q4_k"


def tensors_of(shape, kind, vocabulary):
    """What `write_tensors` takes."""
    rng = np.random.default_rng(1)
    query_size, kv_size = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    hidden, feed_forward = shape.hidden, shape.feed_forward
    of_layer = {
        "attn_q": (query_size, hidden), "attn_k": (kv_size, hidden), "attn_v": (kv_size, hidden),
        "attn_output": (hidden, query_size),
        "ffn_gate": (feed_forward, hidden), "ffn_up": (feed_forward, hidden), "ffn_down": (hidden, feed_forward),
    }
    sizes = {"token_embd": (vocabulary, hidden), "output": (vocabulary, hidden), **of_layer}
    made = {}

    def weight(place, name, layer=0, copies=()):
        of = kind_of(kind, name, layer, shape.layers)
        if (name, of) not in made:
            made[name, of] = random_matrix(rng, of, *sizes[name])
        array = made[name, of]
        stored, size = (*copies, *array.shape), array.nbytes * int(np.prod(copies))
        make = (lambda: np.tile(array, (*copies, 1, 1))) if copies else (lambda: array)
        return f"{place}.weight", stored, array.dtype, size, KINDS[of], make

    def floats(place, array):
        return f"{place}.weight", array.shape, array.dtype, array.nbytes, None, lambda: array

    ones, ones_of_head = np.ones(hidden, np.float32), np.ones(shape.head_size, np.float32)
    tensors = [weight("token_embd", "token_embd"), weight("output", "output"), floats("output_norm", ones)]
    for layer in range(shape.layers):
        for name in of_layer:
            # All experts of a layer are alike, as all layers are; which of them a token goes to differs.
            of_experts = shape.experts > 0 and name.startswith("ffn_")
            place, copies = (f"{name}_exps", (shape.experts,)) if of_experts else (name, ())
            tensors.append(weight(f"blk.{layer}.{place}", name, layer, copies))
        tensors += [floats(f"blk.{layer}.{name}", ones) for name in ("attn_norm", "ffn_norm")]
        if shape.experts:
            tensors += [floats(f"blk.{layer}.{name}", ones_of_head) for name in ("attn_q_norm", "attn_k_norm")]
            gate = rng.standard_normal((shape.experts, hidden), np.float32) / np.float32(np.sqrt(hidden))
            tensors.append(floats(f"blk.{layer}.ffn_gate_inp", gate))
    return tensors


def add_shape(writer, shape):
    writer.add_context_length(4096)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(shape.head_size)
    writer.add_rope_freq_base(10000.0)
    if shape.head_size * shape.heads != shape.hidden:
        writer.add_key_length(shape.head_size)
        writer.add_value_length(shape.head_size)
    if shape.experts:
        writer.add_expert_count(shape.experts)
        writer.add_expert_used_count(shape.experts_of_token)
        writer.add_expert_feed_forward_length(shape.feed_forward)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer")
    parser.add_argument("out")
    parser.add_argument("--shape", choices=SHAPES, default="7b")
    parser.add_argument("--type", choices=FILE_TYPES, default="q4_0")
    own = [field.name for field in fields(Shape) if not field.name.startswith("experts")]
    for name in own:
        parser.add_argument(f"--{name.replace('_', '-')}", type=int)
    options = parser.parse_args()
    given = {name: getattr(options, name) for name in own if getattr(options, name) is not None}
    shape = replace(SHAPES[options.shape], **given)
    undivided = shape.head_size == 0 and shape.hidden % max(1, shape.heads)
    if min(given.values(), default=1) < 1 or shape.heads % shape.kv_heads or undivided:
        parser.error(
            f"found {shape.hidden} hidden, {shape.heads} heads, {shape.kv_heads} KV heads; expected heads that divide "
            "the hidden size where no head size is given, KV heads that divide the heads"
        )
    shape = replace(shape, head_size=shape.head_size or shape.hidden // shape.heads)
    block = block_size(kind_of(options.type, "attn_q"))
    uneven = [size for size in (shape.hidden, shape.feed_forward, shape.heads * shape.head_size) if size % block]
    if uneven:
        parser.error(f"found rows of {uneven[0]} weights, expected a multiple of {block}, the block of {options.type}")
    reader = gguf.GGUFReader(options.tokenizer)
    vocabulary = len(reader.fields["tokenizer.ggml.tokens"].contents())

    with AtomicPath(options.out) as path:
        writer = gguf.GGUFWriter(path, "qwen3moe" if shape.experts else "llama")
        writer.add_name(f"dummy {options.shape}")
        add_shape(writer, shape)
        writer.add_vocab_size(vocabulary)
        writer.add_file_type(gguf.LlamaFileType[f"MOSTLY_{FILE_TYPES[options.type].upper()}"])
        copy_fields(reader, writer, lambda key: key.startswith("tokenizer."))
        write_tensors(writer, tensors_of(shape, options.type, vocabulary))


if __name__ == "__main__":
    main()
