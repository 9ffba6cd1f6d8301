import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Engine } from '../../src/Engine.js';
import { InterruptedError } from '../../src/errors/InterruptedError.js';
import { SpillwayError, type ErrorCode } from '../../src/errors/SpillwayError.js';
import type { AnyResult } from '../../src/Results.js';
import type { RowInput, RowResult } from '../../src/Row.js';
import type { Tokenizer } from '../../src/model/Tokenizer.js';
import type { BaseImage } from './images/baseImages.js';
import { writeImage } from './images/writeImage.js';
import { mutatedImage } from './mutations/mutatedImage.js';
import { damagedStore } from './mutations/store.js';
import { mixed, Random } from './Random.js';
import { anyEngineOptions, anyRows, anyRunOptions } from './rows.js';

/** A case of the fuzzer: a well-formed model, and the seeds of what is changed about it, one after another. */
export interface Recipe {
  readonly base: string;
  readonly seeds: readonly number[];
}

/** What came of a case. */
export interface CaseOutcome {
  /** Where its files are, and whether they opened. */
  readonly path: string;
  readonly opened: boolean;
  /** Whether a row got a token, or of an encoder an answer; also one of text, of messages. */
  readonly generated: { readonly any: boolean; readonly text: boolean; readonly chat: boolean };
  /** Codes of documented errors, of rows, too. */
  readonly refusals: readonly string[];
  /** What must not happen, whatever the files say. */
  readonly findings: Finding[];
}

export class Finding extends Error {}

/** What a model's files, and memory that they ask for, may end in. */
const DOCUMENTED: ReadonlySet<ErrorCode> = new Set(['model-file', 'memory-budget', 'row']);
/** Folders for the model's files and for what is repacked or spilled. */
const MODEL = 'model';
const DISK = 'disk';

/** Processor time that generating may take before it is interrupted. */
const PATIENCE_SECONDS = 1;

/** Options that a model's layers leave no choice: those of a cache of latent rows, or of keys that layers share. */
function isOfCache({ code, message }: SpillwayError): boolean {
  return code === 'usage' && /^(cache|compressCache): found .* for a model of the family/.test(message);
}

/** Writes a case's files: `folder/model`, which is emptied. @returns the path to open */
export function writeCase(base: BaseImage, { seeds }: Recipe, folder: string): string {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, MODEL), { recursive: true });
  return writeImage(join(folder, MODEL), seeds.reduce(mutatedImage, base.image));
}

/**
 * Opens a case's model, tokenizes, generates a few rows, scores a text now and then, and where its layers stream
 * damages what was repacked and opens it again.
 */
export async function runCase(
  base: BaseImage,
  recipe: Recipe,
  folder: string,
  cpuMemory: number,
): Promise<CaseOutcome> {
  const path = writeCase(base, recipe, folder);
  const random = new Random(mixed(...recipe.seeds));
  const options = { ...anyEngineOptions(random, { disk: join(folder, DISK), cpuMemory }), model: path };
  const rows = anyRows(random);
  const run = anyRunOptions(random);
  const refusals: string[] = [];
  const findings: Finding[] = [];
  const results: RowResult[] = [];
  let opened = false;
  let answered = 0;
  const attempt = async (what: () => Promise<unknown>, documented = DOCUMENTED): Promise<void> => {
    try {
      await what();
    } catch (error) {
      // An encoder is not opened with all options.
      const isRefusal = (known: SpillwayError): boolean =>
        documented.has(known.code) || isOfCache(known) || /, an encoder, expected none/.test(known.message);
      if (error instanceof SpillwayError && isRefusal(error)) refusals.push(error.code);
      else findings.push(error instanceof Finding ? error : new Finding(describe(error), { cause: error }));
    }
  };
  const generate = async (): Promise<void> => {
    const engine = await Engine.open(options);
    opened = true;
    // A model may have room for a million tokens, and a normalizer may make as many of a prompt: computing them takes
    // its time, which whoever started it can end.
    const controller = new AbortController();
    const begun = processorSeconds();
    const patience = setInterval(() => processorSeconds() - begun > PATIENCE_SECONDS && controller.abort(), 100);
    try {
      if (random.chance(0.5)) await attempt(async () => useTokenizer(engine.tokenizer, random));
      if (isEncoder(engine)) {
        answered += await encode(engine, random, attempt, controller.signal);
        return;
      }
      for await (const row of engine.generate(rows, { ...run, signal: controller.signal })) {
        results.push(row);
        await attempt(async () => checkRow(row, engine.tokenizer.vocabularySize));
      }
      if (random.chance(0.15)) {
        // Labels and completions are the run's own: a model that cannot have them refuses the run.
        await answerOtherwise(engine, rows, random, controller.signal).catch((error: unknown) => {
          if (!(error instanceof SpillwayError && error.code === 'usage')) throw error;
          refusals.push(error.code);
        });
      }
      // A model's context may be too short for any window.
      if (random.chance(0.1))
        await attempt(() => engine.perplexity([1, 2, 3], { window: 2 }), new Set([...DOCUMENTED, 'usage']));
    } catch (error) {
      if (!(controller.signal.aborted && error instanceof InterruptedError)) throw error;
      refusals.push('interrupted');
    } finally {
      clearInterval(patience);
      await engine.close();
    }
  };
  await attempt(generate);
  const generated = (index: number): boolean =>
    results.some((row) => row.index === index && row.usage.completionTokens > 0);
  const any = answered > 0 || results.some((row) => row.usage.completionTokens > 0);
  const tokens = { any, text: generated(1), chat: generated(2) };
  refusals.push(...results.flatMap(({ error }) => (error ? [`row ${error.code}`] : [])));
  for (const store of storesOf(join(folder, DISK))) {
    writeFileSync(store, damagedStore(random, readFileSync(store)));
    // Streaming reads while it generates: a task may meet the damage.
    await attempt(generate, new Set([...DOCUMENTED, 'task']));
  }
  return { path, opened, generated: tokens, refusals, findings };
}

