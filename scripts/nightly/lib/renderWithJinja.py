"""Renders templates as transformers does: a JSON list of cases on stdin, a list of texts or errors on stdout.

A case has a `template`, and either the `variables` that it is given or, as `chat`, what `apply_chat_template` is called
with: `messages`, `tools`, `documents`, `args`. The clock stands at `now`, in seconds.
"""

import datetime
import json
import resource
import signal
import sys

from transformers.utils import chat_template_utils as chats

given = json.load(sys.stdin)


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(given["now"], tz)


chats.datetime = FixedClock
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def rendered(case):
    if "variables" in case:
        return chats._compile_jinja_template(case["template"]).render(**case["variables"])
    chat = case["chat"]
    (text,), _ = chats.render_jinja_template(
        conversations=[chats._normalize_chat_messages(chat["messages"])],
        tools=chat.get("tools"),
        documents=chat.get("documents"),
        chat_template=case["template"],
        add_generation_prompt=True,
        **{**TOKENS, **(chat.get("args") or {})},
    )
    return text


def give_up(_signal, _frame):
    raise TimeoutError("takes too long")


# Numbers and texts may grow without end. Of the processor's time: on a busy machine all else takes long.
signal.signal(signal.SIGPROF, give_up)
resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))


def answer(case):
    signal.setitimer(signal.ITIMER_PROF, 2)
    try:
        text = rendered(case)
        # What cannot be written as UTF-8 is no text for a model.
        text.encode()
        return {"text": text}
    except RecursionError:
        return {"error": "RecursionError"}
    except (Exception, MemoryError) as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


json.dump([answer(case) for case in given["cases"]], sys.stdout)
