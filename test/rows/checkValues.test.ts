import { describe, expect, test } from '@jest/globals';
import { ROW_LIMITS } from '../../src/model/files/limits.js';
import { parseRow } from '../../src/jobs/formats/parseRow.js';
import { checkValues } from '../../src/rows/checkValues.js';

const MOST = ROW_LIMITS.conversationValues;
const list = (length: number): number[] => Array.from({ length }, (_, at) => at);

describe('values of a conversation', () => {
  test.each<[string, Parameters<typeof checkValues>[0], string | undefined]>([
    ['as many as there may be', { templateArgs: { a: list(MOST - 1) } }, undefined],
    ['one more', { templateArgs: { a: list(MOST) } }, 'templateArgs: found more than 16384 values'],
    [
      'too many together',
      { messages: list(MOST / 2), tools: [list(MOST / 2)] },
      'messages, tools: found more than 16384 values in messages, tools and templateArgs together, expected at most so many',
    ],
    ['deep ones', { tools: Array.from({ length: 300 }, () => [list(300)]) }, 'tools: found more than 16384 values'],
    ['long texts are no values', { messages: [{ role: 'user', content: 'a'.repeat(2 ** 20) }] }, undefined],
    ['none at all', { messages: null, tools: undefined }, undefined],
  ])('%s', (_, row, message) => {
    if (message === undefined) expect(() => checkValues(row, MOST)).not.toThrow();
    else expect(() => checkValues(row, MOST)).toThrow(message);
  });

  test('a value that leads to itself, or cannot be read', () => {
    const round: unknown[] = [];
    round.push(round, round);
    expect(() => checkValues({ tools: round }, MOST)).toThrow('found more than 16384 values');
    const broken = {
      get a(): unknown {
        throw new Error('gone');
      },
    };
    expect(() => checkValues({ templateArgs: broken }, MOST)).toThrow('the row cannot be read: gone');
  });

  test('a line is refused before its messages are read', () => {
    const messages = Array.from({ length: MOST }, () => ({ role: 1 }));
    expect(parseRow({ id: 7, messages }, 1, false)).toMatchObject({ id: 7, error: { code: 'limit' } });
  });
});
