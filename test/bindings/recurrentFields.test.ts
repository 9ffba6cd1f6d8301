import { describe, expect, test } from '@jest/globals';
import { isObject } from '../../src/arguments/isObject.js';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { readModel } from '../../src/model/readModel.js';
import { model } from '../e2e/support.js';

/** Numbers that are no sizes. */
const FACTORS = /\.(epsilon|betaScale|least|leastTimeStep|mostTimeStep)$|\.scales\./;
const NO_NUMBERS: readonly unknown[] = [NaN, Infinity, 1e300, '4', true, null, {}, [4]];
const NO_SIZES: readonly unknown[] = [...NO_NUMBERS, -1, 0.5, 2 ** 31, 2 ** 32];

/** The paths of all numbers in an object. */
function numbersOf(value: object, path = ''): string[] {
  return Object.entries(value).flatMap(([key, member]: [string, unknown]) =>
    isObject(member) ? numbersOf(member, `${path}.${key}`) : typeof member === 'number' ? [`${path}.${key}`] : [],
  );
}

/** The same object with another member at a path. */
function changed(value: unknown, [key = '', ...rest]: readonly string[], to: unknown): unknown {
  if (!isObject(value)) throw new TypeError('no object on the way');
  return { ...value, [key]: rest.length === 0 ? to : changed(value[key], rest, to) };
}

describe('fields of layers that remember a state', () => {
  test.each([
    ['qwen3-5', 4],
    ['bailing-hybrid', 6],
    ['falcon-h1', 8],
    ['jamba', 4],
    ['minimax', 4],
    ['recurrent-gemma', 3],
  ])('%s: what is no number, or no size, is refused by its name', async (name, least) => {
    const { decoder, bindings, files } = await readModel(model(name));
    const open = (recurrent: unknown) => () =>
      loadAddon().openRuntime({
        decoder: { ...decoder, recurrent } as typeof decoder,
        bindings,
        files,
        precision: 'float32',
        threads: 1,
        cache: { type: 'f32', pageTokens: 16, pages: 1, states: 1 },
        limits: { tokensPerSquare: 1, rowsPerSquare: 1 },
      });
    await open(decoder.recurrent)().close();
    const paths = numbersOf(decoder.recurrent ?? {});
    expect(paths.length).toBeGreaterThanOrEqual(least);
    for (const path of paths)
      for (const value of FACTORS.test(path) ? NO_NUMBERS : NO_SIZES) {
        const hostile = changed(decoder.recurrent, path.slice(1).split('.'), value);
        expect(open(hostile)).toThrow(`decoder.recurrent${path}: found `);
      }
  });
});
