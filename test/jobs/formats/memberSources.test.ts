import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { memberSources } from '../../../src/jobs/formats/propertyColumns.js';

const sources = (text: string): [string, string][] => [...memberSources(text)];

test('each member as it is written, whatever stands in its text', () => {
  expect(sources('{"a":9007199254740993,"b":[1,{"a":2}],"c":"x,\\"}","d":{"e":{"f":":"}},"":null}')).toEqual([
    ['a', '9007199254740993'],
    ['b', '[1,{"a":2}]'],
    ['c', '"x,\\"}"'],
    ['d', '{"e":{"f":":"}}'],
    ['', 'null'],
  ]);
  expect(sources(' { "a" : 1 , "\\u0062\\n" : [ ] }\n')).toEqual([
    ['a', '1'],
    ['b\n', '[ ]'],
  ]);
  expect(sources('{"a":1,"a":2}')).toEqual([['a', '2']]);
  expect([sources('{}'), sources('[1,{"a":2}]'), sources('7'), sources('')]).toEqual([[], [], [], []]);
});

test('what is written means the member, of any object', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue(), { noNullPrototype: true }),
      fc.constantFrom(undefined, 1, '\t'),
      (value, indent) => {
        const object = JSON.parse(JSON.stringify(value)) as object;
        expect(
          sources(JSON.stringify(object, undefined, indent)).map(([name, source]) => [
            name,
            JSON.parse(source) as unknown,
          ]),
        ).toEqual(Object.entries(object));
      },
    ),
  );
});
