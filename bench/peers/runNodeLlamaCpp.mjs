// One run of node-llama-cpp: `sequences` rows share a context, and the next row takes a finished row's place.
import { readFileSync } from 'node:fs';
import { getLlama, LlamaLogLevel } from 'node-llama-cpp';
import { job, report, rows } from './workload.mjs';

const { version } = JSON.parse(readFileSync(new URL('node_modules/node-llama-cpp/package.json', import.meta.url), 'utf8'));
const { sequences, batchSize = 512, flashAttention = true } = job.setting;

const opening = performance.now();
const llama = await getLlama({ build: 'never', gpu: false, logLevel: LlamaLogLevel.error, maxThreads: job.threads });
// Its own estimate of what fits is not asked: whether a model runs within a cap is what is to be found out.
const model = await llama.loadModel({ modelPath: job.model, ignoreMemorySafetyChecks: true });
const contextSize = Math.max(...rows.map(({ tokens }) => tokens.length)) + job.maxNewTokens;
const context = await model.createContext({ sequences, contextSize, batchSize, threads: job.threads, flashAttention, ignoreMemorySafetyChecks: true });

const start = performance.now();
const outputs = rows.map(() => []);
const firstTokenAt = [];
let prompted = 0;
let next = 0;
let stopped = false;
const late = () => job.timeLimitSeconds !== undefined && performance.now() - start > job.timeLimitSeconds * 1000;
await Promise.all(
  Array.from({ length: sequences }, async () => {
    const sequence = context.getSequence();
    for (let row = next++; row < rows.length && !stopped; row = next++) {
      await sequence.clearHistory();
      // Its own way of going on past the end token.
      for await (const token of sequence.evaluate([...rows[row].tokens], { temperature: 0, yieldEogToken: true })) {
        if (outputs[row].length === 0) {
          firstTokenAt.push(performance.now());
          prompted += rows[row].tokens.length;
        }
        outputs[row].push(token);
        stopped ||= late();
        if (stopped || outputs[row].length === job.maxNewTokens) break;
      }
    }
  }),
);
const end = performance.now();

// Where all rows are in one block, their prompts come first, and every later token is a decoded one.
const oneBlock = rows.length <= sequences && firstTokenAt.length === rows.length;
const prefillEnd = oneBlock ? Math.max(...firstTokenAt) : undefined;
const decoded = outputs.reduce((sum, row) => sum + Math.max(0, row.length - 1), 0);
report({
  version,
  loadSeconds: (start - opening) / 1000,
  seconds: (end - start) / 1000,
  promptTokens: prompted,
  tokens: outputs,
  stopped,
  settings: { sequences, batchSize, contextSize: context.contextSize, flashAttention, threads: context.currentThreads },
  ...(oneBlock && { prefillSeconds: (prefillEnd - start) / 1000, decodeSeconds: (end - prefillEnd) / 1000, decodedTokens: decoded }),
});
// The addon keeps the process alive for a while otherwise; everything has been written.
process.exit(0);
