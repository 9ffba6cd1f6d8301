// The busy neighbour: one process that computes on as many threads as it is told, until it is killed or its time is
// over. Usage: node bench/neighbour/burn.mjs [threads] [seconds=3600]. Prints a line when all threads are at work.
import { availableParallelism } from 'node:os';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { fileURLToPath } from 'node:url';

/**
 * Multiplications and additions on a block that stays in the nearest cache: the neighbour wants arithmetic, not memory.
 */
function burn(until) {
  const values = new Float64Array(512).fill(1.000_1);
  while (Date.now() < until) {
    for (let round = 0; round < 2000; round++) {
      for (let at = 0; at < values.length; at++) values[at] = values[at] * 0.999_9 + 0.000_1;
    }
  }
  return values[0];
}

if (isMainThread) {
  const [threads = availableParallelism(), seconds = 3600] = process.argv.slice(2).map(Number);
  if (!(Number.isInteger(threads) && threads >= 1 && threads <= 1024 && seconds > 0)) {
    process.stderr.write('usage: node bench/neighbour/burn.mjs [threads] [seconds]\n');
    process.exit(1);
  }
  const until = Date.now() + seconds * 1000;
  const workers = Array.from(
    { length: threads },
    () => new Worker(fileURLToPath(import.meta.url), { workerData: until }),
  );
  await Promise.all(workers.map((worker) => new Promise((resolve) => worker.once('message', resolve))));
  process.stdout.write('burning\n');
} else {
  parentPort.postMessage('ready');
  burn(workerData);
}
