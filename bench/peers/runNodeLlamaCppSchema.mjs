// One run of node-llama-cpp's grammar of a JSON Schema: `sequences` rows share a context, and the next row takes a
// finished row's place. bench/structured.mjs starts it.
import { readFileSync } from 'node:fs';
import { getLlama, LlamaGrammarEvaluationState, LlamaLogLevel } from 'node-llama-cpp';

/** {model, prompts, schema, maxNewTokens, threads, sequences} */
const job = JSON.parse(process.argv[2]);
const { version } = JSON.parse(readFileSync(new URL('node_modules/node-llama-cpp/package.json', import.meta.url), 'utf8'));
const llama = await getLlama({ build: 'never', gpu: false, logLevel: LlamaLogLevel.error, maxThreads: job.threads });
const model = await llama.loadModel({ modelPath: job.model, ignoreMemorySafetyChecks: true });
const prompts = job.prompts.map((prompt) => model.tokenize(prompt));
const contextSize = Math.max(...prompts.map(({ length }) => length)) + job.maxNewTokens;
const context = await model.createContext({ sequences: job.sequences, contextSize, batchSize: 512, threads: job.threads, flashAttention: true, ignoreMemorySafetyChecks: true });
const grammar = await llama.createGrammarForJsonSchema(job.schema);

function isWhole(tokens) {
  try {
    return JSON.parse(model.detokenize(tokens)) !== null;
  } catch {
    return false;
  }
}

const start = performance.now();
const outputs = prompts.map(() => []);
let next = 0;
await Promise.all(
  Array.from({ length: job.sequences }, async () => {
    const sequence = context.getSequence();
    for (let row = next++; row < prompts.length; row = next++) {
      await sequence.clearHistory();
      const grammarEvaluationState = new LlamaGrammarEvaluationState({ model, grammar });
      for await (const token of sequence.evaluate([...prompts[row]], { temperature: 0, grammarEvaluationState })) {
        outputs[row].push(token);
        // After a whole value its grammar lets blanks through, without end.
        if (outputs[row].length === job.maxNewTokens || (model.detokenize([token]).includes('}') && isWhole(outputs[row]))) break;
      }
    }
  }),
);
const seconds = (performance.now() - start) / 1000;
const whole = outputs.filter(isWhole).length;
process.stdout.write(`${JSON.stringify({ version, seconds, whole, generated: outputs.reduce((sum, tokens) => sum + tokens.length, 0) })}\n`);
// The addon keeps the process alive for a while otherwise; everything has been written.
process.exit(0);
