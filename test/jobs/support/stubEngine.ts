import type { GenerateOptions, RowInput, RowResult } from '../../../src/Row.js';

export interface StubOptions {
  /** Rows in the engine at once. Default 4. */
  readonly width?: number;
  /** Milliseconds that a row takes; called once a row. Default 0. */
  readonly delay?: (index: number) => number;
  /** Ends the run with an error when this row is admitted. */
  readonly failAt?: number;
  /** What the answer to a prompt has beside, or instead. */
  readonly answer?: (prompt: string) => Partial<RowResult>;
}

/**
 * A stand-in for Engine with its contract and no model: the answer to a prompt is the prompt in capitals, one token a
 * character. It imports nothing, so that a test may compile this one file and run it in a process of its own.
 */
export class StubEngine {
  /** Ids of the rows that were admitted, in order. */
  readonly admitted: (string | number)[] = [];
  readonly source = { files: [] as string[] };

  constructor(private readonly stub: StubOptions = {}) {}

  async *generate(
    rows: AsyncIterable<RowInput>,
    options: GenerateOptions = {},
  ): AsyncGenerator<RowResult, void, undefined> {
    const { width = 4, delay = () => 0, failAt, answer: more } = this.stub;
    const iterator = rows[Symbol.asyncIterator]();
    const active = new Map<number, Promise<RowResult>>();
    let count = 0;
    let ended = false;
    try {
      for (;;) {
        while (!ended && active.size < width) {
          const step = await iterator.next();
          if (step.done === true) {
            ended = true;
            break;
          }
          const index = step.value.index ?? count;
          count += 1;
          if (index === failAt) throw new Error('the stub failed as asked');
          this.admitted.push(step.value.id ?? index + 1);
          active.set(
            index,
            sleep(delay(index)).then(() => answer(step.value, index, more)),
          );
        }
        if (active.size === 0) return;
        if (options.signal?.aborted === true) throw new Error('the stub was aborted');
        const first = Math.min(...active.keys());
        const result = await (options.order === 'completion' ? Promise.race(active.values()) : active.get(first));
        if (result === undefined) return;
        active.delete(result.index);
        yield result;
      }
    } finally {
      await iterator.return?.();
    }
  }
}

function answer(row: RowInput, index: number, more: StubOptions['answer'] = () => ({})): RowResult {
  const common = { id: row.id ?? index + 1, index, ...(row.carry === undefined ? {} : { carry: row.carry }) };
  if ('error' in row) {
    return {
      ...common,
      text: '',
      tokens: [],
      finishReason: 'error',
      usage: { promptTokens: 0, completionTokens: 0 },
      error: row.error,
    };
  }
  const prompt = row.prompt ?? JSON.stringify(row.messages ?? row.tokens);
  const text = prompt.toUpperCase();
  const tokens = Array.from(text, (character) => character.codePointAt(0) ?? 0);
  return {
    ...common,
    text,
    tokens,
    finishReason: 'stop',
    usage: { promptTokens: 1, completionTokens: tokens.length },
    ...more(prompt),
  };
}

function sleep(milliseconds: number): Promise<void> {
  return milliseconds <= 0 ? Promise.resolve() : new Promise((resolve) => setTimeout(resolve, milliseconds));
}
