"""One run of OpenVINO GenAI with its prefix cache. Usage: runOpenvino.py JOB (JSON: model, a GGUF file; prompts, rows, maxNewTokens, threads)

The first row goes first, by itself: rows that come all at once find an empty cache. Of a tree that helps the first branch alone, so what it shows there is what it makes of
rows as they are handed over, not the most that its cache could do.
"""
import json
import sys
import time

import openvino_genai as genai

job = json.loads(sys.argv[1])
prompts = [json.loads(line)["prompt"] for line in open(job["prompts"])][: job.get("rows")]
scheduler = genai.SchedulerConfig()
scheduler.max_num_batched_tokens, scheduler.max_num_seqs, scheduler.enable_prefix_caching = 512, 128, True
pipeline = genai.LLMPipeline(job["model"], "CPU", scheduler_config=scheduler, INFERENCE_NUM_THREADS=job["threads"])
config = genai.GenerationConfig()
config.max_new_tokens, config.ignore_eos, config.do_sample, config.apply_chat_template = job["maxNewTokens"], True, False, False
pipeline.generate(["Warm up, please."] * 2, config)
began = time.time()
for part in [prompts[:1], prompts[1:]]:
    pipeline.generate(part, config)
print(json.dumps({"rows": len(prompts), "seconds": time.time() - began}))
