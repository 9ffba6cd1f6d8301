import { describe, expect, test } from '@jest/globals';
import { ModelFileError } from '../../../src/errors/ModelFileError.js';
import { Fields } from '../../../src/model/architectures/Fields.js';

const BOUNDS = { min: 1, max: 10 };
const of = (value: unknown): Fields => Fields.ofObject('config.json', value);

describe('Fields', () => {
  test('reads numbers within bounds, and takes defaults for what is absent', () => {
    const fields = of({ layers: 3, ratio: 0.5, none: null });
    expect(fields.integer('layers', BOUNDS)).toBe(3);
    expect(fields.integer('absent', BOUNDS, 7)).toBe(7);
    expect(fields.number('ratio', { min: 0, max: 1 })).toBe(0.5);
    expect(fields.integerOrNull('none', BOUNDS, 4)).toBeNull();
    expect(fields.integerOrNull('absent', BOUNDS, 4)).toBe(4);
    expect(fields.integerOrNull('absent', BOUNDS, null)).toBeNull();
  });

  test.each([[0], [11], [1.5], ['3'], [null], [NaN], [Infinity], [true], [[3]], [{}], [10n]])(
    'refuses %p as an integer from 1 to 10',
    (value) => {
      expect(() => of({ layers: value }).integer('layers', BOUNDS)).toThrow(ModelFileError);
    },
  );

  test('names file, field, what was found and what was expected', () => {
    expect(() => of({ layers: 99 }).integer('layers', BOUNDS)).toThrow(
      'config.json: layers: found 99, expected an integer from 1 to 10',
    );
    expect(() => of({}).integer('layers', BOUNDS)).toThrow(
      'config.json: layers: found nothing, expected an integer from 1 to 10',
    );
    expect(() =>
      of({ rope: { factor: 'x' } })
        .child('rope')
        ?.number('factor', BOUNDS),
    ).toThrow('config.json: rope.factor: found "x"');
  });

  test('read under other names, they are named as the file has them', () => {
    const fields = of({ state_size: 99, rope: 5, expand: 2 }).renamed({
      width: 'state_size',
      turn: 'rope',
      by: 'expand',
    });
    expect(fields.integer('by', BOUNDS)).toBe(2);
    expect(() => fields.with({ by: 3 }).integer('width', BOUNDS)).toThrow('config.json: state_size: found 99');
    expect(() => fields.child('turn')).toThrow('config.json: rope: found 5');
    expect(fields.has('absent')).toBe(false);
  });

  test('sees own properties only', () => {
    const fields = of(JSON.parse('{"__proto__": {"layers": 3}}'));
    expect(fields.has('layers')).toBe(false);
    expect(fields.has('constructor')).toBe(false);
    expect(fields.integer('layers', BOUNDS, 5)).toBe(5);
  });

  test.each([[null], [[]], ['text'], [3], [undefined], [new Uint8Array(2)]])(
    'refuses %p as a configuration',
    (value) => {
      expect(() => of(value)).toThrow('a JSON object');
    },
  );

  test('null is false, as in Python, and other types are no booleans', () => {
    expect(of({ a: null }).boolean('a', true)).toBe(false);
    expect(of({}).boolean('a', true)).toBe(true);
    expect(() => of({ a: 1 }).boolean('a', true)).toThrow('true or false');
  });

  test('arrays must have the length asked for', () => {
    expect(of({ a: [1, 2] }).numbers('a', 2, BOUNDS)).toEqual([1, 2]);
    expect(() => of({ a: [1, 2, 3] }).numbers('a', 2, BOUNDS)).toThrow(
      'found an array of 3, expected an array of 2 numbers',
    );
    expect(() => of({ a: [1, 99] }).numbers('a', 2, BOUNDS)).toThrow('a[1]: found 99');
  });

  test('a size stated once a layer must be the same for all', () => {
    const metadata = new Map<string, unknown>([
      ['x.a', new Int32Array([4, 4])],
      ['x.b', new Int32Array([4, 5])],
      ['x.c', []],
      ['x.d', 4],
    ]);
    const fields = Fields.ofMetadata('model.gguf', metadata, 'x.');
    expect(fields.uniformInteger('a', BOUNDS)).toBe(4);
    expect(fields.uniformInteger('d', BOUNDS)).toBe(4);
    expect(() => fields.uniformInteger('b', BOUNDS)).toThrow('x.b: found an array of 2');
    expect(() => fields.uniformInteger('c', BOUNDS)).toThrow('x.c');
  });

  test('defaults stand where nothing is said, or null', () => {
    const fields = of({ a: 1, b: null, f: false }).withDefaults({ a: 2, b: 3, c: 4, f: true });
    expect(['a', 'b', 'c', 'f', 'd'].map((key) => fields.raw(key))).toEqual([1, 3, 4, false, undefined]);
  });

  test('replaced fields hide the originals', () => {
    const fields = of({ a: 1, b: 2 }).with({ a: undefined, c: 3 });
    expect([fields.has('a'), fields.raw('b'), fields.raw('c')]).toEqual([false, 2, 3]);
  });
});