/** A model that generates nothing says so before rows are read. */
function isEncoder(engine: Engine): boolean {
  try {
    engine.generate([]);
    return false;
  } catch (error) {
    if (error instanceof SpillwayError && error.message.includes('an encoder')) return true;
    throw error;
  }
}

/** All that an encoder does, of which it refuses most. @returns how many rows it has answered */
async function encode(
  engine: Engine,
  random: Random,
  attempt: (what: () => Promise<unknown>, documented: ReadonlySet<ErrorCode>) => Promise<void>,
  signal: AbortSignal,
): Promise<number> {
  let answered = 0;
  const rows = anyRows(random);
  const texts = rows.map((row) => ('prompt' in row && typeof row.prompt === 'string' ? row.prompt : 'a b'));
  const pairs = texts.map((query) => ({ query, documents: texts }));
  const vectorType = random.pick(['float32', 'float16', 'int8', 'binary'] as const);
  for (const answers of [
    () =>
      engine.embed(rows, { pooling: random.pick(['auto', 'last', 'mean', 'cls', 'max'] as const), vectorType, signal }),
    () => engine.rerank(pairs, { truncate: random.pick(['off', 'tail'] as const), signal }),
    () => engine.classify(rows, { signal }),
    () => engine.classify(rows, { labels: ['a', 'b'], signal }),
  ])
    await attempt(
      async () => {
        answered += await checkAnswers(answers() as AsyncIterable<AnyResult>);
      },
      new Set([...DOCUMENTED, 'usage']),
    );
  return answered;
}

/** The same rows, embedded, told apart by labels, or scored. */
async function answerOtherwise(
  engine: Engine,
  rows: readonly RowInput[],
  random: Random,
  signal: AbortSignal,
): Promise<void> {
  const texts = random.pick([['a', 'b'], [' yes', ' no', 'maybe'], ['\u0000']]);
  const answers = random.pick([
    () => engine.embed(rows, { pooling: random.pick(['auto', 'last', 'mean', 'cls'] as const), signal }),
    () => engine.classify(rows, { labels: texts, signal }),
    () => engine.score(rows, { completions: texts, signal }),
  ])();
  await checkAnswers(answers as AsyncIterable<AnyResult>);
}

/** @returns how many are no errors @throws Finding for one that says what none may say */
async function checkAnswers(answers: AsyncIterable<AnyResult>): Promise<number> {
  let answered = 0;
  for await (const { error, embedding, probabilities, scores } of answers) {
    const numbers = [
      ...(typeof embedding === 'object' ? embedding : []),
      ...Object.values(probabilities ?? {}),
      ...(scores ?? []).map((each) => ('logprob' in each ? each.logprob : each.logit)),
    ];
    if (numbers.length > 0 === (error !== undefined) || !numbers.every(Number.isFinite))
      throw new Finding(`impossible answer: ${error?.code ?? 'no error'} and ${numbers.slice(0, 9).join(' ')}`);
    if (!error) answered++;
  }
  return answered;
}

function processorSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

function describe(error: unknown): string {
  if (error instanceof SpillwayError) return `error ${error.code}: ${error.message}`;
  return error instanceof Error
    ? `undocumented error: ${error.constructor.name}: ${error.message}`
    : `undocumented error: ${String(error)}`;
}

/** @throws Finding for a result that says what none may say */
function checkRow(row: RowResult, vocabularySize: number): void {
  const fail = (what: string): never => {
    throw new Finding(`impossible row: ${what} in ${JSON.stringify(row).slice(0, 400)}`);
  };
  if (row.tokens.some((token) => !Number.isInteger(token) || token < 0 || token >= vocabularySize))
    fail('a token out of range');
  if (row.tokens.length !== row.usage.completionTokens) fail('a count that is none of its tokens');
  if (row.finishReason !== 'error' && row.logprobs?.some(({ logprob }) => !Number.isFinite(logprob)))
    fail('a log-probability that is not finite');
  if ((row.finishReason === 'error') !== (row.error !== undefined)) fail('an error and another reason');
}

/** What generation uses of a tokenizer, on more of it: ids of all kinds, texts of all kinds. */
function useTokenizer(tokenizer: Tokenizer, random: Random): void {
  for (const row of anyRows(random))
    if ('prompt' in row && row.prompt !== undefined) tokenizer.encode(row.prompt, { parseSpecial: random.chance(0.5) });
  const id = (): number => random.below(tokenizer.vocabularySize);
  const again = id();
  // Patterns that go back and forth do so over the same thing many times. Seldom so many: each takes a clock of its
  // own.
  const ids = [
    ...random.list(0, 100, id),
    ...random.list(0, random.pick([0, 0, 0, 40, 40, 40, 40, 2000]), () => again),
    ...random.list(0, 3, id),
  ];
  const stream = tokenizer.stream();
  const streamed = ids.map((id) => stream.push(id)).join('') + stream.end();
  if (streamed !== tokenizer.decode(ids))
    throw new Finding(`streams differ: ids ${ids.join(' ')} streamed are not what they are decoded`);
  for (const each of ids.slice(0, 5)) tokenizer.text(each);
}

function storesOf(folder: string): string[] {
  try {
    return readdirSync(folder)
      .filter((name) => name.endsWith('.weights'))
      .map((name) => join(folder, name));
  } catch {
    return [];
  }
}
