// A worker in a process of its own, over a stub of an engine: node shardWorker.mjs QUEUE JOB STUB MILLISECONDS [POISON]
// STUB is the compiled stub, a row takes up to MILLISECONDS, and the process ends at the row of index POISON.
import { pathToFileURL } from 'node:url';
import { openWorkSource } from '../../../dist/jobs/work/openWorkSource.js';
import { runWork } from '../../../dist/jobs/work/runWork.js';

const [queue, job, stub, milliseconds, poison] = process.argv.slice(2);
const { StubEngine } = await import(pathToFileURL(stub).href);
const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
const engine = new StubEngine({
  width: 4,
  delay: (row) => {
    if (row === Number(poison ?? -1)) process.kill(process.pid, 'SIGKILL');
    return Math.random() * Number(milliseconds);
  },
});
const source = await openWorkSource(queue, job);
try {
  await runWork({ source, engine, signal: stop.signal });
} catch (error) {
  if (!stop.signal.aborted) throw error;
  process.exitCode = 143;
} finally {
  await source[Symbol.asyncDispose]();
}
process.exit();
