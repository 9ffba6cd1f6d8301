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
while (!(await turns.next()).done) {
  const connected = peers && { peers: await engine.connect(peers, sockets) };
  const [start, seconds] = [performance.now(), used()];
  const results = createHash('sha256');
  let tokens = 0;
  for await (const { error, text, logprobs, usage } of engine.generate(rows, { ...run, ...connected, logprobs: 1 })) {
    if (error) throw new Error(error.message);
    results.update(JSON.stringify([text, logprobs]));
    tokens += usage.completionTokens;
  }
  const wallSeconds = (performance.now() - start) / 1000;
  say({ wallSeconds, processorSeconds: seconds(), tokens, results: results.digest('hex') });
}
await engine.close();
