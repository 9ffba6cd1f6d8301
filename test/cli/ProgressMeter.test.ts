import { PassThrough } from 'node:stream';
import { describe, expect, test } from '@jest/globals';
import { rowProgress, describeRun } from '../../src/cli/generateReport.js';
import type { RunStats } from '../../src/RunStats.js';
import { barLine, formatDuration, ProgressMeter, type ProgressMode } from '../../src/cli/ProgressMeter.js';

function meter(
  mode: ProgressMode,
  isTTY: boolean,
): { meter: ProgressMeter; written: () => string; advance: (seconds: number) => void } {
  const stream = Object.assign(new PassThrough(), { isTTY, columns: 120 });
  let now = 100;
  return {
    meter: new ProgressMeter(mode, stream, () => now),
    written: () => String(stream.read() ?? ''),
    advance: (seconds) => {
      now += seconds;
    },
  };
}

describe('ProgressMeter', () => {
  test.each([true, false])('off, terminal %s: nothing at all', (isTTY) => {
    const { meter: shown, written, advance } = meter('off', isTTY);
    shown.show('rows', { done: 1, total: 2, words: 'x' });
    advance(100);
    shown.show('rows', { done: 2, total: 2, words: 'x' });
    shown.stop();
    expect(written()).toBe('');
  });

  test('auto, no terminal: a line every thirty seconds, the first of what has taken so long', () => {
    const { meter: shown, written, advance } = meter('auto', false);
    for (let second = 0; second < 95; second += 1) {
      shown.show(second < 10 ? 'loading' : 'rows', { done: second, total: 200, words: '5 tokens/s' });
      advance(1);
    }
    shown.stop();
    expect(written()).toBe('rows: 30/200, 5 tokens/s\nrows: 60/200, 5 tokens/s\nrows: 90/200, 5 tokens/s\n');
  });

  test('on, no terminal: a line every five seconds, and one at once for a new piece of work', () => {
    const { meter: shown, written, advance } = meter('on', false);
    shown.show('loading', { done: 1, total: 9, words: 'MiB' });
    for (let second = 0; second < 12; second += 1) {
      shown.show('rows', { done: second, total: 20, words: '5 tokens/s' });
      advance(1);
    }
    shown.show('rows', { done: 12, words: 'total unknown' });
    shown.stop();
    expect(written()).toBe(
      'loading: 1/9, MiB\nrows: 0/20, 5 tokens/s\nrows: 5/20, 5 tokens/s\nrows: 10/20, 5 tokens/s\n',
    );
  });

  test('a terminal: a bar with its words, and the cursor is there again afterwards', () => {
    const { meter: shown, written } = meter('auto', true);
    shown.show('rows', { done: 3, total: 20, words: '5 tokens/s' });
    shown.stop();
    const text = written();
    expect(text).toContain('3/20 | 5 tokens/s');
    expect(text.lastIndexOf('\u001b[?25h')).toBeGreaterThan(text.lastIndexOf('\u001b[?25l'));
  });
});

test('the words of a run', () => {
  const progress = {
    rowsDone: 9,
    rowsFailed: 1,
    rowsActive: 4,
    promptTokens: 5,
    generatedTokens: 50,
    seconds: 20,
    tokensPerSecond: 12.6,
    sharing: { promptTokensSaved: 0, rowsEqual: 0, rowsReused: 0 },
  };
  expect(rowProgress(progress, 50, 10)).toEqual({
    done: 20,
    total: 50,
    words: '0:47 left, 13 tokens/s, 1 with an error',
  });
  expect(rowProgress(progress, undefined, 0)).toEqual({
    done: 10,
    total: undefined,
    words: '13 tokens/s, 1 with an error',
  });
  expect(rowProgress({ ...progress, rowsDone: 0, rowsFailed: 0 }, 50, 0).words).toBe('13 tokens/s');
  expect(
    rowProgress(
      { ...progress, promptTokens: 200, sharing: { promptTokensSaved: 167, rowsEqual: 1, rowsReused: 2 } },
      15,
      10,
    ).words,
  ).toBe('13 tokens/s, 1 with an error, 84% of the prompts shared, 2 from earlier runs, 1 equal row');
  expect(describeRun({ rows: 1, done: 1, failed: 0, kept: 0, keptFailed: 0 }, undefined, 1.25)).toBe('1 row, 1.3 s');
  // Where nothing was computed there is no rate of tokens.
  const stats = {
    rows: { done: 9, failed: 0, cut: 0, truncated: 0, begunTwice: 0 },
    tokens: { prompt: 0, generated: 0 },
    tokensPerSecond: { generated: 0, prompt: 0 },
    seconds: { load: 0 },
    sharing: { promptTokensSaved: 0, rowsEqual: 0, rowsReused: 9 },
  } as unknown as RunStats;
  expect(describeRun({ rows: 9, done: 9, failed: 0, kept: 0, keptFailed: 0 }, stats, 2)).toBe(
    '9 rows, 0 prompt tokens in 2.0 s, 4.5 rows/s, 9 from earlier runs',
  );
  // Answers that end in the middle are told, unless all go on to their limit.
  const cut = { ...stats, rows: { done: 7, failed: 2, cut: 3, truncated: 0, begunTwice: 0 } };
  const summary = { rows: 9, done: 9, failed: 2, kept: 0, keptFailed: 0 };
  expect(describeRun(summary, cut, 2)).toMatch(
    /^9 rows \(2 with an error, 3 cut off at the limit of new tokens, which --max-new-tokens raises\), /,
  );
  expect(describeRun(summary, cut, 2, true)).toMatch(/^9 rows \(2 with an error\), /);
  const twice = { ...stats, rows: { done: 9, failed: 0, cut: 0, truncated: 0, begunTwice: 2 } };
  expect(describeRun({ ...summary, failed: 0 }, twice, 2)).toMatch(
    /^9 rows \(2 whose prompt has the begin token twice: in its text, where it is to be left out\), /,
  );
  expect([0, 59.6, 61, 3600, 36_061].map(formatDuration)).toEqual(['0:00', '1:00', '1:01', '1:00:00', '10:01:01']);
});

