"""Answers as a stage of Apache Spark: each partition goes through a process of spillway, which opens the model once.

    spark-submit --py-files examples/cluster/spillway_rows.py examples/cluster/spark.py \
      --input questions.parquet --output answers.parquet --send question --partitions 8 -- \
      spillway generate --model model.gguf --columns prompt=question --cpu-memory 8GiB --threads 4

All columns of the input stay; text, finish_reason, error_code, error_message, prompt_tokens and completion_tokens stand
beside them. A partition whose worker goes away is run again by Spark, from its beginning (`--reuse FILE` keeps answers
on the machine), up to spark.task.maxFailures times."""

import argparse
from itertools import chain

from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from spillway_rows import COLUMNS, Spillway, beside

TYPES = {'string': StringType(), 'int32': IntegerType()}


def with_answers(frame, columns, command):
    """The frame with answers beside its rows. `columns`: what of a row spillway gets: texts, numbers, lists."""

    def answered(batches):
        filled = (batch for batch in batches if batch.num_rows > 0)
        first = next(filled, None)
        # A partition without rows needs no model.
        if first is None:
            return
        with Spillway(command) as spillway:
            sent = spillway.answers(chain([first], filled), lambda batch: batch.select(columns).to_pylist())
            for batch, results in sent:
                yield beside(batch, results)

    results = [StructField(name, TYPES[kind]) for name, kind, _ in COLUMNS]
    return frame.mapInArrow(answered, StructType([*frame.schema.fields, *results]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--input', required=True)
    parser.add_argument('--output', required=True)
    parser.add_argument('--send', required=True, help='the columns that spillway gets, parted by commas')
    parser.add_argument('--partitions', type=int, help='each opens the model once (default: those of the input)')
    parser.add_argument('--order-by', help='with --partitions: the output is in the order of this column')
    parser.add_argument('command', nargs='+', help='behind --: spillway generate …')
    asked = parser.parse_args()
    spark = SparkSession.builder.appName('spillway').getOrCreate()
    rows = spark.read.parquet(asked.input)
    if asked.partitions and asked.order_by:
        rows = rows.repartitionByRange(asked.partitions, asked.order_by).sortWithinPartitions(asked.order_by)
    elif asked.partitions:
        rows = rows.repartition(asked.partitions)
    # Written once: a frame that is used twice is answered twice.
    with_answers(rows, asked.send.split(','), asked.command).write.parquet(asked.output)
    spark.stop()


if __name__ == '__main__':
    main()
