"""Writes GGUF files of random weights of a Q4_K_M's types whose layers mix tokens in several ways, each of the shape of a
family's model, with fewer layers where that is large: for speed, not for text.

usage: makeMixers.py FOLDER [name ...]
names: llama, delta-rule, state-space, short-convolution, sliding-window, latent
needs: pip install -r bench/models/requirements.txt
"""

import sys
from pathlib import Path

import gguf
import numpy as np

from makeDummy import kind_of
from randomBlocks import KINDS, random_matrix

VOCABULARY = 32768


def attention(heads, kv_heads, size, hidden, normed=False):
    matrices = {"attn_q": (heads * size, hidden), "attn_k": (kv_heads * size, hidden), "attn_v": (kv_heads * size, hidden), "attn_output": (hidden, heads * size)}
    return matrices, {"attn_q_norm": size, "attn_k_norm": size} if normed else {}


def gated(hidden, inner):
    return {"ffn_gate": (inner, hidden), "ffn_up": (inner, hidden), "ffn_down": (hidden, inner)}


def common(layers, hidden, inner, heads, kv_heads, size, **more):
    return {
        "context_length": 8192, "embedding_length": hidden, "block_count": layers, "feed_forward_length": inner, "attention.head_count": heads,
        "attention.head_count_kv": kv_heads, "attention.key_length": size, "attention.value_length": size, "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 1e6, "rope.dimension_count": size, **more,
    }


def llama():  # Llama-3.2-1B
    hidden, inner, layers = 2048, 8192, 16
    mixer, _ = attention(32, 8, 64, hidden)
    norms = {"attn_norm": hidden, "ffn_norm": hidden}
    return "llama", common(layers, hidden, inner, 32, 8, 64), [(mixer | gated(hidden, inner), norms)] * layers


def sliding_window():  # Gemma-3-4b, 10 of its 34 layers
    hidden, inner, layers = 2560, 10240, 10
    mixer, norms = attention(8, 4, 256, hidden, normed=True)
    norms |= {name: hidden for name in ("attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm")}
    facts = common(layers, hidden, inner, 8, 4, 256) | {"attention.sliding_window": 1024}
    return "gemma3", facts, [(mixer | gated(hidden, inner), norms)] * layers


def delta_rule():  # Qwen3.5-0.8B
    hidden, inner, layers, heads, size = 1024, 3584, 24, 16, 128
    values = heads * size
    own, own_norms = attention(8, 2, 256, hidden, normed=True)
    own["attn_q"] = (2 * own["attn_q"][0], hidden)
    mixed = {"attn_qkv": (3 * values, hidden), "attn_gate": (values, hidden), "ssm_beta": (heads, hidden), "ssm_alpha": (heads, hidden), "ssm_out": (hidden, values)}
    vectors = {"ssm_conv1d": (3 * values, 4), "ssm_a": heads, "ssm_dt.bias": heads, "ssm_norm": size}
    norms = {"attn_norm": hidden, "post_attention_norm": hidden}
    block = gated(hidden, inner)
    facts = common(
        layers, hidden, inner, 8, 2, 256,
        **{"ssm.conv_kernel": 4, "ssm.state_size": size, "ssm.group_count": heads, "ssm.time_step_rank": heads, "ssm.inner_size": values, "full_attention_interval": 4},
    ) | {"rope.dimension_count": 64, "rope.dimension_sections": [11, 11, 10, 0], "attention.recurrent_layers": [layer % 4 != 3 for layer in range(layers)]}
    return "qwen35", facts, [(own | block, own_norms | norms) if layer % 4 == 3 else (mixed | block, vectors | norms) for layer in range(layers)]


def state_space():  # granite-4.0-h-1b
    hidden, inner, layers, heads, size, state = 1536, 4096, 40, 48, 64, 128
    values = heads * size
    convolved = values + 2 * state
    own, _ = attention(12, 4, 128, hidden)
    mixed = {"ssm_in": (values + convolved + heads, hidden), "ssm_out": (hidden, values)}
    vectors = {"ssm_conv1d": (convolved, 4), "ssm_conv1d.bias": convolved, "ssm_a": (heads, 1), "ssm_d": (heads, 1), "ssm_dt.bias": heads, "ssm_norm": (1, values)}
    norms = {"attn_norm": hidden, "ffn_norm": hidden}
    attends = [layer in (5, 15, 25, 35) for layer in range(layers)]
    facts = common(
        layers, hidden, inner, 12, 4, 128, **{"ssm.conv_kernel": 4, "ssm.state_size": state, "ssm.group_count": 1, "ssm.time_step_rank": heads, "ssm.inner_size": values},
    ) | {"attention.head_count_kv": [4 if each else 0 for each in attends], "rope.scaling.finetuned": False}
    block = gated(hidden, inner)
    return "granitehybrid", facts, [(own | block, norms) if each else (mixed | block, vectors | norms) for each in attends]


