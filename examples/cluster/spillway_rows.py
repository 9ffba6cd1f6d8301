"""Rows through a process of spillway that stays open, for stages of engines that have the rows already: spark.py and
ray_data.py. Needs Python 3.9 or later and nothing else; `beside` needs pyarrow."""

import contextlib
import json
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque

# Results come back in the order of the rows, which is what ties them together: ids need not be unique, or there.
STREAMS = ['--input', '-', '--input-format', 'jsonl', '--output', '-', '--output-format', 'jsonl', '--order', 'input']
# A worker that is killed (-9) cannot end its process, which would hold its memory until the next row is done: on Linux
# the system does.
TIED = ['setpriv', '--pdeathsig', 'KILL']
FINE = 0
ROW_ERRORS = 4
LAST_WORDS = 20


class SpillwayFailed(RuntimeError):
    """It ended before all rows had their results, or took away some; it would do so again."""


class SpillwayKilled(SpillwayFailed):
    """A signal ended it, as where memory ran out: worth another try."""


class Spillway:
    """A process of spillway: it opens the model once, and answers rows until it is closed. Several threads may ask."""

    def __init__(self, command):
        """`command`: as a list, without what says where rows come from and go to: ['spillway', 'generate', …]. Not by
        way of npx, which would be killed in its place. By a thread that lasts: on Linux the system ends the process
        with it."""
        tied = TIED if shutil.which(TIED[0]) else []
        self._process = subprocess.Popen(
            [*tied, *command, *STREAMS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        # Why results are not read any more.
        self._given_up = None
        self._calls = queue.SimpleQueue()
        self._asking = threading.Lock()
        self._last_read = threading.Event()
        self._last_read.set()
        self._answered = 0
        self._said = deque(maxlen=LAST_WORDS)
        # Rows go in while results come out: whoever only writes waits for a process that waits for its reader.
        threading.Thread(target=self._write, daemon=True).start()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def answers(self, batches, rows_of=lambda batch: batch):
        """Yields each batch with the list of its results, in their order. Batches are taken, by a thread of this
        object, as fast as the process takes their rows, so that what is held is what it has read ahead."""
        sent = queue.SimpleQueue()
        with self._asking:
            turn, self._last_read = self._last_read, threading.Event()
            read = self._last_read
            self._calls.put((batches, rows_of, sent))
        try:
            # Results of whoever asked before come first.
            turn.wait()
            for item in iter(sent.get, None):
                if isinstance(item, BaseException):
                    raise item
                batch, count = item
                yield batch, [self._result() for _ in range(count)]
        except BaseException as error:
            # Results that nobody reads are in the way of others.
            self._given_up = self._given_up or error
            self.kill()
            raise
        finally:
            read.set()

    def close(self):
        """Says that there are no more rows, and waits for the end."""
        self._calls.put(None)
        rest = self._process.stdout.read()
        if self._process.wait() not in (FINE, ROW_ERRORS) or rest:
            raise self._failure(f'{len(rest)} bytes behind the last row' if rest else 'it had answered all rows')

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._calls.put(None)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.close()
        else:
            self.kill()

    def _write(self):
        with contextlib.suppress(BrokenPipeError), self._process.stdin as rows_in:
            for batches, rows_of, sent in iter(self._calls.get, None):
                try:
                    for batch in batches:
                        lines = [json.dumps(row, ensure_ascii=False) + '\n' for row in rows_of(batch)]
                        sent.put((batch, len(lines)))
                        try:
                            rows_in.write(''.join(lines).encode())
                            rows_in.flush()
                        except BrokenPipeError:
                            # It has ended: whoever reads finds out why.
                            break
                except BaseException as error:
                    sent.put(error)
                sent.put(None)

    def _listen(self):
        for line in self._process.stderr:
            words = line.decode(errors='replace')
            self._said.append(words)
            # A worker may have none that can be written to; the process waits for whoever reads.
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(words)

    def _result(self):
        line = self._process.stdout.readline()
        if not line.endswith(b'\n'):
            raise self._failure(f'row {self._answered} had no result')
        result = json.loads(line)
        if result['index'] != self._answered:
            raise SpillwayFailed(
                f'found a result of row {result["index"]}, expected that of row {self._answered}: '
                '--samples, --errors and --shard cannot be used here'
            )
        self._answered += 1
        return result

    def _failure(self, what):
        code = self._process.wait()
        self._listener.join()
        if self._given_up is not None and not isinstance(self._given_up, SpillwayKilled):
            return SpillwayFailed(f'spillway was ended, {what}, as another batch failed: {self._given_up!r}')
        # At once (-9), or in order, and of what a shell ran (143).
        number = -code if code < 0 else code - 128
        killed = number in signal.valid_signals()
        how = f'was ended by {signal.Signals(number).name}' if killed else f'ended with exit code {code}'
        words = ''.join(self._said).strip() or 'nothing'
        return (SpillwayKilled if killed else SpillwayFailed)(f'spillway {how}, {what}; it said: {words}')


def error_of(name):
    return lambda result: result.get('error', {}).get(name)


# The columns that tables of spillway have beside those of their rows.
COLUMNS = (
    ('text', 'string', lambda result: result['text'] if result['text'] or 'error' not in result else None),
    ('finish_reason', 'string', lambda result: result['finishReason']),
    ('error_code', 'string', error_of('code')),
    ('error_message', 'string', error_of('message')),
    ('prompt_tokens', 'int32', lambda result: result['usage']['promptTokens']),
    ('completion_tokens', 'int32', lambda result: result['usage']['completionTokens']),
)


def beside(batch, results):
    """A batch (or table) of Arrow with the columns of its results after its own, which stay as they are."""
    import pyarrow

    for name, kind, value in COLUMNS:
        if name in batch.schema.names:
            raise ValueError(f'found a column {name} among those of the rows, expected another name for it')
        values = pyarrow.array([value(result) for result in results], kind)
        batch = batch.append_column(pyarrow.field(name, values.type), values)
    return batch
