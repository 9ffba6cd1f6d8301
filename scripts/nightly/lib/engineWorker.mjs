// An engine at work in a worker thread, until the thread is terminated: what it does is in `workerData`.
import { parentPort, workerData } from 'node:worker_threads';
import { Engine } from '../../../dist/index.js';
import { runJob } from '../../../dist/api/jobs.js';

const { kind, options, input, output, generate, rows } = workerData;
parentPort.postMessage('begun');
const engine = await Engine.open({ ...options, onRepack: () => parentPort.postMessage('repacking') });
parentPort.postMessage('open');
if (kind === 'job') {
  await runJob({
    engine,
    input,
    output,
    overwrite: true,
    generate: { ...generate, onProgress: () => parentPort.postMessage('working') },
  });
} else {
  for (;;) {
    for await (const row of engine.generate(rows, { maxNewTokens: 100, ignoreEos: true }))
      parentPort.postMessage(row.finishReason);
  }
}
// What is at its end waits to be terminated all the same.
setInterval(() => undefined, 1000);
