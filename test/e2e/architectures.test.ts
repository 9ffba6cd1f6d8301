import { describe, expect, test } from '@jest/globals';
import {
  BATCH_STRIDE,
  COMPUTE_PARTS,
  HEAD_MODES,
  type InstructionSet,
  type NativeHeadResult,
  type NativeRuntime,
} from '../../src/bindings/Addon.js';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import type { ModelSource } from '../../src/model/ModelSource.js';
import { fixtureModels, type ReferenceRow } from '../support/model/fixtureModels.js';
import { softmax } from '../support/model/PlainDecoder.js';
import { tries } from '../support/tries.js';

const addon = loadAddon();
const PAGE_TOKENS = 16;
const NEW_TOKENS = 12;
/**
 * Between float32 here and there, sums in another order: a tenth of what is asked for, so that a GELU of the other kind
 * is found.
 */
const TOLERANCE = 1e-4;

// Every family, weight type and rotary scaling, on the addon's own face: all prompts of a model in one batch, in
// float32. By day with this machine's best instructions: all have the same bits, which the kernels' tests look at.
const { instructionSets } = addon.machine();
const chosen = instructionSets.slice(tries(-1, 0));

describe.each(chosen)('on %s', (instructionSet: InstructionSet) => {
  for (const model of fixtureModels) {
    test(model.name, async () => {
      await model.use((source) => compare(source, model.rows, instructionSet));
    });
  }
});

async function compare(
  source: ModelSource,
  rows: readonly ReferenceRow[],
  instructionSet: InstructionSet,
): Promise<void> {
  const vocabulary = source.decoder.vocabularySize;
  const capacity = Math.max(...rows.map(({ tokens }) => tokens.length)) + NEW_TOKENS;
  const pagesPerRow = Math.ceil(capacity / PAGE_TOKENS);
  const prompts = rows.reduce((all, { tokens }) => all + tokens.length, 0);
  const runtime = addon.openRuntime({
    decoder: source.decoder,
    bindings: source.bindings,
    files: source.files,
    precision: 'float32',
    threads: 2,
    instructionSet,
    cache: {
      type: 'f32',
      pageTokens: PAGE_TOKENS,
      pages: pagesPerRow * rows.length,
      ...(source.decoder.recurrent && { states: rows.length }),
    },
    limits: { tokensPerSquare: prompts, rowsPerSquare: rows.length },
  });
  try {
    await runtime.load(() => undefined);
    const run = new Passes(runtime, source.decoder.layers, prompts, pagesPerRow);
    const remembers = source.decoder.recurrent !== undefined;
    await scoresAgree(run, rows, remembers);
    await greedyAgrees(run, rows, vocabulary, remembers);
  } finally {
    await runtime.close();
  }
}

const OPTIONS = { temperature: 0, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, seed: 0 };

async function scoresAgree(run: Passes, rows: readonly ReferenceRow[], remembers: boolean): Promise<void> {
  const scored = rows.filter(({ scores }) => scores.length > 0);
  const handles = scored.map(({ tokens }, state) =>
    run.runtime.createRow({
      ...OPTIONS,
      tokens: Int32Array.from(tokens),
      capacityTokens: tokens.length,
      logprobs: -1,
      ...(remembers && { state }),
    }),
  );
  const ranges = scored.map(({ tokens }, i) => ({
    row: handles[i] ?? -1,
    pages: i,
    first: 0,
    tokens: tokens.length,
    mode: HEAD_MODES.score,
  }));
  const head = await run.pass(ranges);
  expect([...head.scores]).toHaveLength(scored.reduce((all, { scores }) => all + scores.length, 0));
  const expected = scored.flatMap(({ scores }) => scores);
  expect(worst(head.scores, expected)).toBeLessThan(TOLERANCE);
  for (const handle of handles) run.runtime.freeRow(handle);
}

