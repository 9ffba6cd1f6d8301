"""The perplexity of a model as vLLM computes it on the CPU, on the windows of tokens that bench/accuracy.mjs scores.

usage: perplexityVllm.py JOB.json OUT.json. The job: {"hfFolder", "dtype", "threads", "windows": lists of tokens,
"promptTokens": so many of each are given and not scored}. The result: {"scored", "negativeLogLikelihood", "version"}.
"""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "peers"))
from runVllm import prepare  # noqa: E402

# Of a step: the scores of so many tokens over the whole vocabulary are in memory at once.
TOKENS_AT_ONCE = 256

# Its processes read this file again.
if __name__ == "__main__":
    job = json.loads(Path(sys.argv[1]).read_text())
    prepare(job["threads"])
    import vllm

    windows, given = job["windows"], job["promptTokens"]
    model = vllm.LLM(
        model=job["hfFolder"], dtype=job["dtype"], skip_tokenizer_init=True, disable_log_stats=True,
        max_num_seqs=1, max_num_batched_tokens=TOKENS_AT_ONCE, enable_prefix_caching=False,
        max_model_len=max(map(len, windows)) + 1, kv_cache_memory_bytes=2**30,
    )
    sampling = vllm.SamplingParams(temperature=0, max_tokens=1, ignore_eos=True, detokenize=False, prompt_logprobs=0)
    outputs = model.generate([{"prompt_token_ids": window} for window in windows], sampling, use_tqdm=False)
    scores = [
        -output.prompt_logprobs[at][token].logprob
        for window, output in zip(windows, outputs, strict=True)
        for at, token in enumerate(window)
        if at >= given
    ]
    result = {"scored": len(scores), "negativeLogLikelihood": sum(scores), "version": vllm.__version__}
    Path(sys.argv[2]).write_text(json.dumps(result))
    model.llm_engine.engine_core.shutdown()