describe('the time that is left', () => {
  /** Rows of one block after another, all of a block under way at once, answers of these lengths (in seconds). */
  function* run(
    rows: number,
    places: number,
    seconds: (row: number) => number,
  ): Generator<{ at: number; done: number; active: number }> {
    const ends: number[] = [];
    const free = Array.from({ length: places }, () => 0);
    for (let row = 0; row < rows; row++) {
      const place = free.indexOf(Math.min(...free));
      ends.push((free[place] = (free[place] ?? 0) + seconds(row)));
    }
    for (const at of [...ends].sort((a, b) => a - b))
      yield {
        at,
        done: ends.filter((end) => end <= at).length,
        active: Math.min(places, ends.filter((end) => end > at).length),
      };
  }

  test.each([
    [200, 64, 'equal'],
    [500, 64, 'drawn'],
    [128, 128, 'drawn'],
    [1000, 8, 'drawn'],
  ] as const)(
    '%d rows, %d at once, answers of %s lengths: never told three times too long, from the first row on',
    (rows, places, lengths) => {
      const states = [...run(rows, places, (row) => (lengths === 'equal' ? 10 : 2 + ((row * 7919) % 97) / 8))];
      const end = states.at(-1)?.at ?? 0;
      for (const { at, done, active } of states) {
        const { words } = rowProgress(
          {
            rowsDone: done,
            rowsFailed: 0,
            rowsActive: active,
            promptTokens: 0,
            generatedTokens: 0,
            seconds: at,
            tokensPerSecond: 1,
            sharing: { promptTokensSaved: 0, rowsEqual: 0, rowsReused: 0 },
          },
          rows,
          0,
        );
        const [minutes = NaN, seconds = NaN] = (/^(\d+):(\d+) left/.exec(words) ?? []).slice(1).map(Number);
        expect(minutes * 60 + seconds).toBeLessThanOrEqual(3 * (end - at) + 12);
      }
    },
  );
});

describe('a line of progress', () => {
  const words = '1:02:03 left, 1234 tokens/s, 12 with an error, 84% of the prompts shared, 2 from earlier runs';

  test.each([20, 40, 80, 120, 200])('fits into %d columns', (columns) => {
    for (const total of [undefined, 0, 7, 2_000_000])
      for (const done of [0, 3, 7]) {
        expect(
          barLine('reading the model, once, to know it again', { done, total, words }, columns).length,
        ).toBeLessThan(columns);
        expect(barLine('rows', { done, total, words: '' }, columns).length).toBeLessThan(columns);
      }
  });

  test('has the usual width on a terminal that does not say its own, or says 0', () => {
    const state = { done: 5, total: 10, words: '0:10 left' };
    expect(barLine('rows', state, 0)).toBe(barLine('rows', state, 80));
    expect(barLine('rows', state)).toBe(barLine('rows', state, 80));
  });

  test('shows how far it is', () => {
    expect(barLine('rows', { done: 5, total: 10, words: '0:10 left' }, 40)).toBe(
      'rows █████████░░░░░░░░ 5/10 | 0:10 left',
    );
    expect(barLine('rows', { done: 5, total: 10, words: '' }, 80)).toContain(`${'█'.repeat(20)}${'░'.repeat(20)}`);
    expect(barLine('rows', { done: 0, total: 0, words: '' }, 80)).not.toContain('█');
  });
});
