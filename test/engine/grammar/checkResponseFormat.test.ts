import { expect, test } from '@jest/globals';
import { checkResponseFormat } from '../../../src/engine/grammar/checkResponseFormat.js';
import type { ResponseFormat } from '../../../src/rows/responseFormat.js';

const ofSchema = (schema: object): ResponseFormat => ({ type: 'json_schema', schema });

test('formats that no model can be held to are told without one', async () => {
  const between = { type: 'integer', multipleOf: 7, minimum: 8, maximum: 13 };
  await expect(
    checkResponseFormat(ofSchema({ type: 'object', properties: { a: between }, required: ['a'] })),
  ).rejects.toThrow(/at \/properties\/a: .*does not contain a multiple of 7/);
  await expect(checkResponseFormat({ type: 'regex', regex: '(?=a)b' })).rejects.toThrow(/look-around/);
  await expect(checkResponseFormat({ type: 'grammar', grammar: 'start: missing' })).rejects.toThrow(/grammar/);
});

test('others pass', async () => {
  for (const format of [
    { type: 'text' },
    ofSchema({ type: 'object', properties: { a: { type: 'string' } } }),
    { type: 'regex', regex: '[a-z]+' },
    { type: 'choices', choices: ['yes', 'no', 'déjà'] },
  ] as const satisfies readonly ResponseFormat[])
    await expect(checkResponseFormat(format)).resolves.toBeUndefined();
});
