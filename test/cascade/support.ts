import type { CascadeEngine } from '../../src/cascade/CascadeStage.js';
import type { RowInput, RowResult } from '../../src/Row.js';

export interface StubCalls {
  rows: number;
  open: number;
  mostOpen: number;
}

export function promptOf(row: RowInput): string {
  return 'prompt' in row && typeof row.prompt === 'string' ? row.prompt : '';
}

const usage = { promptTokens: 1, completionTokens: 1 };

/**
 * What answers as a model of that name would: its name and the prompt, as sure as `sure` says. Rows are read one ahead,
 * and end with a signal.
 */
export function stubEngine(
  name: string,
  sure: (prompt: string) => number,
  { calls, fails = () => false }: { calls?: StubCalls; fails?: (prompt: string) => boolean } = {},
): Required<Pick<CascadeEngine, 'generate' | 'classify' | 'resultIdentity'>> {
  const error = { code: 'too-long', message: `too long for ${name}` } as const;
  return {
    resultIdentity: { stub: name },
    async *generate(rows, options = {}) {
      for await (const row of rows) {
        if (options.signal?.aborted === true) throw new Error('told to end');
        if (calls) calls.rows += 1;
        const { id = -1, index = -1, carry } = row;
        const prompt = promptOf(row);
        const failure = 'error' in row ? row.error : fails(prompt) ? error : undefined;
        yield {
          id,
          index,
          text: failure ? '' : `${name}:${prompt}`,
          tokens: [],
          finishReason: failure ? 'error' : 'stop',
          usage,
          ...(failure ? { error: failure } : { confidence: sure(prompt) }),
          ...(carry && { carry }),
        } satisfies RowResult;
      }
    },
    async *classify(rows) {
      for await (const row of rows) {
        const { id = -1, index = -1 } = row;
        const probability = sure(promptOf(row));
        yield { id, index, label: `${name}:${promptOf(row)}`, probability, probabilities: {}, usage };
      }
    },
  };
}

/** As sure as the number in a prompt says. */
export const asWritten = (prompt: string): number => Number(/[\d.]+/.exec(prompt)?.[0] ?? 1);