def short_convolution():  # LFM2-1.2B
    hidden, inner, layers = 2048, 8192, 16
    own, own_norms = attention(32, 8, 64, hidden, normed=True)
    mixed = {"shortconv.in_proj": (3 * hidden, hidden), "shortconv.out_proj": (hidden, hidden)}
    norms = {"attn_norm": hidden, "ffn_norm": hidden}
    attends = [layer in (2, 5, 8, 10, 12, 14) for layer in range(layers)]
    facts = common(layers, hidden, inner, 32, 8, 64, **{"shortconv.l_cache": 3}) | {"attention.head_count_kv": [8 if each else 0 for each in attends]}
    block = gated(hidden, inner)
    return "lfm2", facts, [(own | block, own_norms | norms) if each else (mixed | block, {"shortconv.conv": (hidden, 3)} | norms) for each in attends]


def latent():  # MiniCPM3-4B, 20 of its 62 layers
    hidden, inner, layers, heads, rank, queries, rotated, plain, value = 2560, 6400, 20, 40, 256, 768, 32, 64, 64
    mixed = {
        "attn_q_a": (queries, hidden), "attn_q_b": (heads * (plain + rotated), queries), "attn_kv_a_mqa": (rank + rotated, hidden),
        "attn_kv_b": (heads * (plain + value), rank), "attn_output": (hidden, heads * value),
    }
    norms = {"attn_norm": hidden, "ffn_norm": hidden, "attn_q_a_norm": queries, "attn_kv_a_norm": rank}
    facts = common(layers, hidden, inner, heads, heads, plain + rotated, **{"attention.q_lora_rank": queries, "attention.kv_lora_rank": rank}) | {
        "attention.value_length": value, "rope.dimension_count": rotated,
    }
    return "minicpm3", facts, [(mixed | gated(hidden, inner), norms)] * layers


MODELS = {"llama": llama, "delta-rule": delta_rule, "state-space": state_space, "short-convolution": short_convolution, "sliding-window": sliding_window, "latent": latent}


def write(path, architecture, facts, layers):
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_array("tokenizer.ggml.tokens", [f"t{token}" for token in range(VOCABULARY)])
    for key, value in facts.items():
        add = writer.add_array if isinstance(value, list) else writer.add_bool if isinstance(value, bool) else writer.add_float32 if isinstance(value, float) else writer.add_uint32
        add(f"{architecture}.{key}", value)
    rng = np.random.default_rng(1)
    made = {}

    def matrix(name, kind, rows, columns):
        # Rows that are no whole blocks have others, as llama.cpp makes them; what is turned has 16 bits.
        kind = "f16" if name.endswith("attn_kv_b.weight") else kind if columns % 256 == 0 else "q8_0"
        if (kind, rows, columns) not in made:
            made[kind, rows, columns] = random_matrix(rng, kind, rows, columns)
        writer.add_tensor(name, made[kind, rows, columns], raw_dtype=KINDS[kind])

    hidden = facts["embedding_length"]
    matrix("token_embd.weight", "q4_k", VOCABULARY, hidden)
    matrix("output.weight", "q6_k", VOCABULARY, hidden)
    writer.add_tensor("token_embd_norm.weight" if architecture == "lfm2" else "output_norm.weight", np.ones(hidden, np.float32))
    for number, (matrices, vectors) in enumerate(layers):
        for name, (rows, columns) in matrices.items():
            matrix(f"blk.{number}.{name}.weight", kind_of("q4_k_m", name, number, len(layers)), rows, columns)
        for name, shape in vectors.items():
            value = -0.5 if name == "ssm_a" else 0.3
            suffix = "" if name in ("ssm_a", "ssm_d") or name.endswith(".bias") else ".weight"
            writer.add_tensor(f"blk.{number}.{name}{suffix}", np.full(shape, 1.0 if "norm" in name else value, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(folder, *names):
    for name in names or MODELS:
        path = Path(folder) / f"{name}.gguf"
        if not path.exists():
            write(path, *MODELS[name]())


if __name__ == "__main__":
    main(*sys.argv[1:])
