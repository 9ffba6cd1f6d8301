// One run of node-llama-cpp: `sequences` rows share a context, and the next row takes a finished row's place.
import { readFileSync } from 'node:fs';
import { getLlama, LlamaLogLevel } from 'node-llama-cpp';
import { job, report, rows } from './workload.mjs';

const { version } = JSON.parse(readFileSync(new URL('node_modules/node-llama-cpp/package.json', import.meta.url), 'utf8'));
const BATCH_TOKENS = 512;

const opening = performance.now();
const llama = await getLlama({ build: 'never', gpu: false, logLevel: LlamaLogLevel.error, maxThreads: job.threads });
const model = await llama.loadModel({ modelPath: job.model });
const inputs = rows.map(({ prompt }) => model.tokenize(prompt));
const contextSize = Math.max(...inputs.map((tokens) => tokens.length)) + job.maxNewTokens;
const context = await model.createContext({ sequences: job.sequences, contextSize, batchSize: BATCH_TOKENS, threads: job.threads, flashAttention: true });

const start = performance.now();
const outputs = inputs.map(() => []);
let next = 0;
await Promise.all(
  Array.from({ length: job.sequences }, async () => {
    const sequence = context.getSequence();
    for (let row = next++; row < inputs.length; row = next++) {
      await sequence.clearHistory();
      // Its own way of going on past the end token.
      for await (const token of sequence.evaluate(inputs[row], { temperature: 0, yieldEogToken: true })) {
        outputs[row].push(token);
        if (outputs[row].length === job.maxNewTokens) break;
      }
    }
  }),
);
const end = performance.now();

report({
  version,
  loadSeconds: (start - opening) / 1000,
  seconds: (end - start) / 1000,
  promptTokens: inputs.reduce((sum, tokens) => sum + tokens.length, 0),
  tokens: outputs,
  settings: { sequences: job.sequences, batchSize: BATCH_TOKENS, contextSize: context.contextSize, flashAttention: true, threads: context.currentThreads },
});
// The addon keeps the process alive for a while otherwise; everything has been written.
process.exit(0);
