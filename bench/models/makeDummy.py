"""Writes a LLaMA-shaped GGUF file, or one of Qwen3-MoE's shape (30b-a3b), with random weights and the tokenizer of another GGUF file: for speed, not for text.

usage: makeDummy.py TOKENIZER.gguf OUT.gguf [--shape 7b|3b|1b|30b-a3b] [--type q4_0|q4_1|q8_0|f16] [--layers N --hidden N --feed-forward N --heads N --kv-heads N]

Every layer stands in the file with data of its own, so that nothing is read once for all; the data are the same, so that making 4 GB takes
as long as writing them. Weights have a standard deviation of about 1.4 / sqrt(inputs): activations stay finite over all layers.
needs: pip install -r bench/models/requirements.txt
"""

import argparse

import gguf
import numpy as np

from ggufCopy import FILE_TYPES, TENSOR_TYPES, AtomicPath, copy_fields, write_tensors

# layers, hidden size, feed-forward size, heads, KV heads: LLaMA-2-7B, OpenLLaMA-3B, TinyLlama-1.1B
SHAPES = {"7b": (32, 4096, 11008, 32, 32), "3b": (26, 3200, 8640, 32, 32), "1b": (22, 2048, 5632, 32, 4), "30b-a3b": (48, 2048, 768, 32, 4)}
# Of a shape with a mixture of experts: their number, those of a token, the size of a head, which is none of the hidden size.
EXPERTS = {"30b-a3b": (128, 8, 128)}
BLOCK = 32


def blocks(rng, kind, rows, columns):
    """Random rows in the type's own bytes: blocks of 32 weights with a scale (and a minimum)."""
    count, scale = rows * columns // BLOCK, 0.3 / np.sqrt(columns)
    if kind == "f16":
        return (rng.standard_normal((rows, columns), np.float32) * 1.4 / np.sqrt(columns)).astype(np.float16)
    if kind == "q8_0":
        parts = [np.full(count, scale / 16, np.float16), rng.integers(-127, 128, (count, BLOCK), np.int8)]
    elif kind == "q4_0":
        parts = [np.full(count, scale, np.float16), rng.integers(0, 256, (count, BLOCK // 2), np.uint8)]
    else:
        parts = [np.full(count, scale, np.float16), np.full(count, -7.5 * scale, np.float16), rng.integers(0, 256, (count, BLOCK // 2), np.uint8)]
    return np.concatenate([part.reshape(count, -1).view(np.uint8) for part in parts], axis=1).reshape(rows, -1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer")
    parser.add_argument("out")
    parser.add_argument("--shape", choices=SHAPES, default="7b")
    parser.add_argument("--type", choices=[name for name in FILE_TYPES if name != "bf16"], default="q4_0")
    for name in ("layers", "hidden", "feed-forward", "heads", "kv-heads"):
        parser.add_argument(f"--{name}", type=int)
    options = parser.parse_args()
    given = (options.layers, options.hidden, options.feed_forward, options.heads, options.kv_heads)
    layers, hidden, feed_forward, heads, kv_heads = [chosen or usual for chosen, usual in zip(given, SHAPES[options.shape])]
    if min(layers, hidden, feed_forward, heads, kv_heads) < 1 or hidden % heads or heads % kv_heads or hidden % BLOCK or feed_forward % BLOCK:
        parser.error(f"found {hidden} hidden, {feed_forward} feed-forward, {heads} heads, {kv_heads} KV heads; expected multiples of {BLOCK}, heads that divide the hidden size, KV heads that divide the heads")
    reader = gguf.GGUFReader(options.tokenizer)
    vocabulary = len(reader.fields["tokenizer.ggml.tokens"].contents())
    experts, per_token, head_size = EXPERTS.get(options.shape, (0, 0, hidden // heads))
    query_size, kv_size = heads * head_size, kv_heads * head_size

    kind, rng = options.type, np.random.default_rng(1)
    shapes = {
        "attn_q": (query_size, hidden), "attn_k": (kv_size, hidden), "attn_v": (kv_size, hidden), "attn_output": (hidden, query_size),
        "ffn_gate": (feed_forward, hidden), "ffn_up": (feed_forward, hidden), "ffn_down": (hidden, feed_forward),
    }
    arrays = {name: blocks(rng, kind, *shape) for name, shape in shapes.items()}
    table = blocks(rng, kind, vocabulary, hidden)
    ones = np.ones(hidden, np.float32)

    def weight(name, array, copies=()):
        shape = (*copies, *array.shape)
        return name, shape, array.dtype, array.nbytes * int(np.prod(copies)), TENSOR_TYPES[kind], lambda: np.tile(array, (*copies, 1, 1)) if copies else array

    def floats(name, array):
        return name, array.shape, array.dtype, array.nbytes, None, lambda: array

    tensors = [weight("token_embd.weight", table), weight("output.weight", table), floats("output_norm.weight", ones)]
    for layer in range(layers):
        for name, array in arrays.items():
            # All experts of a layer are alike, as all layers are; which of them a token goes to differs.
            of_experts = experts > 0 and name.startswith("ffn_")
            tensors.append(weight(f"blk.{layer}.{name}{'_exps' if of_experts else ''}.weight", array, (experts,) if of_experts else ()))
        tensors += [floats(f"blk.{layer}.{name}.weight", ones) for name in ("attn_norm", "ffn_norm")]
        if experts:
            tensors += [floats(f"blk.{layer}.{name}.weight", np.ones(head_size, np.float32)) for name in ("attn_q_norm", "attn_k_norm")]
            tensors.append(floats(f"blk.{layer}.ffn_gate_inp.weight", rng.standard_normal((experts, hidden), np.float32) / np.float32(np.sqrt(hidden))))

    with AtomicPath(options.out) as path:
        writer = gguf.GGUFWriter(path, "qwen3moe" if experts else "llama")
        writer.add_name(f"dummy {options.shape}")
        writer.add_context_length(4096)
        writer.add_embedding_length(hidden)
        writer.add_block_count(layers)
        writer.add_feed_forward_length(feed_forward)
        writer.add_head_count(heads)
        writer.add_head_count_kv(kv_heads)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_dimension_count(head_size)
        if experts:
            writer.add_key_length(head_size)
            writer.add_value_length(head_size)
            writer.add_expert_count(experts)
            writer.add_expert_used_count(per_token)
            writer.add_expert_feed_forward_length(feed_forward)
        writer.add_rope_freq_base(10000.0)
        writer.add_vocab_size(vocabulary)
        writer.add_file_type(FILE_TYPES[kind])
        copy_fields(reader, writer, lambda key: key.startswith("tokenizer."))
        write_tensors(writer, tensors)


if __name__ == "__main__":
    main()
