import { setTimeout as sleep } from 'node:timers/promises';
import { InterruptedError } from '../../../src/errors/InterruptedError.js';
import type { RowInput, RowResult } from '../../../src/Row.js';
import type { CallOptions, ServedEngine, ServedEvent, ServedResults } from '../../../src/serve/ServeOptions.js';

export interface StubOptions {
  /** How long a token takes; 0: a turn of the event loop. */
  readonly tokenMilliseconds?: number;
  /** Rows that are answered at once. */
  readonly places?: number;
}

/**
 * Answers rows as an engine does, by rule: a row's answer are words that follow from its prompt, as many as it may
 * have. Rows of a higher priority come first, a row whose call is given up gives back its place.
 */
export class StubEngine implements ServedEngine {
  readonly resultIdentity = { stub: 1 };
  /** Rows under way, the most that there were, those that were given up, and results. */
  active = 0;
  most = 0;
  dropped = 0;
  results = 0;
  closed = false;
  readonly #waiting: { readonly priority: number; readonly go: () => void }[] = [];

  constructor(private readonly options: StubOptions = {}) {}

  generate(
    rows: AsyncIterable<RowInput> | Iterable<RowInput>,
    { signal, priority = 0, maxNewTokens = 8 }: CallOptions & { readonly maxNewTokens?: number } = {},
  ): ServedResults {
    const events = (): AsyncGenerator<ServedEvent, void, undefined> =>
      this.#events(rows, priority, maxNewTokens, signal ?? new AbortController().signal);
    return {
      events,
      stats: Promise.resolve({ sharing: { promptTokensSaved: 1, rowsEqual: 0, rowsReused: 0 } }),
      async *[Symbol.asyncIterator]() {
        for await (const event of events()) if (event.type === 'result') yield event.result;
      },
    };
  }

  async close(): Promise<void> {
    this.closed = true;
  }

  /** One row after another of a call, as many at once as there are places. */
  async *#events(
    rows: AsyncIterable<RowInput> | Iterable<RowInput>,
    priority: number,
    most: number,
    signal: AbortSignal,
  ): AsyncGenerator<ServedEvent, void, undefined> {
    const ready: ServedEvent[] = [];
    const over = new AbortController();
    signal.addEventListener('abort', () => over.abort(), { signal: over.signal });
    let [wake, open, ended] = [(): void => undefined, 0, false];
    let failure: Error | undefined;
    const push = (event: ServedEvent): void => {
      ready.push(event);
      wake();
    };
    const ahead = 64;
    void (async () => {
      try {
        let at = 0;
        for await (const row of rows) {
          while (open >= ahead) await new Promise<void>((resolve) => setTimeout(resolve, 1));
          if (over.signal.aborted) break;
          open += 1;
          void this.#row(row, at++, priority, most, over.signal, push).finally(() => {
            open -= 1;
            wake();
          });
        }
      } catch (error) {
        failure = error as Error;
      }
      ended = true;
      wake();
    })();
    try {
      for (;;) {
        const event = ready.shift();
        if (event) yield event;
        else if (signal.aborted) throw new InterruptedError(signal.reason);
        else if (failure !== undefined) throw failure;
        else if (ended && open === 0) return;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      over.abort();
    }
  }

  async #row(
    row: RowInput,
    at: number,
    priority: number,
    most: number,
    signal: AbortSignal,
    push: (event: ServedEvent) => void,
  ): Promise<void> {
    const { id = at + 1, index = at, carry } = row;
    const carried = carry ? { carry } : {};
    const ends = {
      text: '',
      tokens: [],
      finishReason: 'error' as const,
      usage: { promptTokens: 0, completionTokens: 0 },
    };
    if ('error' in row) {
      push({ type: 'result', result: { id, index, ...ends, error: row.error, ...carried } });
      return;
    }
    const { places = 64, tokenMilliseconds = 0 } = this.options;
    if (this.active >= places)
      await new Promise<void>((go) => {
        this.#waiting.push({ priority, go });
        this.#waiting.sort((a, b) => b.priority - a.priority);
      });
    this.active += 1;
    this.most = Math.max(this.most, this.active);
    const prompt = promptOf(row);
    const count = row.maxNewTokens ?? most;
    const words = wordsOf(prompt, count);
    for (let sample = 0; sample < (row.samples ?? 1); sample++) {
      const which = row.samples === undefined ? {} : { sample };
      for (const [token, word] of words.entries()) {
        await (tokenMilliseconds > 0
          ? sleep(tokenMilliseconds)
          : new Promise<void>((resolve) => setImmediate(resolve)));
        if (signal.aborted) break;
        push({ type: 'delta', delta: { id, index, ...which, text: word, tokens: [token] } });
      }
      if (signal.aborted) break;
      const usage = { promptTokens: prompt.length, completionTokens: count };
      const result: RowResult = {
        id,
        index,
        ...which,
        text: words.join(''),
        tokens: words.map((_, token) => token),
        finishReason: 'length',
        usage,
        ...carried,
      };
      this.results += 1;
      push({ type: 'result', result });
    }
    if (signal.aborted) this.dropped += 1;
    this.active -= 1;
    this.#waiting.shift()?.go();
  }
}

function promptOf(row: RowInput): string {
  const { prompt, messages, tokens } = row as { prompt?: string; messages?: unknown; tokens?: unknown };
  return prompt ?? JSON.stringify(messages ?? tokens ?? null);
}

/** Words that follow from a text. */
export function wordsOf(prompt: string, count: number): readonly string[] {
  let state = 7;
  for (const unit of prompt) state = (state * 31 + (unit.codePointAt(0) ?? 0)) % 1_000_003;
  return Array.from({ length: count }, (_, at) => `${at === 0 ? '' : ' '}${((state * (at + 1)) % 9973).toString(36)}`);
}
