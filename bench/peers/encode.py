"""One run of an engine that embeds texts, for bench/encoders.mjs:
    python encode.py '{"peer": ..., "model": FOLDER, "texts": FILE, "out": FILE, "batchSize": N, "threads": N, "cache": FOLDER}'

`peer`: torch-float32 and torch-bfloat16 (sentence-transformers), onnxruntime-float32, onnxruntime-int8 (quantize_dynamic),
openvino (as it is opened, from the same ONNX file), fastembed (the package, with that file as a model of one's own).
Writes the embeddings as float32 to `out`, and prints seconds, and those of processors, without those of opening, which a
few texts end.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path

job = json.loads(sys.argv[1])
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = str(job["threads"])
import numpy as np  # noqa: E402

peer, folder, size = job["peer"], Path(job["model"]), job["batchSize"]
texts = json.loads(Path(job["texts"]).read_text())
settings = folder / "sentence_bert_config.json"
longest = json.loads(settings.read_text())["max_seq_length"] if settings.exists() else 512


def by_length(some):
    return sorted(range(len(some)), key=lambda at: len(some[at]))


def by_sentence_transformers():
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(job["threads"])
    dtype = torch.bfloat16 if peer.endswith("bfloat16") else torch.float32
    model = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": dtype})
    # It sorts by length itself.
    return lambda some: model.encode(some, batch_size=size, normalize_embeddings=True, show_progress_bar=False)


def exported():
    """The hidden states as an ONNX file, made once."""
    file = Path(job["cache"]) / f"{folder.name}.onnx"
    if file.exists():
        return file
    import torch
    from transformers import AutoModel

    class States(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()

        def forward(self, input_ids, attention_mask, token_type_ids):
            return self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).last_hidden_state

    ones = torch.ones(2, 8, dtype=torch.long)
    names = ["input_ids", "attention_mask", "token_type_ids"]
    axes = {name: {0: "batch", 1: "tokens"} for name in [*names, "states"]}
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(States(), (ones, ones, ones * 0), str(file), input_names=names, output_names=["states"], dynamic_axes=axes, dynamo=False)
    return file


def quantised():
    from onnxruntime.quantization import quantize_dynamic

    file = Path(job["cache"]) / f"{folder.name}-int8.onnx"
    if not file.exists():
        quantize_dynamic(str(exported()), str(file))
    return file


def by_onnxruntime(file):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = job["threads"]
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(["states"], inputs)[0]


def by_openvino():
    import openvino

    core = openvino.Core()
    compiled = core.compile_model(core.read_model(str(exported())), "CPU", {"PERFORMANCE_HINT": "THROUGHPUT", "INFERENCE_NUM_THREADS": job["threads"]})
    return lambda inputs: compiled(inputs)[0]


def by_fastembed():
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    # It takes the longest text from the tokenizer's configuration, where sentence-transformers has a file of its own.
    local = Path(job["cache"]) / f"{folder.name}-fastembed"
    local.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "tokenizer.json", "special_tokens_map.json"):
        shutil.copy(folder / name, local)
    configured = json.loads((folder / "tokenizer_config.json").read_text())
    (local / "tokenizer_config.json").write_text(json.dumps({**configured, "model_max_length": longest, "max_length": longest}))
    shutil.copy(exported(), local / "model.onnx")
    width = json.loads((folder / "config.json").read_text())["hidden_size"]
    TextEmbedding.add_custom_model("local", PoolingType.MEAN, True, ModelSource(hf="local/local"), width, "model.onnx")
    model = TextEmbedding("local", specific_model_path=str(local), threads=job["threads"])

    def encode(some):
        made, order = [None] * len(some), by_length(some)
        for at, row in zip(order, model.embed([some[at] for at in order], batch_size=size)):
            made[at] = row
        return np.stack(made)

    return encode


def pooled(states_of):
    """Batches of texts, padded to the longest of each, and means of their states."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(longest)
    tokenizer.enable_padding()

    def encode(some):
        order = by_length(some)
        made = [None] * len(some)
        for first in range(0, len(order), size):
            batch = order[first : first + size]
            encodings = tokenizer.encode_batch([some[at] for at in batch])
            inputs = {
                "input_ids": np.array([each.ids for each in encodings], np.int64),
                "attention_mask": np.array([each.attention_mask for each in encodings], np.int64),
                "token_type_ids": np.array([each.type_ids for each in encodings], np.int64),
            }
            mask = inputs["attention_mask"][:, :, None].astype(np.float32)
            means = (states_of(inputs) * mask).sum(1) / mask.sum(1)
            means /= np.linalg.norm(means, axis=1, keepdims=True)
            for at, row in zip(batch, means):
                made[at] = row
        return np.stack(made)

    return encode


MAKERS = {
    "torch-float32": by_sentence_transformers,
    "torch-bfloat16": by_sentence_transformers,
    "onnxruntime-float32": lambda: pooled(by_onnxruntime(exported())),
    "onnxruntime-int8": lambda: pooled(by_onnxruntime(quantised())),
    "openvino": lambda: pooled(by_openvino()),
    "fastembed": by_fastembed,
}

opening = time.monotonic()
encode = MAKERS[peer]()
encode(texts[:4])
start, used = time.monotonic(), time.process_time()
embeddings = encode(texts)
end, spent = time.monotonic(), time.process_time() - used
np.asarray(embeddings, dtype=np.float32).tofile(job["out"])
print(json.dumps({"seconds": end - start, "openSeconds": start - opening, "cpuSeconds": spent}))
