import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { readableRow } from '../../src/rows/readableRow.js';

describe('readableRow', () => {
  test('a good row stays as it is; null is as good as absent, also for an error', () => {
    const row = { id: 'a', index: 3, duplicate: false, prompt: 'x', temperature: 0.5, stop: ['y'], carry: { z: 1 } };
    expect(readableRow(row)).toEqual(row);
    expect(readableRow({ id: null, index: null, prompt: 'x', carry: null, error: null })).toEqual({ prompt: 'x' });
    expect(readableRow({ id: 1, error: { code: 'memory', message: 'm', more: 1 }, prompt: 'x' })).toEqual({
      id: 1,
      error: { code: 'memory', message: 'm' },
    });
  });

  test('an instance of a class has its getters read, each once', () => {
    let reads = 0;
    class Row {
      get id(): string {
        return 'a';
      }
      get prompt(): string {
        reads += 1;
        return `read ${reads}`;
      }
    }
    expect({ ...readableRow(new Row()) }).toEqual({ id: 'a', prompt: 'read 1' });
  });

  test('fields are found in one order, whether they are its own or inherited, listed or not', () => {
    const names = ['prompt', 'temperature', 'stop', 'chat', 'labels', 'query', 'badWords', 'zebra', 'carry', 'id'];
    fc.assert(
      fc.property(fc.shuffledSubarray(names), fc.boolean(), (some, enumerable) => {
        const given = {};
        for (const name of some) Object.defineProperty(given, name, { value: name, enumerable });
        const inherited = Object.entries(readableRow(Object.create(given)));
        expect(Object.entries(readableRow(given))).toEqual(inherited);
        expect(inherited.map(([name]) => name).sort()).toEqual(some.filter((name) => name !== 'zebra').sort());
      }),
    );
    const unlisted = new Proxy({}, { get: (_, name) => (name === 'prompt' ? 'x' : undefined) });
    expect(readableRow(unlisted)).toEqual({ prompt: 'x' });
  });

  test('a bad row keeps its id, its index and what it carries', () => {
    const torn = {
      id: 'a',
      index: 2,
      carry: { z: 1 },
      get prompt(): string {
        throw new Error('torn');
      },
    };
    expect(readableRow(torn)).toEqual({
      id: 'a',
      index: 2,
      carry: { z: 1 },
      error: { code: 'invalid-row', message: 'the row cannot be read: torn' },
    });
    expect(readableRow({ id: 'a', index: -1, prompt: 'x' })).toEqual({
      id: 'a',
      error: { code: 'invalid-row', message: 'index: found -1, expected a whole number of at least 0' },
    });
  });

  test('bytes and lines of a stream are no rows, and a field that is nearly one of ours is told', () => {
    const words = (given: unknown): unknown => (readableRow(given) as { error?: unknown }).error;
    expect(words(Buffer.from('{}'))).toEqual({
      code: 'invalid-row',
      message:
        "found 2 bytes, expected a row, such as { prompt: 'text' }; readRows(stream) makes rows of a file's or a stream's bytes",
    });
    expect(words('{"prompt":"a"}')).toMatchObject({
      message: expect.stringContaining("expected a row, such as { prompt: 'text' }"),
    });
    expect(words({ prompt: 'a', max_tokens: 3 })).toEqual({
      code: 'invalid-row',
      message: 'found the field "max_tokens", expected maxNewTokens; what is no field of a row goes into carry',
    });
    expect(words({ prompt: 'a', label: 3, max_tokens: undefined })).toBeUndefined();
  });

  test('whatever is given, and whatever reading it throws, there is a row', () => {
    const hostile = (thrown: unknown): unknown =>
      new Proxy(
        {},
        {
          get: () => {
            throw thrown;
          },
        },
      );
    fc.assert(
      fc.property(fc.anything({ withBigInt: true, withNullPrototype: true }), fc.boolean(), (value, throws) => {
        const row = readableRow(throws ? hostile(value) : value);
        if ('error' in row) expect([typeof row.error.code, typeof row.error.message]).toEqual(['string', 'string']);
        if (row.id !== undefined) expect(['string', 'number']).toContain(typeof row.id);
        if (row.index !== undefined) expect(Number.isSafeInteger(row.index)).toBe(true);
      }),
      { numRuns: 1000 },
    );
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    expect(readableRow(proxy)).toMatchObject({ error: { code: 'invalid-row' } });
  });
});
