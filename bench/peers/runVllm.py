"""One run of vLLM on the CPU with its prefix cache. Usage: runVllm.py JOB (JSON: hfFolder; prompts, rows, maxNewTokens, threads; dtype, default bfloat16)

The first row goes first, by itself, as with every tool that keeps prefixes as rows end: of rows that come all at once each of the first step's computes all of its own.
"""
import json
import os
import sys
import time

if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    defaults = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_CPU_OMP_THREADS_BIND": f"0-{job['threads'] - 1}", "VLLM_NO_USAGE_STATS": "1"}
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    from vllm import LLM, SamplingParams

    prompts = [json.loads(line)["prompt"] for line in open(job["prompts"])][: job.get("rows")]
    model = LLM(model=job["hfFolder"], dtype=job.get("dtype", "bfloat16"), max_num_seqs=128, max_num_batched_tokens=2048, max_model_len=4096, enable_prefix_caching=True, disable_log_stats=True)
    sampling = SamplingParams(temperature=0, max_tokens=job["maxNewTokens"], ignore_eos=True)
    model.generate(["Warm up, please."] * 8, sampling, use_tqdm=False)
    began = time.time()
    for part in [prompts[:1], prompts[1:]]:
        model.generate(part, sampling, use_tqdm=False)
    print(json.dumps({"rows": len(prompts), "seconds": time.time() - began}))
