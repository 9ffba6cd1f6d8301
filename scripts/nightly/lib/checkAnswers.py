"""Reads a Parquet file of answers to a JSON Schema, one of embeddings, and a stream of Arrow of each, all of which Spillway wrote, with pyarrow, pandas and DuckDB: types and values.

python checkAnswers.py FOLDER
"""
import pathlib
import sys

import duckdb
import pandas
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = pathlib.Path(sys.argv[1])
EXPECTED = {
    "answers": (
        {"name": pa.string(), "age": pa.int64(), "share": pa.float64(), "ok": pa.bool_(), "tags": pa.string(), "prompt_tokens": pa.int32()},
        [
            {"name": "Ann", "age": 9007199254740993, "share": 0.5, "ok": True, "tags": '["a"]', "text": None},
            {"name": None, "age": None, "share": None, "ok": None, "tags": None, "text": "cut o"},
        ],
    ),
    "embeddings": (
        {"embedding": pa.list_(pa.float32())},
        [{"id": "1", "embedding": [0.5, -1.0, 0.25]}, {"id": "2", "embedding": None}, {"id": "3", "embedding": []}],
    ),
}


def plain(kind):
    return pa.list_(kind.value_type) if pa.types.is_list(kind) else kind


failed = False


def expect(what, found, expected):
    global failed
    if found != expected:
        failed = True
        print(f"{what}: found {found}, expected {expected}")
    else:
        print(f"ok {what}")


for name, (types, rows) in EXPECTED.items():
    file = FOLDER / f"{name}.parquet"
    with pa.ipc.open_stream(FOLDER / f"{name}.arrows") as stream:
        tables = {"pyarrow": pq.read_table(file), "arrow": stream.read_all()}
    for reader, table in tables.items():
        expect(f"{name}, {reader}, types", {column: plain(table.schema.field(column).type) for column in types}, types)
        expect(f"{name}, {reader}, values", [{column: row[column] for column in expected} for row, expected in zip(table.to_pylist(), rows, strict=True)], rows)
    columns = ", ".join(f'"{column}"' for column in rows[0])
    expect(f"{name}, DuckDB", [dict(zip(rows[0], row)) for row in duckdb.sql(f"select {columns} from '{file}'").fetchall()], rows)
    frame = pandas.read_parquet(file)
    expect(f"{name}, pandas", len(frame), len(rows))
sys.exit(1 if failed else 0)
