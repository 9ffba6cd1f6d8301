import { COMPUTE_PARTS, HEAD_MODES, type NativeHeadResult, type NativeRuntime } from '../../src/bindings/Addon.js';

/** How a task of the addon ended badly. */
export interface TaskFailure {
  readonly code: string;
  readonly message: string;
}

const PAGES = 4;
const ROW = { temperature: 0, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, seed: 0 };

/**
 * Runs one row at a time on the addon's own face; layers that stream go through the buffers in turn, loads running
 * ahead of computing.
 */
export class StreamedPasses {
  readonly #waiting = new Map<number, (outcome: NativeHeadResult | TaskFailure | undefined) => void>();
  readonly #activations: number;
  /** The last task that computes with each buffer. */
  readonly #lastUses: (number | undefined)[];
  #next = 0;

  constructor(
    readonly runtime: NativeRuntime,
    readonly layers: number,
    tokens: number,
    readonly buffers: number,
    /** Experts are left out of loads. */
    private readonly chosen = false,
  ) {
    this.#activations = runtime.createActivations(tokens);
    this.#lastUses = new Array<number | undefined>(buffers).fill(undefined);
    runtime.onCompleted(({ events, errors, heads }) => {
      for (let i = 0; i < events.length; i += 4) {
        const event = events[i] ?? -1;
        this.#waiting.get(event)?.(
          errors.find((error) => error.event === event) ?? heads.find((head) => head.event === event),
        );
      }
    });
  }

  /** What a task came to: undefined if it succeeded without a result. */
  outcome(event: number): Promise<NativeHeadResult | TaskFailure | undefined> {
    return new Promise((resolve) => this.#waiting.set(event, resolve));
  }

  /** A batch of one row, at positions `first` and on. */
  batch(row: number, first: number, tokens: number, mode: number): number {
    return this.runtime.createBatch(
      Int32Array.of(row, first, tokens, mode, 0, PAGES, -1),
      Int32Array.from({ length: PAGES }, (_, page) => page),
    );
  }

  compute(
    part: keyof typeof COMPUTE_PARTS,
    layer: number,
    batch: number,
    after: readonly number[],
    buffer?: number,
  ): number {
    return this.runtime.submitCompute(COMPUTE_PARTS[part], layer, batch, this.#activations, after, buffer);
  }

  /** @throws Error with code and message of the first task that failed */
  async pass(batch: number): Promise<NativeHeadResult> {
    const events = [this.compute('embed', 0, batch, [])];
    for (let layer = 0; layer < this.layers; layer++) {
      const streams = (this.runtime.bytes.streamed[layer] ?? 0) > 0;
      const buffer = streams ? this.#next++ % this.buffers : -1;
      const after: number[] = [];
      if (streams) {
        const lastUse = this.#lastUses[buffer];
        after.push(this.runtime.submitLoadWeight(layer, buffer, lastUse === undefined ? [] : [lastUse], this.chosen));
        events.push(...after);
      }
      events.push(this.compute('project', layer, batch, after, buffer), this.compute('attend', layer, batch, []));
      const last = this.compute('finish', layer, batch, after, buffer);
      events.push(last);
      if (streams) this.#lastUses[buffer] = last;
    }
    events.push(this.compute('head', 0, batch, []));
    const outcomes = await Promise.all(events.map((event) => this.outcome(event)));
    this.runtime.freeBatch(batch);
    const failure = outcomes.find((outcome) => outcome !== undefined && 'code' in outcome);
    if (failure !== undefined) throw new Error(`${failure.code}: ${failure.message}`);
    const head = outcomes.at(-1);
    if (head === undefined || 'code' in head) throw new Error('the head gave no result');
    return head;
  }

  /** Scores of a text, and a greedy continuation of it with its log-probabilities. */
  async everything(
    tokens: readonly number[],
    newTokens: number,
    remembers = false,
  ): Promise<{ scores: number[]; tokens: number[]; logprobs: number[] }> {
    const scored = this.runtime.createRow({
      ...ROW,
      tokens: Int32Array.from(tokens),
      capacityTokens: tokens.length,
      logprobs: -1,
      ...(remembers && { state: 0 }),
    });
    const { scores } = await this.pass(this.batch(scored, 0, tokens.length, HEAD_MODES.score));
    this.runtime.freeRow(scored);
    const grown = this.runtime.createRow({
      ...ROW,
      tokens: Int32Array.from(tokens),
      capacityTokens: tokens.length + newTokens,
      logprobs: 2,
      ...(remembers && { state: 0 }),
    });
    const result = { scores: [...scores], tokens: [] as number[], logprobs: [] as number[] };
    for (let step = 0; step < newTokens; step++) {
      const head = await this.pass(
        this.batch(grown, step === 0 ? 0 : tokens.length + step - 1, step === 0 ? tokens.length : 1, HEAD_MODES.sample),
      );
      result.tokens.push(...head.tokens);
      result.logprobs.push(...head.logprobs, ...head.topLogprobs);
    }
    this.runtime.freeRow(grown);
    return result;
  }
}
