"""One run of Hugging Face transformers on torch's CPU backend: left-padded batches sorted by length, greedy, the GGUF file's weights dequantised.

Started by bench/peers.mjs with the job as its only argument, see workload.mjs. `setting`: {"dtype": "float32" | "bfloat16", "batchSize": rows}.
"""

import json
import os
import resource
import sys
import time

import torch
import transformers

job = json.loads(sys.argv[1])
setting = job["setting"]
torch.set_num_threads(job["threads"])
torch.set_grad_enabled(False)

opening = time.monotonic()
folder, name = os.path.split(os.path.abspath(job["model"]))
model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=getattr(torch, setting["dtype"]), attn_implementation="sdpa").eval()
with open(job["prompts"], encoding="utf-8") as file:
    rows = [json.loads(line)["tokens"] for line in file][: job["rows"]]

start = time.monotonic()
# Rows of like length share a batch: less padding.
order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
outputs = [[] for _ in rows]
for first in range(0, len(order), setting["batchSize"]):
    batch = order[first : first + setting["batchSize"]]
    width = max(len(rows[row]) for row in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for at, row in enumerate(batch):
        ids[at, width - len(rows[row]) :] = torch.tensor(rows[row])
        mask[at, width - len(rows[row]) :] = 1
    made = model.generate(
        input_ids=ids, attention_mask=mask, max_new_tokens=job["maxNewTokens"], min_new_tokens=job["maxNewTokens"], do_sample=False, repetition_penalty=1.0, pad_token_id=0
    )
    for at, row in enumerate(batch):
        outputs[row] = made[at, width:].tolist()
seconds = time.monotonic() - start

short = [row for row, tokens in enumerate(outputs) if len(tokens) != job["maxNewTokens"]]
if short:
    sys.exit(f"row {short[0]} has {len(outputs[short[0]])} new tokens, expected {job['maxNewTokens']}: the runs would not compare")
if "tokensFile" in job:
    with open(job["tokensFile"], "w", encoding="utf-8") as file:
        json.dump(outputs, file)
prompted, generated = sum(map(len, rows)), sum(map(len, outputs))
print(json.dumps({
    "version": f"{transformers.__version__}, torch {torch.__version__}", "settings": {**setting, "threads": torch.get_num_threads()}, "stopped": False,
    "loadSeconds": start - opening, "seconds": seconds, "rows": len(rows), "promptTokens": prompted, "generatedTokens": generated,
    "generatedTokensPerSecond": generated / seconds, "promptTokensPerSecond": prompted / seconds,
    "peakResidentBytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
}))
