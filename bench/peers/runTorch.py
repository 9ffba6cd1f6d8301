"""One run of Hugging Face transformers on torch's CPU backend: left-padded batches sorted by length, greedy, the GGUF
file's weights dequantised.

Started by bench/peers.mjs with the job as its only argument, see workload.mjs.
`setting`: {"dtype": "float32" | "bfloat16", "batchSize": rows}.
"""

import os
import time

import torch
import transformers
from workload import is_late, job, new_tokens, report, rows, setting

torch.set_num_threads(job["threads"])
torch.set_grad_enabled(False)

opening = time.monotonic()
folder, name = os.path.split(os.path.abspath(job["model"]))
model = transformers.AutoModelForCausalLM.from_pretrained(
    folder, gguf_file=name, dtype=getattr(torch, setting["dtype"]), attn_implementation="sdpa"
).eval()

start = time.monotonic()
# Rows of like length share a batch: less padding.
order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
outputs = [[] for _ in rows]
for first in range(0, len(order), setting["batchSize"]):
    if is_late(start):
        break
    batch = order[first : first + setting["batchSize"]]
    width = max(len(rows[row]) for row in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for at, row in enumerate(batch):
        ids[at, width - len(rows[row]) :] = torch.tensor(rows[row])
        mask[at, width - len(rows[row]) :] = 1
    made = model.generate(
        input_ids=ids, attention_mask=mask, max_new_tokens=new_tokens, min_new_tokens=new_tokens, do_sample=False,
        repetition_penalty=1.0, pad_token_id=0,
    )
    for at, row in enumerate(batch):
        outputs[row] = made[at, width:].tolist()
end = time.monotonic()
version = f"{transformers.__version__}, torch {torch.__version__}"
stopped = not all(outputs)
report(version, opening, start, end, outputs, {**setting, "threads": torch.get_num_threads()}, stopped)
