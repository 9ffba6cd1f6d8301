"""Embeddings of token ids by transformers, in float32: python embedWithTransformers.py MODEL.gguf < [[id, ...], ...]

Prints a list with an object {last, mean, cls} for each row, of length 1 each.
"""
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import torch  # noqa: E402
from transformers import AutoModel  # noqa: E402

folder, name = os.path.split(sys.argv[1])
model = AutoModel.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
embeddings = []
with torch.no_grad():
    for tokens in json.load(sys.stdin):
        hidden = model(torch.tensor([tokens])).last_hidden_state[0]
        pooled = {"last": hidden[-1], "mean": hidden.mean(0), "cls": hidden[0]}
        embeddings.append({pooling: torch.nn.functional.normalize(states, dim=0).tolist() for pooling, states in pooled.items()})
print(json.dumps(embeddings))
