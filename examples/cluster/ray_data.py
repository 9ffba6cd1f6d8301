"""Answers as a stage of Ray Data: each actor has a process of spillway, which opens the model once.

    python examples/cluster/ray_data.py --input questions.parquet --output answers --send question --actors 8 -- \
      spillway generate --model model.gguf --columns prompt=question --cpu-memory 8GiB --threads 4

All columns of the input stay; text, finish_reason, error_code, error_message, prompt_tokens and completion_tokens stand
beside them. An actor that goes away, or whose process does, is begun again by Ray, with the batches that it had."""

import argparse
import os
import sys

import ray

import spillway_rows
from spillway_rows import Spillway, SpillwayKilled, beside

# So often is a batch tried again whose actor went away; Ray's own default is without end.
MOST_RETRIES = 3


class Answers:
    """What an actor does. `columns`: what of a row spillway gets: texts, numbers, lists."""

    def __init__(self, columns, command):
        self.columns = columns
        self.spillway = Spillway(command)

    def __call__(self, batch):
        try:
            [(_, results)] = self.spillway.answers([batch], lambda rows: rows.select(self.columns).to_pylist())
        except SpillwayKilled as error:
            # An error of a batch ends the job; an actor that goes away is begun again.
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
        return beside(batch, results)


def with_answers(dataset, columns, command, actors, cpus, batch_size):
    # A batch a block: what actors are dealt, and what is answered again where one goes away.
    return dataset.repartition(target_num_rows_per_block=batch_size).map_batches(
        Answers,
        fn_constructor_kwargs={'columns': columns, 'command': command},
        batch_format='pyarrow',
        batch_size=batch_size,
        # Two batches at a time, so that rows of the next one go in where those of the first one end.
        compute=ray.data.ActorPoolStrategy(
            size=actors, max_concurrent_calls_per_actor=2, enable_true_multi_threading=True
        ),
        num_cpus=cpus,
        max_task_retries=MOST_RETRIES,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--input', required=True)
    parser.add_argument('--output', required=True, help='a folder')
    parser.add_argument('--send', required=True, help='the columns that spillway gets, parted by commas')
    parser.add_argument('--actors', type=int, default=1, help='each opens the model once')
    # Where actors reserve all that there are, nothing is left to read with, and Ray waits for ever.
    parser.add_argument('--cpus', type=float, default=1, help='of an actor, as --threads; one of all has to be left')
    parser.add_argument('--batch-size', type=int, default=256, help='rows that go to an actor at a time')
    parser.add_argument('--preserve-order', action='store_true', help='the output is in the order of the input')
    parser.add_argument('command', nargs='+', help='behind --: spillway generate …')
    asked = parser.parse_args()
    ray.init(runtime_env={'py_modules': [spillway_rows]})
    ray.data.DataContext.get_current().execution_options.preserve_order = asked.preserve_order
    rows = ray.data.read_parquet(asked.input)
    answers = with_answers(rows, asked.send.split(','), asked.command, asked.actors, asked.cpus, asked.batch_size)
    answers.write_parquet(asked.output)


if __name__ == '__main__':
    main()
