import type { EngineOptions } from '../../src/EngineOptions.js';
import type { RunOptions } from '../../src/engine/rows/Generation.js';
import type { Row, RowInput } from '../../src/Row.js';
import type { Random } from './Random.js';
import { anyJson, text, word } from './mutations/values.js';

/** What makes patterns go back and forth, templates branch and tokenizers merge. */
const PROBES = [
  'Hello world',
  'the thing',
  'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!',
  ' '.repeat(40),
  'a b\tc\r\n\nd  e',
  'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxy',
  "I'll don't 123456 $+<=>",
  'é e\u0301 ß 漢字 😀 👩‍👩‍👧',
  '<|im_start|>user\nx<|im_end|>',
  '<s>a</s> <unk>',
  '\u0000\u001f\u2028\ufeff',
  '▁a Ġa ##a <0x0A>',
];

/** A prompt, short most of the time. */
function anyPrompt(random: Random): string {
  return random.chance(0.8) ? random.pick(PROBES) : text(random).slice(0, 20_000);
}

/** A conversation. */
export function anyMessages(random: Random): { role: string; content: string }[] {
  const message = (role: string): { role: string; content: string } => ({ role, content: anyPrompt(random) });
  return random.pick([
    [message('user')],
    [message('user')],
    [message('user')],
    [message('system'), message('user')],
    [message('user'), message('assistant'), message('user')],
    [message('tool')],
  ]);
}

/** What a row may tell a chat template beside it. */
export function anyTemplateInput(random: Random): Pick<Row, 'tools' | 'templateArgs'> {
  return {
    ...(random.chance(0.2) && {
      tools: random.list(0, 2, () => ({ type: 'function', [word(random)]: anyJson(random) })),
    }),
    ...(random.chance(0.2) && {
      templateArgs: { enable_thinking: random.chance(0.5), [word(random)]: anyJson(random) },
    }),
  };
}

/**
 * A few rows of every kind, short: token ids always, so that a model that opens generates whatever its tokenizer says.
 */
export function anyRows(random: Random): RowInput[] {
  return [
    { tokens: random.list(1, 6, () => random.below(8)) },
    { prompt: anyPrompt(random) },
    { messages: anyMessages(random), ...anyTemplateInput(random) },
  ];
}

/** Two tokens a row, chosen this way or that. */
export function anyRunOptions(random: Random): RunOptions {
  return {
    maxNewTokens: 2,
    ignoreEos: random.chance(0.3),
    logprobs: random.pick([0, 0, 1]),
    ...(random.chance(0.3) && {
      temperature: 0.8,
      seed: random.below(9),
      topP: 0.9,
      topK: random.below(5),
      minP: 0.05,
      repetitionPenalty: 1.2,
    }),
    ...(random.chance(0.2) && { stop: [random.pick(['a', ' ', '\n', 'ab', '\u0000'])] }),
    ...(random.chance(0.2) && { escapeSpecialTokens: true }),
    ...(random.chance(0.1) && { reasoning: random.pick(['separate', 'drop'] as const) }),
    ...(random.chance(0.1) && { system: random.pick(PROBES) }),
    ...(random.chance(0.1) && { promptTemplate: 'a {{x}}', chat: random.chance(0.5) }),
  };
}

/** How the model is opened: mostly in memory as it is, now and then compressed, streamed, or spilled. */
export function anyEngineOptions(
  random: Random,
  { disk, cpuMemory }: { readonly disk: string; readonly cpuMemory: number },
): Omit<EngineOptions, 'model'> {
  const some = <T>(share: number, options: T): T | Record<string, never> => (random.chance(share) ? options : {});
  return {
    policy: 'default',
    threads: 1,
    batchSize: 3,
    tokensPerSquare: 64,
    cpuMemory,
    diskMemory: '64MiB',
    learn: false,
    disk,
    ...some(0.15, { precision: 'float32' as const }),
    ...some(0.1, { compressWeights: random.pick(['4bit', '8bit'] as const) }),
    ...some(0.1, { compressCache: random.pick(['4bit', '8bit'] as const) }),
    ...some(0.05, { sparseAttention: 0.5 }),
    ...some(0.06, { weights: { cpu: 0.5, disk: 0.5 } }),
    ...some(0.03, { cache: { cpu: 0.5, disk: 0.5 } }),
    ...some(0.03, { activations: { cpu: 0.5, disk: 0.5 } }),
    ...some(0.05, { instructionSet: 'scalar' as const }),
  };
}
