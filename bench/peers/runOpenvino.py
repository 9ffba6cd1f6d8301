"""One run of OpenVINO GenAI: continuous batching, greedy.

Started by the benchmarks with the job as its only argument, see workload.mjs; `irFolder` of the job is the model, which
makeOpenvino.py has made. Without, it reads the GGUF file itself.
`setting`: {"sequences": rows at a time, "batchedTokens": of a step, "prefixCaching"?: true}.
"""

import os
import time

import numpy as np
import openvino
import openvino_genai as genai
from workload import cache_bytes, is_late, job, new_tokens, parts, report, rows, setting

GIB = 2**30
# Its cache has 8 bits an element, and a scale and a zero point for each head.
BYTES_OF_ELEMENT = 1.25


def generation(count):
    config = genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos, config.do_sample = count, True, False
    return config


def hand_over(pipeline, prompts, config):
    tensors = [openvino.Tensor(np.array([prompt], np.int64)) for prompt in prompts]
    return [pipeline.add_request(at, tensor, config) for at, tensor in enumerate(tensors)]


def new_of(handle):
    """The tokens that have come since it was asked last."""
    made = []
    while handle.can_read():
        for output in handle.read().values():
            made += output.generated_ids
    return made


source = job.get("irFolder", job["model"])
weights = os.path.join(source, "openvino_model.bin") if "irFolder" in job else source
scheduler = genai.SchedulerConfig()
scheduler.max_num_seqs, scheduler.max_num_batched_tokens = setting["sequences"], setting["batchedTokens"]
scheduler.enable_prefix_caching = setting.get("prefixCaching", False)
scheduler.cache_size = -(-cache_bytes(BYTES_OF_ELEMENT, 2 * os.path.getsize(weights)) // GIB)

opening = time.monotonic()
properties = {"INFERENCE_NUM_THREADS": job["threads"]}
pipeline = genai.ContinuousBatchingPipeline(source, scheduler, "CPU", properties)
warm = hand_over(pipeline, [[1, 2, 3, 4]] * 2, generation(4))
while pipeline.has_non_finished_requests():
    pipeline.step()

start = time.monotonic()
handles = []
for part in parts:
    handles += hand_over(pipeline, part, generation(new_tokens))
    while pipeline.has_non_finished_requests() and not is_late(start):
        pipeline.step()
end = time.monotonic()
stopped = pipeline.has_non_finished_requests()
tokens = [new_of(handle) for handle in handles]
settings = {**setting, "cacheGiB": scheduler.cache_size, "threads": job["threads"]}
report(genai.__version__.split("-")[0], opening, start, end, tokens, settings, stopped)
