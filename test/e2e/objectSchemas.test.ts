import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Engine } from '../../src/Engine.js';
import type { RowResult } from '../../src/Row.js';
import { describeGrammars } from '../support/grammars.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

const bool = { type: 'boolean' };

/** A tiny random model: whatever a schema allows, some row says it. */
describeGrammars('values that are held to a schema', () => {
  let model: Awaited<ReturnType<typeof tinyChatModel>>;
  let engine: Engine;

  beforeAll(async () => {
    model = await tinyChatModel();
    engine = await Engine.open({ model: model.path });
  });
  afterAll(async () => {
    await engine.close();
    await model[Symbol.asyncDispose]();
  });

  async function answers(schema: unknown, count = 40): Promise<RowResult[]> {
    const rows = Array.from({ length: count }, (_, seed) => ({ prompt: `row ${seed}`, seed }));
    const results: RowResult[] = [];
    const options = { responseFormat: { type: 'json_schema', schema }, temperature: 1, maxNewTokens: 400 } as const;
    for await (const row of engine.generate(rows, options)) results.push(row);
    return results;
  }

  test.each<[string, object]>([
    ['integers of 64 bits', { type: 'integer', minimum: -(2 ** 63), maximum: 2 ** 63 }],
    ['the last integers of 64 bits', { type: 'integer', minimum: 2 ** 62, exclusiveMaximum: 2 ** 63 }],
    ['integers, also of more bits', { type: 'integer', minimum: -1e300, maximum: 2 ** 64 }],
    ['numbers, also of more digits', { type: 'number', exclusiveMinimum: 2 ** 61, maximum: 1e300 }],
    [
      'two of three properties',
      {
        type: 'object',
        properties: { a: bool, b: bool, c: bool },
        minProperties: 2,
        additionalProperties: false,
      },
    ],
    [
      'an enum of names, all of them required',
      { type: 'object', propertyNames: { enum: ['a', 'b'] }, additionalProperties: bool, required: ['a', 'b'] },
    ],
    [
      'an enum of names, all of them listed',
      { type: 'object', propertyNames: { enum: ['a', 'b'] }, properties: { a: bool, b: bool } },
    ],
    [
      'an enum of names, one of them listed with other values',
      {
        type: 'object',
        propertyNames: { enum: ['a', 'b'] },
        properties: { a: bool },
        required: ['a'],
        additionalProperties: { type: 'null' },
      },
    ],
    [
      'a pattern of one name',
      { type: 'object', patternProperties: { '^a$': bool }, required: ['a'], additionalProperties: false },
    ],
    [
      'a pattern of few names',
      {
        type: 'object',
        patternProperties: { '^[ab]{1,2}$': bool },
        properties: { a: bool, b: bool, aa: bool, ab: bool, ba: bool },
        required: ['bb'],
        additionalProperties: false,
      },
    ],
    [
      'a pattern beside names of another schema',
      {
        allOf: [
          { type: 'object', patternProperties: { '^x-': bool } },
          { properties: { 'x-id': bool, name: bool }, required: ['x-id'], additionalProperties: false },
        ],
      },
    ],
    [
      'a pattern with the values of all others',
      {
        type: 'object',
        properties: { ab: { enum: [true] } },
        required: ['ab'],
        propertyNames: { pattern: '^[a-z]{1,3}$' },
        allOf: [{ additionalProperties: bool }],
      },
    ],
    [
      'the name without a letter',
      { type: 'object', propertyNames: { maxLength: 0 }, properties: { '': bool }, required: [''] },
    ],
  ])('%s', async (_what, schema) => {
    const results = await answers(schema);
    // A name may come again and again.
    const whole = results.filter(({ error }) => error?.message.includes('was cut off') !== true);
    expect(whole.length).toBeGreaterThan(0.3 * results.length);
    for (const { error, text } of whole) expect([text, error]).toEqual([text, undefined]);
  });
});
