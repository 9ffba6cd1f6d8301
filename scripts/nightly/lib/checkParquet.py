"""Reads each Parquet file of one folder and its namesake in another, which Spillway made of it, with pyarrow, pandas and DuckDB: rows, types and values have to be the same.

python checkParquet.py BEFORE AFTER
"""
import pathlib
import sys

import duckdb
import pandas
import pyarrow as pa
import pyarrow.parquet as pq

BEFORE, AFTER = (pathlib.Path(folder) for folder in sys.argv[1:3])


def plain(kind):
    """What pyarrow knows of a column from a note of its own, which is left out: that it was a dictionary, or text with long offsets."""
    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    return pa.string() if pa.types.is_large_string(kind) else kind


def differences(name):
    before, after = pq.read_table(BEFORE / name), pq.read_table(AFTER / name)
    if before.num_rows != after.num_rows:
        yield f"{after.num_rows} rows, expected {before.num_rows}"
        return
    for column in before.column_names:
        was, now = before.column(column), after.column(column)
        if plain(was.type) != now.type:
            yield f"{column}: {now.type}, expected {was.type}"
        # As text, since NaN is not equal to itself.
        elif repr(was.to_pylist()) != repr(now.to_pylist()):
            yield f"{column}: other values"
    frame = pandas.read_parquet(AFTER / name)
    if len(frame) != before.num_rows:
        yield f"pandas: {len(frame)} rows"
    now = rows_of(AFTER / name, before.column_names)
    try:
        was = rows_of(BEFORE / name, before.column_names)
    except duckdb.Error:
        return  # DuckDB does not read all that pyarrow writes.
    if repr(was) != repr(now):
        yield "DuckDB: other values"


def rows_of(path, columns):
    return duckdb.sql(f"""select {', '.join(f'"{column}"' for column in columns)} from '{path}'""").fetchall()


failed = False
for path in sorted(BEFORE.glob("*.parquet")):
    found = list(differences(path.name))
    failed = failed or bool(found)
    print(f"ok {path.name}" if not found else f"{path.name}: {'; '.join(found)}")
sys.exit(1 if failed else 0)
