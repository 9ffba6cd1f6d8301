"""Writes a BERT of sentence-transformers as a GGUF file, as llama.cpp's converter does, for bench/encoders.mjs --gguf:
    python encoderGguf.py MODEL OUT.gguf

Needs gguf, safetensors and tokenizers. Matrices have 16 bits, embeddings of positions and types 32.
"""

import json
import sys
from pathlib import Path

import gguf
import numpy as np
from safetensors import safe_open
from tokenizers import Tokenizer

model, out = Path(sys.argv[1]), sys.argv[2]
config = json.loads((model / "config.json").read_text())
NAMES = {
    "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
}

writer = gguf.GGUFWriter(out, "bert")
writer.add_name(model.name)
writer.add_block_count(config["num_hidden_layers"])
writer.add_context_length(config["max_position_embeddings"])
writer.add_embedding_length(config["hidden_size"])
writer.add_feed_forward_length(config["intermediate_size"])
writer.add_head_count(config["num_attention_heads"])
writer.add_layer_norm_eps(config["layer_norm_eps"])
writer.add_causal_attention(False)
writer.add_pooling_type(gguf.PoolingType.MEAN)
writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)

pieces = sorted(Tokenizer.from_file(str(model / "tokenizer.json")).get_vocab().items(), key=lambda each: each[1])
special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
ids = dict(pieces)
writer.add_tokenizer_model("bert")
writer.add_tokenizer_pre("jina-v2-en")
writer.add_token_list([piece if piece in special else piece[2:] if piece.startswith("##") else "\u2581" + piece for piece, _ in pieces])
writer.add_token_types([gguf.TokenType.CONTROL if piece in special else gguf.TokenType.NORMAL for piece, _ in pieces])
writer.add_token_type_count(config["type_vocab_size"])
for key, piece in (("cls", "[CLS]"), ("bos", "[CLS]"), ("seperator", "[SEP]"), ("eos", "[SEP]"), ("unknown", "[UNK]"), ("padding", "[PAD]"), ("mask", "[MASK]")):
    writer.add_uint32(f"tokenizer.ggml.{key}_token_id", ids[piece])

with safe_open(model / "model.safetensors", "np") as file:
    for full in file.keys():
        stem, part = full.removeprefix("bert.").rsplit(".", 1)
        path = stem.split(".")
        layer = next((i for i, each in enumerate(path) if each.isdigit()), None)
        name = NAMES.get(stem if layer is None else ".".join(path[layer + 1 :]))
        if name is None:
            continue
        target = f"{name}.{part}" if layer is None else f"blk.{path[layer]}.{name}.{part}"
        values = file.get_tensor(full).astype(np.float32)
        halves = values.ndim == 2 and name not in ("position_embd", "token_types")
        writer.add_tensor(target, values.astype(np.float16) if halves else values)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
