// One engine of bench/shaped.mjs, in a namespace and a group of its own: told what to do by its first argument, JSON, and
// by lines of JSON, says what came of it in lines of JSON.
import { createHash } from 'node:crypto';
import { createInterface } from 'node:readline';
import { Engine } from '../../dist/index.js';

const { engine: options, listen, peers, rows, run, sockets } = JSON.parse(process.argv[2]);
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
/** Processor time of all threads, from here. */
const used = () => {
  const from = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(from);
    return (user + system) / 1e6;
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
      void ended.then((error) => say({ processorSeconds: seconds(), ...(error && { error: error.message }) }));
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
  say({ wallSeconds, processorSeconds: seconds(), tokens, results: results.digest('hex') });
}
await engine.close();
