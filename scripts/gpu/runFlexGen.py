"""One run of FlexGen with dummy weights, for flexgen.mjs: prints one line of JSON, with `notMeasured` and the reason where it cannot run.

usage: runFlexGen.py JSON      (model, layers, gpuBytes, promptTokens, newTokens, folder, batchSize, batches, percent, cpuAttention, overlap, compress)

Its own command line fetches a tokenizer; here the prompts are ids, and everything else is as there: a warm-up of one token, then the run that counts.
"""

import contextlib
import dataclasses
import importlib
import json
import os
import resource
import sys


def give_up(reason):
    print(json.dumps({"notMeasured": reason}), flush=True)
    # Its copying threads may not end.
    os._exit(0)


def load():
    """The package under either of its names."""
    try:
        import torch
    except ImportError as error:
        give_up(f"no torch: {error}")
    reasons = []
    for package in ("flexgen", "flexllmgen"):
        try:
            return torch, *(importlib.import_module(f"{package}.{name}") for name in ("flex_opt", "opt_config", "pytorch_backend", "compression", "timer", "utils"))
        except ImportError as error:
            reasons.append(str(error))
    give_up(f"no FlexGen: {'; '.join(reasons)}")


def main():
    job = json.loads(sys.argv[1])
    torch, flex_opt, opt_config, backend, compression, timer, utils = load()
    if not torch.cuda.is_available():
        give_up("torch finds no CUDA device")
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, job["gpuBytes"] / total))

    rows, prompt, new = job["batchSize"] * job["batches"], job["promptTokens"], job["newTokens"]
    config = dataclasses.replace(opt_config.get_opt_config(job["model"]), num_hidden_layers=job["layers"])
    gpu, cpu, disk = backend.TorchDevice("cuda:0"), backend.TorchDevice("cpu"), backend.TorchDisk(os.path.join(job["folder"], "flexgen"))
    env = utils.ExecutionEnv(gpu=gpu, cpu=cpu, disk=disk, mixed=backend.TorchMixedDevice([gpu, cpu, disk]))
    grouped = [compression.CompressionConfig(num_bits=4, group_size=64, group_dim=dimension, symmetric=False) for dimension in (0, 2)]
    policy = flex_opt.Policy(
        job["batchSize"], job["batches"], *job["percent"], overlap=job["overlap"], sep_layer=True, pin_weight=True, cpu_cache_compute=job["cpuAttention"], attn_sparsity=1.0,
        compress_weight=job["compress"], comp_weight_config=grouped[0], compress_cache=job["compress"], comp_cache_config=grouped[1],
    )
    inputs = [[4 + (row * 7919 + at * 104729 + 17) % (config.vocab_size - 4) for at in range(prompt)] for row in range(rows)]
    timers = timer.timers
    try:
        # What it prints is not for whoever reads the result.
        with contextlib.redirect_stdout(sys.stderr):
            model = flex_opt.OptLM(config, env, flex_opt.DUMMY_WEIGHT, policy)
            model.generate([row[:32] for row in inputs], max_new_tokens=1)
            timers("generate").reset()
            model.generate(inputs, max_new_tokens=new)
            costs = list(timers("generate").costs)
    except torch.cuda.OutOfMemoryError as error:
        give_up(f"out of GPU memory within the cap: {str(error).splitlines()[0]}")
    finally:
        env.close_copy_threads()
    print(json.dumps({
        "tokensPerSecond": rows * new / sum(costs), "prefillSeconds": costs[0], "decodeSeconds": sum(costs[1:]), "gpuPeakBytes": torch.cuda.max_memory_allocated(),
        "residentPeakBytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "torch": torch.__version__, "device": torch.cuda.get_device_name(0),
    }), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
