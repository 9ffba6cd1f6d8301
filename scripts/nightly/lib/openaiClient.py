"""What programs do with the package `openai` of PyPI, at a server over a chat model: `openaiClient.py URL MODEL ROWS`.

Prints a line of JSON: what was found, and what of it was wrong."""

import io
import json
import sys
import time

import openai

url, model, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
messages = [{"role": "user", "content": "Name a colour."}]
wrong = []


def expect(what, holds):
    if not holds:
        wrong.append(what)


whole = client.chat.completions.create(model=model, messages=messages, max_tokens=8)
pieces, usage = [], None
for chunk in client.chat.completions.create(
    model=model, messages=messages, max_tokens=8, stream=True, stream_options={"include_usage": True}
):
    pieces += [choice.delta.content or "" for choice in chunk.choices]
    usage = chunk.usage or usage
expect("a stream has the text of the whole", "".join(pieces) == whole.choices[0].message.content)
expect("a stream has the usage of the whole", usage.total_tokens == whole.usage.total_tokens)
several = client.chat.completions.create(
    model=model, messages=messages, max_tokens=4, n=3, temperature=1, logprobs=True, top_logprobs=2
)
expect("n answers", [choice.index for choice in several.choices] == [0, 1, 2])
expect("log-probabilities", all(len(choice.logprobs.content) == 4 for choice in several.choices))
text = client.completions.create(model=model, prompt=["Once", "Twice"], max_tokens=3)
expect("texts", len(text.choices) == 2)
schema = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], "additionalProperties": False}
held = client.chat.completions.create(
    model=model,
    messages=messages,
    max_tokens=64,
    response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": True}},
)
expect("a schema", json.loads(held.choices[0].message.content)["a"] in ("x", "y"))
embeddings = client.embeddings.create(model=model, input=["one", "two"])
expect("embeddings", len(embeddings.data) == 2 and len(embeddings.data[0].embedding) > 8)
try:
    client.chat.completions.create(model="another", messages=messages)
    expect("another model is an error", False)
except openai.NotFoundError:
    pass
lines = "".join(
    json.dumps(
        {
            "custom_id": f"r{at}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": f"Say {at}."}]},
        }
    )
    + "\n"
    for at in range(rows)
)
file = client.files.create(file=("requests.jsonl", io.BytesIO(lines.encode())), purpose="batch")
begun = time.time()
batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
while batch.status not in ("completed", "failed", "expired", "cancelled"):
    time.sleep(0.2)
    batch = client.batches.retrieve(batch.id)
seconds = time.time() - begun
answers = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
expect("a batch", [answer["custom_id"] for answer in answers] == [f"r{at}" for at in range(rows)])
expect("counts", (batch.request_counts.completed, batch.request_counts.failed) == (rows, 0))
print(json.dumps({"openai": openai.__version__, "rows": rows, "batchSeconds": round(seconds, 1), "wrong": wrong}))
sys.exit(1 if wrong else 0)
