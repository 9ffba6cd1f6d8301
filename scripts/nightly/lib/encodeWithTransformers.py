"""Embeddings of texts by transformers, in float32: python encodeWithTransformers.py FOLDER < ["text", ...]

FOLDER is one of sentence-transformers whose embeddings are means of hidden states, of length 1. Prints a list of lists.
"""
import json
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import torch  # noqa: E402
from transformers import AutoModel, AutoTokenizer  # noqa: E402

folder = Path(sys.argv[1])
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
settings = folder / "sentence_bert_config.json"
longest = json.loads(settings.read_text())["max_seq_length"] if settings.exists() else 512
texts = json.load(sys.stdin)
order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
embeddings = [None] * len(texts)
with torch.no_grad():
    for first in range(0, len(order), 32):
        batch = order[first : first + 32]
        inputs = tokenizer([texts[at] for at in batch], padding=True, truncation=True, max_length=longest, return_tensors="pt")
        mask = inputs["attention_mask"].unsqueeze(-1)
        states = (model(**inputs).last_hidden_state * mask).sum(1) / mask.sum(1)
        for at, row in zip(batch, torch.nn.functional.normalize(states).tolist()):
            embeddings[at] = [round(each, 8) for each in row]
print(json.dumps(embeddings))
