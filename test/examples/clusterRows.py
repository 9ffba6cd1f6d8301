"""What examples/cluster/spillway_rows.py does with the real command line, for clusterRows.test.ts: prints what came of
it as JSON. Arguments: which of these, and the command as JSON."""

import itertools
import json
import os
import signal
import sys
import threading
import time

from spillway_rows import Spillway


def read_rows(path, size):
    with open(path, encoding='utf-8') as lines:
        rows = [json.loads(line) for line in lines]
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def endless(taken):
    for at in itertools.count():
        taken.append(at)
        yield [{'tokens': [1, 3 + at % 200, 3 + at % 7], 'pad': 'x' * 1000}]


def whole(command, path):
    with Spillway(command) as spillway:
        return [result for _, results in spillway.answers(read_rows(path, 7)) for result in results]


def threads(command, _):
    """Each asks for batches of its own, at once; says of which rows the results are that it got."""
    found = {}

    def ask(name):
        for batch in range(5):
            rows = [{'tokens': [1, 3 + at], 'who': [name, batch, at]} for at in range(20)]
            for _, results in spillway.answers([rows]):
                found.setdefault(name, []).extend(result['row']['who'] for result in results)

    with Spillway(command) as spillway:
        asking = [threading.Thread(target=ask, args=[name]) for name in range(4)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
    return found


def read_ahead(command, _):
    """How many rows of an endless source are taken for whoever reads one result, and then leaves."""
    taken, counts = [], []
    spillway = Spillway(command)
    answers = spillway.answers(endless(taken))
    next(answers)
    while len(counts) < 2 or counts[-1] != counts[-2]:
        time.sleep(1)
        counts.append(len(taken))
    answers.close()
    return {'taken': counts[-1], 'code': spillway._process.returncode}


def killed(command, _, number=signal.SIGKILL):
    with Spillway(command) as spillway:
        for at, _ in enumerate(spillway.answers(endless([]))):
            if at == 3:
                os.kill(spillway._process.pid, number)


def ended(command, _):
    killed(command, _, signal.SIGTERM)


def broken_source(command, _):
    def batches():
        yield [{'tokens': [1]}]
        raise BrokenPipeError('the source broke off')

    with Spillway(command) as spillway:
        return len(list(spillway.answers(batches())))


def orphan(command, _):
    """Waits for whoever kills it, with a process that does not look at its pipes, as where a row takes hours."""
    with Spillway(command) as spillway:
        for _ in spillway.answers(endless([])):
            os.kill(spillway._process.pid, signal.SIGSTOP)
            print(json.dumps(spillway._process.pid), flush=True)
            time.sleep(600)


def main(name, command, path=None):
    try:
        print(json.dumps({'done': globals()[name](json.loads(command), path)}))
    except Exception as error:
        print(json.dumps({'error': type(error).__name__, 'message': str(error)}))


main(*sys.argv[1:])
