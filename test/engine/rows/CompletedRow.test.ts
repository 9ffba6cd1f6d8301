import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Continuation } from '../../../src/engine/execution/RunRow.js';
import { CompletedRow } from '../../../src/engine/rows/CompletedRow.js';
import type { HeadOutput } from '../../../src/engine/grid/Task.js';

/** Long enough for few at a time. */
const PROMPT = Array.from({ length: 2048 }, (_, at) => at % 7);
/** What a model says of a token after others, made up. */
const logprobOf = (tokens: readonly number[]): number =>
  -Math.abs(Math.sin(tokens.reduce((sum, token) => (sum * 31 + token) % 10_007, 7)));

test('completions go on behind their prompt a few at a time; all of them are scored, as each by itself', () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 4 }), {
        minLength: 1,
        maxLength: 300,
      }),
      fc.infiniteStream(fc.nat()),
      (completions, draws) => {
        const row = new CompletedRow<number[][]>(PROMPT, completions, {
          scored: (logprobs) => logprobs.map((each) => [...each]),
          failed: (error) => {
            throw error;
          },
        });
        const { candidates = [] } = row.sequence;
        const top = candidates.map((token) => ({ token, logprob: logprobOf([...PROMPT, token]) }));
        const first: HeadOutput = { sampled: new Map([[0, { token: 0, logprob: 0, top }]]), scored: new Map() };
        let end = row.accept(first, 0);
        const waiting = end instanceof Continuation ? [...end.rows] : [];
        let most = waiting.length;
        while (waiting.length > 0) {
          const [next] = waiting.splice((draws.next().value as number) % waiting.length, 1);
          if (!next) break;
          const { tokens } = next.sequence;
          const scores = tokens
            .slice(PROMPT.length + 1)
            .map((_, at) => logprobOf(tokens.slice(0, PROMPT.length + 2 + at)));
          end = next.accept(
            { sampled: new Map(), scored: new Map([[1, Float32Array.from(scores)]]) },
            1,
            PROMPT.length,
          );
          if (end instanceof Continuation) waiting.push(...end.rows);
          most = Math.max(most, waiting.length);
        }
        expect(most).toBeLessThanOrEqual(64);
        expect(end).toEqual(
          completions.map((completion) =>
            completion.map((_, at) => {
              const value = logprobOf([...PROMPT, ...completion.slice(0, at + 1)]);
              return at === 0 ? value : Math.fround(value);
            }),
          ),
        );
      },
    ),
  );
});
