import type { RowInput, RowResult } from '../../../src/Row.js';

/** What becomes of a sample: an answer, an error of its own, or the end of the run before it. */
export type Fate = 'answered' | 'failed' | 'stopped';

/**
 * A stand-in for an engine that draws samples: sample k of a prompt is the prompt in capitals with k after it. Rows
 * without samples have one answer that says none.
 */
export class SampledEngine {
  constructor(
    private readonly stub: {
      /** Default: all are answered. */
      readonly fate?: (prompt: string, sample: number) => Fate;
      /** Rows that are refused as a whole. Default: none. */
      readonly refuses?: (prompt: string) => boolean;
      /** In which order results come, of all rows. Default: as rows come. */
      readonly sorted?: (results: RowResult[]) => RowResult[];
    } = {},
  ) {}

  async *generate(rows: AsyncIterable<RowInput>): AsyncGenerator<RowResult, void, undefined> {
    const { fate = () => 'answered', refuses = () => false, sorted } = this.stub;
    const held: RowResult[] = [];
    for await (const row of rows) {
      const { id = '', index = 0, carry } = row;
      const prompt = 'prompt' in row ? (row.prompt ?? JSON.stringify(row.messages)) : '';
      const refusal = 'error' in row ? row.error : refuses(prompt) ? MEMORY : undefined;
      const wanted: readonly (number | undefined)[] = ('wantedSamples' in row && row.wantedSamples) || [undefined];
      for (const sample of refusal ? [undefined] : wanted) {
        const how = refusal ? 'failed' : fate(prompt, sample ?? 0);
        if (how === 'stopped') throw new Error('the stub was stopped');
        const result: RowResult = {
          id,
          index,
          ...(sample !== undefined && { sample }),
          text: how === 'failed' ? '' : `${prompt.toUpperCase()}${sample ?? ''}`,
          tokens: [1],
          finishReason: how === 'failed' ? 'error' : 'stop',
          usage: { promptTokens: 1, completionTokens: 1 },
          ...(how === 'failed' && { error: refusal ?? TIMEOUT }),
          ...(carry && { carry }),
        };
        if (sorted) held.push(result);
        else yield result;
      }
    }
    yield* sorted?.(held) ?? [];
  }
}

const MEMORY = { code: 'memory', message: 'found no room' } as const;
const TIMEOUT = { code: 'timeout', message: 'took too long' } as const;