async function greedyAgrees(
  run: Passes,
  rows: readonly ReferenceRow[],
  vocabulary: number,
  remembers: boolean,
): Promise<void> {
  const handles = rows.map(({ tokens, logits }, state) =>
    run.runtime.createRow({
      ...OPTIONS,
      tokens: Int32Array.from(tokens),
      capacityTokens: tokens.length + NEW_TOKENS,
      logprobs: logits === undefined ? -1 : vocabulary,
      ...(remembers && { state }),
    }),
  );
  // Where the reference all but tied, any later id may differ: such a row is compared up to there.
  const open = new Set(rows.keys());
  for (let step = 0; step < NEW_TOKENS; step++) {
    const ranges = rows.map(({ tokens }, i) => ({
      row: handles[i] ?? -1,
      pages: i,
      first: step === 0 ? 0 : tokens.length + step - 1,
      tokens: step === 0 ? tokens.length : 1,
      mode: HEAD_MODES.sample,
    }));
    const head = await run.pass(ranges);
    expect([...head.rows]).toEqual(handles);
    if (step === 0) logitsAgree(head, rows, vocabulary);
    rows.forEach(({ greedy, margins }, i) => {
      if ((margins[step] ?? 0) <= 2 * TOLERANCE) open.delete(i);
      if (open.has(i)) expect({ row: i, step, token: head.tokens[i] }).toEqual({ row: i, step, token: greedy[step] });
    });
  }
  for (const handle of handles) run.runtime.freeRow(handle);
}

function logitsAgree(head: NativeHeadResult, rows: readonly ReferenceRow[], vocabulary: number): void {
  let at = 0;
  rows.forEach(({ logits }, i) => {
    expect(head.topCounts[i]).toBe(logits === undefined ? 0 : vocabulary);
    if (logits === undefined) return;
    const expected = softmax([...logits]).map(Math.log);
    const found = new Float64Array(vocabulary).fill(NaN);
    for (let k = 0; k < vocabulary; k++, at++) found[head.topTokens[at] ?? -1] = head.topLogprobs[at] ?? NaN;
    expect(worst(found, expected)).toBeLessThan(TOLERANCE);
  });
}

/** The largest difference; NaN anywhere is infinite. */
function worst(found: ArrayLike<number>, expected: readonly number[]): number {
  return expected.reduce((most, value, i) => {
    const difference = Math.abs((found[i] ?? NaN) - value);
    return Number.isNaN(difference) ? Infinity : Math.max(most, difference);
  }, 0);
}

interface Range {
  readonly row: number;
  /** Which share of the pages is the row's. */
  readonly pages: number;
  readonly first: number;
  readonly tokens: number;
  readonly mode: number;
}

/** Runs whole passes over all layers, one batch at a time. */
class Passes {
  readonly #waiting = new Map<
    number,
    { resolve: (head: NativeHeadResult | undefined) => void; reject: (error: Error) => void }
  >();
  readonly #activations: number;

  constructor(
    readonly runtime: NativeRuntime,
    readonly layers: number,
    tokens: number,
    readonly pagesPerRow: number,
  ) {
    this.#activations = runtime.createActivations(tokens);
    runtime.onCompleted(({ events, errors, heads }) => {
      for (let i = 0; i < events.length; i += 4) {
        const event = events[i] ?? -1;
        const waiter = this.#waiting.get(event);
        const error = errors.find((candidate) => candidate.event === event);
        if (error !== undefined) waiter?.reject(new Error(`${error.code}: ${error.message}`));
        else waiter?.resolve(heads.find((head) => head.event === event));
      }
    });
  }

  async pass(ranges: readonly Range[]): Promise<NativeHeadResult> {
    const fields = ranges.flatMap(({ row, first, tokens, mode }, i) => [
      row,
      first,
      tokens,
      mode,
      i * this.pagesPerRow,
      this.pagesPerRow,
      -1,
    ]);
    expect(fields).toHaveLength(ranges.length * BATCH_STRIDE);
    const pages = ranges.flatMap((range) =>
      Array.from({ length: this.pagesPerRow }, (_, page) => range.pages * this.pagesPerRow + page),
    );
    const batch = this.runtime.createBatch(Int32Array.from(fields), Int32Array.from(pages));
    const submit = (part: number, layer: number, after: readonly number[]): number =>
      this.runtime.submitCompute(part, layer, batch, this.#activations, after);
    let event = submit(COMPUTE_PARTS.embed, 0, []);
    for (let layer = 0; layer < this.layers; layer++) {
      for (const part of [COMPUTE_PARTS.project, COMPUTE_PARTS.attend, COMPUTE_PARTS.finish])
        event = submit(part, layer, [event]);
    }
    event = submit(COMPUTE_PARTS.head, 0, [event]);
    const head = await new Promise<NativeHeadResult | undefined>((resolve, reject) =>
      this.#waiting.set(event, { resolve, reject }),
    );
    this.#waiting.delete(event);
    this.runtime.freeBatch(batch);
    if (head === undefined) throw new Error('the head gave no result');
    return head;
  }
}
