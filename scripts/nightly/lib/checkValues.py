"""Values held against their schemas by python-jsonschema, of the draft that each names: lines [schema, value, draft] in, a line of JSON (null, or what is wrong) out for each.

A draft leaves open whether formats say something: a value is wrong if it is so both ways.
"""

import json
import sys

import jsonschema

DRAFTS = {
    "draft-04": jsonschema.Draft4Validator,
    "draft-06": jsonschema.Draft6Validator,
    "draft-07": jsonschema.Draft7Validator,
    "2019-09": jsonschema.Draft201909Validator,
    "2020-12": jsonschema.Draft202012Validator,
}

for line in sys.stdin:
    schema, value, draft = json.loads(line)
    try:
        draft = DRAFTS[draft]
        error = next(draft(schema).iter_errors(value), None)
        if error is not None and not any(draft(schema, format_checker=draft.FORMAT_CHECKER).iter_errors(value)):
            error = None
        said = None if error is None else f"{error.json_path}: {error.message}"[:300]
    except Exception as failure:  # noqa: BLE001: of a schema that it cannot read it says nothing
        said = {"unread": str(failure)[:200]}
    print(json.dumps(said), flush=True)
