"""What programs do with the package `openai` of PyPI, at a server over a chat model: `openaiClient.py URL MODEL TOOLS ROWS`.

TOOLS is a model whose chat template has calls of tools.

Prints a line of JSON: what was found, and what of it was wrong."""

import asyncio
import io
import json
import sys
import threading
import time
from typing import List, Literal, Optional

import openai
from pydantic import BaseModel, Field

url, model, tool_model, rows = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
access = {"base_url": f"{url}/v1", "api_key": "a-key-of-16-bytes"}
client = openai.OpenAI(**access, max_retries=0)
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
async def streams():
    """Many at once, each with two answers."""
    several = openai.AsyncOpenAI(**access, max_retries=20)

    async def one(seed):
        reasons, usage = {}, None
        async for chunk in await several.chat.completions.create(
            model=model,
            messages=[{"role": "developer", "content": "Be brief."}, {"role": "user", "content": f"Count to {seed}."}],
            n=2,
            seed=seed,
            temperature=0.8,
            max_completion_tokens=8,
            logprobs=True,
            top_logprobs=2,
            stream=True,
            stream_options={"include_usage": True},
        ):
            usage = chunk.usage or usage
            reasons |= {choice.index: choice.finish_reason for choice in chunk.choices if choice.finish_reason}
        return set(reasons) == {0, 1} and usage is not None and usage.prompt_tokens > 0

    expect("streams at once", all(await asyncio.gather(*[one(seed) for seed in range(30)])))


asyncio.run(streams())


class Step(BaseModel):
    words: str = Field(max_length=8)
    kind: Literal["a", "b"]


class Plan(BaseModel):
    steps: List[Step] = Field(max_length=2)
    last: Optional[int] = Field(default=None, ge=0, le=9)


class Weather(BaseModel):
    """Tells the weather."""

    city: Literal["Bern", "Oslo"]
    days: int = Field(ge=1, le=3)


parsed = client.chat.completions.parse(model=model, messages=messages, response_format=Plan, max_tokens=300)
expect("a parsed answer", isinstance(parsed.choices[0].message.parsed, Plan))
held = {"type": "json_schema", "json_schema": {"name": "plan", "schema": Plan.model_json_schema()}}
cut = client.chat.completions.create(model=model, messages=messages, max_tokens=3, response_format=held)
expect("an answer that is cut off", cut.choices[0].finish_reason == "length")
try:
    client.chat.completions.parse(model=model, messages=messages, response_format=Plan, max_tokens=3)
    expect("a parsed answer that is cut off is an error", False)
except openai.LengthFinishReasonError:
    pass
tool = openai.pydantic_function_tool(Weather, name="get_weather")
asked = {"model": tool_model, "messages": messages, "tools": [tool], "max_tokens": 400}
called = client.chat.completions.create(**asked, tool_choice="required", parallel_tool_calls=True).choices[0]
expect("calls of tools", called.finish_reason == "tool_calls" and len(called.message.tool_calls) >= 1)
for call in called.message.tool_calls:
    Weather.model_validate_json(call.function.arguments)
results = [{"role": "tool", "tool_call_id": call.id, "content": "20"} for call in called.message.tool_calls]
after = client.chat.completions.create(
    **{**asked, "messages": [*messages, called.message, *results], "max_tokens": 4}, tool_choice="none"
)
expect("an answer to results of tools", after.choices[0].message.tool_calls is None)
named = {"type": "function", "function": {"name": "get_weather"}}
inputs = client.chat.completions.parse(**asked, tool_choice=named).choices[0].message.tool_calls
expect("parsed inputs", isinstance(inputs[0].function.parsed_arguments, Weather))
grown = {}
for chunk in client.chat.completions.create(**asked, tool_choice="required", stream=True):
    for piece in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
        grown[piece.index] = grown.get(piece.index, "") + (piece.function.arguments or "")
expect("streamed calls", [Weather.model_validate_json(each) for each in grown.values()] != [])

short = client.embeddings.create(model=model, input=["x", "y"], dimensions=16)
floats = client.embeddings.create(model=model, input=["x"], dimensions=16, encoding_format="float")
near = all(abs(a - b) < 1e-6 for a, b in zip(short.data[0].embedding, floats.data[0].embedding))
expect("embeddings of 16 dimensions", len(short.data[0].embedding) == 16 and near)

extra = client.files.create(file=("more.jsonl", io.BytesIO(lines.splitlines()[0].encode())), purpose="batch")
more = [
    client.batches.create(input_file_id=extra.id, endpoint="/v1/chat/completions", completion_window="24h").id
    for _ in range(3)
]
listed = [each.id for each in client.batches.list(limit=2)]
expect("pages of batches", set(more) <= set(listed) and len(listed) == len(set(listed)))
long = client.files.create(
    file=("long.jsonl", io.BytesIO(lines.replace('"max_tokens": 4', '"max_tokens": 200').encode())), purpose="batch"
)
stopped = client.batches.create(input_file_id=long.id, endpoint="/v1/chat/completions", completion_window="24h")
stopped = client.batches.cancel(stopped.id)
while stopped.status != "cancelled":
    time.sleep(0.2)
    stopped = client.batches.retrieve(stopped.id)
counts = stopped.request_counts
expect("a batch that is cancelled", counts.total == counts.completed + counts.failed)
# Files of batches that are under way come later.
while any(client.batches.retrieve(each).status != "completed" for each in more):
    time.sleep(0.2)
expect("files by purpose", not [each for each in client.files.list(purpose="vision")])
for each in list(client.files.list(limit=3)):
    expect("a file is deleted", client.files.delete(each.id).deleted)
expect("no file is left", [each for each in client.files.list()] == [])


def refused(what, kind, call):
    try:
        call()
        expect(f"{what} is an error", False)
    except kind as error:
        expect(f"{what} is an error with words", bool(error.message))


picture = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]
create = client.chat.completions.create
refused("a wrong key", openai.AuthenticationError, openai.OpenAI(**{**access, "api_key": "wrong"}).models.list)
refused("an unknown file", openai.NotFoundError, lambda: client.files.retrieve("file-none"))
refused("an unknown batch", openai.NotFoundError, lambda: client.batches.retrieve("batch_none"))
refused("a batch that is over", openai.ConflictError, lambda: client.batches.cancel(batch.id))
refused("a parameter", openai.BadRequestError, lambda: create(model=model, messages=messages, temperature=99))
refused(
    "a picture", openai.BadRequestError, lambda: create(model=model, messages=[{"role": "user", "content": picture}])
)
outcomes = []


def busy():
    try:
        create(model=model, messages=messages, max_tokens=100)
        outcomes.append("answered")
    except openai.RateLimitError as error:
        outcomes.append("429" if "retry-after" in error.response.headers else "429 that says not when")


crowd = [threading.Thread(target=busy) for _ in range(40)]
for each in crowd:
    each.start()
for each in crowd:
    each.join()
expect("more than may be open", set(outcomes) == {"answered", "429"})
print(json.dumps({"openai": openai.__version__, "rows": rows, "batchSeconds": round(seconds, 1), "wrong": wrong}))
sys.exit(1 if wrong else 0)
