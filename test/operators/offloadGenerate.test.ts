import { describe, expect, test } from '@jest/globals';
import { of } from 'rxjs';
import type { GenerationSource } from '../../src/engine/rows/Generation.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { offloadGenerate } from '../../src/operators/offloadGenerate.js';

const engine: GenerationSource = {
  generate: () => {
    throw new Error('the engine was asked');
  },
};

describe('offloadGenerate', () => {
  test.each<[unknown, unknown, string]>([
    [undefined, {}, 'engine: found undefined, expected an open engine'],
    [{}, {}, 'engine: found an empty object, expected an open engine'],
    [null, {}, 'engine: found null'],
    [engine, null, 'options: found null'],
    [engine, { queue: null }, 'queue: found null'],
    [engine, { queue: { overflow: 'drop' } }, 'queue.overflow: found "drop"'],
    [engine, { queue: { capacity: -1 } }, 'queue.capacity: found -1'],
  ])('refuses %p, %j at once', (source, options, message) => {
    expect(() => offloadGenerate(source as GenerationSource, options as never)).toThrow(UsageError);
    expect(() => offloadGenerate(source as GenerationSource, options as never)).toThrow(message);
  });

  test("asks the engine for each subscription; what that throws is the stream's error", () => {
    const seen: unknown[] = [];
    const results$ = of({ prompt: 'x' }).pipe(offloadGenerate(engine));
    for (const _ of [1, 2]) results$.subscribe({ error: (error: unknown) => seen.push(error) });
    expect(seen).toEqual([new Error('the engine was asked'), new Error('the engine was asked')]);
  });
});
