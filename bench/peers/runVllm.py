"""One run of vLLM on the CPU, compiled, greedy, with the file's weights as makeHfFolder.py dequantises them.

Started by the benchmarks with the job as its only argument, see workload.mjs; `hfFolder` of the job is the model.
`setting`: {"dtype": "bfloat16" | "float32", "sequences": rows at a time, "batchedTokens": of a step,
"prefixCaching"?: true}. What VLLM_… says in the environment counts.
"""

import os
import signal
import sys
import time
from pathlib import Path

BYTES_OF = {"bfloat16": 2, "float32": 4}


def prepare(threads):
    """The environment of its processes, before it is imported."""
    defaults = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_OMP_THREADS_BIND": f"0-{threads - 1}", "VLLM_NO_USAGE_STATS": "1"}
    for name, value in {**defaults, "VLLM_LOGGING_LEVEL": "WARNING"}.items():
        os.environ.setdefault(name, value)
    # As its manual wants it for speed; pip puts it there.
    openmp = Path(sys.prefix, "lib/libiomp5.so")
    if openmp.exists():
        os.environ.setdefault("LD_PRELOAD", str(openmp))
    # A run that is stopped takes its processes along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


# Its processes read this file again.
if __name__ == "__main__":
    from workload import cache_bytes, is_late, job, new_tokens, parts, report, rows, setting

    prepare(job["threads"])
    import vllm
    from vllm.sampling_params import RequestOutputKind

    weights = sum(file.stat().st_size for file in Path(job["hfFolder"]).glob("*.safetensors"))
    element = BYTES_OF[setting["dtype"]]

    opening = time.monotonic()
    model = vllm.LLM(
        model=job["hfFolder"], dtype=setting["dtype"], skip_tokenizer_init=True, disable_log_stats=True,
        max_num_seqs=setting["sequences"], max_num_batched_tokens=setting["batchedTokens"],
        max_model_len=max(map(len, rows)) + new_tokens, enable_prefix_caching=setting.get("prefixCaching", False),
        kv_cache_memory_bytes=cache_bytes(element, weights * element // 2),
    )
    engine = model.llm_engine

    def sampling(count):
        kind = RequestOutputKind.DELTA
        return vllm.SamplingParams(
            temperature=0, max_tokens=count, ignore_eos=True, detokenize=False, output_kind=kind
        )

    def generate(name, prompts, count, late):
        """As `LLM.generate`, but what was made when time is up is known."""
        for at, prompt in enumerate(prompts):
            engine.add_request(f"{name}-{at}", {"prompt_token_ids": prompt}, sampling(count))
        made = {f"{name}-{at}": [] for at in range(len(prompts))}
        while engine.has_unfinished_requests() and not late():
            for output in engine.step():
                made[output.request_id] += output.outputs[0].token_ids
        return list(made.values())

    generate("warm", [[1, 2, 3, 4]] * 8, 4, lambda: False)
    start = time.monotonic()
    tokens = []
    for at, part in enumerate(parts):
        tokens += generate(at, part, new_tokens, lambda: is_late(start))
    end = time.monotonic()
    stopped = engine.has_unfinished_requests()
    # Its processes end before they are counted.
    engine.engine_core.shutdown()
    report(vllm.__version__, opening, start, end, tokens, {**setting, "threads": job["threads"]}, stopped)
