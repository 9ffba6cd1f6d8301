"""What the runners in Python share: the job that they are given, and the figures that they report, on one line of
JSON. workload.mjs, which is the same for those in JavaScript, says what is in both."""

import json
import resource
import sys
import time

if len(sys.argv) < 2:
    sys.exit("this file is started by the benchmarks of this folder")
job = json.loads(sys.argv[1])
setting = job["setting"]
new_tokens = job["maxNewTokens"]

with open(job["prompts"], encoding="utf-8") as _file:
    # Every tool gets the same ids, so that none gains or loses by its tokenizer.
    rows = [json.loads(line)["tokens"] for line in _file][: job.get("rows")]

# With a cache of prefixes the first row goes first, by itself: rows that come all at once find it empty. Of a tree that
# helps the first branch alone, so what it shows there is what it makes of rows as they are handed over, not the most
# that the cache could do.
parts = [rows[:1], rows[1:]] if setting.get("prefixCaching") else [rows]


def is_late(start):
    limit = job.get("timeLimitSeconds")
    return limit is not None and time.monotonic() - start > limit


def cache_bytes(bytes_of_element, bytes_of_weights):
    """What the KV cache of as many rows as run at a time takes, or of all, where beginnings are kept; at most half of
    the memory that weights leave."""
    longest = max(map(len, rows)) + new_tokens
    at_a_time = len(rows) if setting.get("prefixCaching") else min(len(rows), setting["sequences"])
    # Pages are whole ones.
    tokens = at_a_time * (longest + 128)
    with open("/proc/meminfo", encoding="utf-8") as file:
        available = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    return int(max(2**28, min(tokens * job["cacheElements"] * bytes_of_element, (available - bytes_of_weights) / 2)))


def _peak_bytes():
    """Of this process, and of the largest of those that it started and that have ended."""
    return 1024 * sum(resource.getrusage(of).ru_maxrss for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def report(version, opening, start, end, tokens, settings, stopped=False):
    """`opening`, `start`, `end`: when the model was begun to be opened, the first row was handed over, the last one
    was done. `tokens`: a row's new tokens, in order of input. `stopped`: the time limit came first."""
    short = [row for row, made in enumerate(tokens) if len(made) != new_tokens]
    if short and not stopped:
        made = len(tokens[short[0]])
        sys.exit(f"row {short[0]} has {made} new tokens, expected {new_tokens}: the runs would not compare")
    if "tokensFile" in job:
        with open(job["tokensFile"], "w", encoding="utf-8") as file:
            json.dump(tokens, file)
    prompted = sum(len(row) for row, made in zip(rows, tokens) if made)
    generated, seconds = sum(map(len, tokens)), end - start
    print(json.dumps({
        "version": version, "settings": settings, "stopped": stopped, "loadSeconds": start - opening,
        "seconds": seconds, "rows": len(rows), "promptTokens": prompted, "generatedTokens": generated,
        "generatedTokensPerSecond": generated / seconds, "promptTokensPerSecond": prompted / seconds,
        "peakResidentBytes": _peak_bytes(),
    }))
