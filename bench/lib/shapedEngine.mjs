// One engine of bench/shaped.mjs, in a namespace and a group of its own: told what to do by its first argument, JSON, and
// by lines of JSON, says what came of it in lines of JSON.
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Engine } from '../../dist/index.js';

const { engine: options, listen, peers, rows, run, sockets } = JSON.parse(process.argv[2]);
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
/** Processor time so far of all threads but those that compute: JavaScript's own, its garbage collector's, and others. */
const ownTime = () =>
  readdirSync('/proc/self/task')
    .map((thread) => `/proc/self/task/${thread}`)
    .filter((thread) => readFileSync(`${thread}/comm`, 'utf8').trim() !== 'spillway-cpu')
    .reduce((sum, thread) => sum + Number(readFileSync(`${thread}/schedstat`, 'utf8').split(' ')[0]) / 1e9, 0);
/** Processor time from here: of all threads, and of those that do not compute. */
const used = () => {
  const [from, own] = [process.cpuUsage(), ownTime()];
  return () => {
    const { user, system } = process.cpuUsage(from);
    return { processorSeconds: (user + system) / 1e6, ownSeconds: ownTime() - own };
  };
};

/** Of the first turn, which warms up. */
const WARM_ROWS = 8;

const engine = await Engine.open(options);
if (listen !== undefined)
  await engine.listen(listen, {
    ...sockets,
    onRun: ({ ended }) => {
      const seconds = used();
      void ended.then((error) => say({ ...seconds(), ...(error && { error: error.message }) }));
    },
  });
say({ ready: true });
const turns = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
for (let turn = 0; !(await turns.next()).done; turn++) {
  const [given, warming] = turn === 0 ? [rows.slice(0, WARM_ROWS), { maxNewTokens: 1 }] : [rows, {}];
  const connected = peers && { peers: await engine.connect(peers, sockets) };
  const [start, seconds] = [performance.now(), used()];
  const results = createHash('sha256');
  let tokens = 0;
  const answers = engine.generate(given, { ...run, ...warming, ...connected, logprobs: 1 });
  for await (const { error, text, logprobs, usage } of answers) {
    if (error) throw new Error(error.message);
    results.update(JSON.stringify([text, logprobs]));
    tokens += usage.completionTokens;
  }
  const wallSeconds = (performance.now() - start) / 1000;
  say({ wallSeconds, ...seconds(), tokens, results: results.digest('hex') });
}
await engine.close();
