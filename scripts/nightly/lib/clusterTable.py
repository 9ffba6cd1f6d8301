"""Tables for scripts/nightly/cluster.mjs. `make FOLDER ROWS SEED` writes one in three files, of which one has no rows;
`compare WHOLE OUTPUT ORDERED` says, as JSON, in what the files of OUTPUT differ from one machine's table."""

import datetime
import decimal
import json
import random
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet

UTC = datetime.timezone.utc
WORDS = [
    'words',
    'grüße 日本',
    '🚀\U0001f468\u200d\U0001f469',
    'a "quote", a\ttab',
    'two\nlines\r\n',
    '\u2028\u0000',
    '\\n {{x}}',
]


def question(at, draw):
    if at % 23 == 7:
        return None
    if at % 31 == 11:
        return 'too long ' * 1000
    return '' if at % 37 == 13 else f'{at}: {draw.choice(WORDS)}'


def make(folder, rows, seed):
    draw = random.Random(seed)
    ids = range(rows)
    table = pyarrow.table(
        {
            'nr': pyarrow.array(ids, pyarrow.int64()),
            'question': pyarrow.array([question(at, draw) for at in ids], pyarrow.string()),
            'half': pyarrow.array([at * 2 // rows for at in ids], pyarrow.int32()),
            'price': pyarrow.array([decimal.Decimal(at) / 4 for at in ids], pyarrow.decimal128(9, 2)),
            'at': pyarrow.array(
                [datetime.datetime(2026, 1, 1, tzinfo=UTC) + datetime.timedelta(microseconds=at**5) for at in ids],
                pyarrow.timestamp('us', 'UTC'),
            ),
            'tags': pyarrow.array([None if at % 5 == 0 else ['a', None, str(at)] for at in ids]),
            'share': pyarrow.array([at / 3 for at in ids], pyarrow.float64()),
        }
    )
    cut = draw.randint(1, rows - 1)
    for number, part in enumerate([table.slice(0, cut), table.slice(0, 0), table.slice(cut)]):
        # Spark's own snappy is not on every machine.
        pyarrow.parquet.write_table(part, Path(folder) / f'questions-{number}.parquet', compression='none')


def rows_of(paths):
    rows = []
    for path in paths:
        table = pyarrow.parquet.ParquetFile(path).read()
        # Spark's files do not say the zone, and may count nanoseconds.
        moment = table.schema.get_field_index('at')
        table = table.set_column(moment, 'at', table['at'].cast(pyarrow.timestamp('us')))
        rows += table.to_pylist()
    return rows


def compare(whole, output, ordered):
    expected = rows_of([whole])
    found = rows_of(sorted(Path(output).glob('*.parquet')))
    if not ordered:
        found.sort(key=lambda row: row['nr'])
    different = []
    if [row['nr'] for row in found] != [row['nr'] for row in expected]:
        different.append(f'found the rows {[row["nr"] for row in found]}, expected those from 0 to {len(expected) - 1}')
    else:
        for is_, was in zip(found, expected):
            if list(is_) != list(was):
                different.append(f'found the columns {list(is_)}, expected {list(was)}')
            elif is_ != was:
                columns = {name: (value, was[name]) for name, value in is_.items() if value != was[name]}
                different.append(f'row {was["nr"]}, as found and as expected: {columns}')
    errors = sum(row['error_code'] is not None for row in expected)
    print(json.dumps({'rows': len(found), 'errors': errors, 'different': different[:5]}, default=str))


if __name__ == '__main__':
    if sys.argv[1] == 'make':
        make(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        compare(sys.argv[2], sys.argv[3], sys.argv[4] == 'ordered')
