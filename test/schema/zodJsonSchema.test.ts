import { expect, test } from '@jest/globals';
import { z } from 'zod';
import { EnforcedSchema } from '../../src/schema/EnforcedSchema.js';
import { zodJsonSchema, type AnswerSchema } from '../../src/schema/zodJsonSchema.js';
import { enforced } from '../support/jsonSchemaSuite.js';

const schemas: Readonly<Record<string, AnswerSchema>> = {
  startsWith: z.string().startsWith('a'),
  endsWith: z.string().endsWith('a'),
  includes: z.string().includes('b.'),
  'includes behind a place': z.string().includes('b', { position: 2 }),
  lowercase: z.string().lowercase(),
  uppercase: z.string().uppercase(),
  base64: z.base64(),
  base64url: z.base64url(),
  nanoid: z.nanoid(),
  ulid: z.ulid(),
  cuid2: z.cuid2(),
  xid: z.xid(),
  ksuid: z.ksuid(),
  e164: z.e164(),
  cidrv4: z.cidrv4(),
  cidrv6: z.cidrv6(),
  'several together': z.string().startsWith('a').endsWith('b'),
  'a format, and its end': z.email().endsWith('.ch'),
  'a format of its own': z.stringFormat('even', /^(..)*$/),
};

test.each(Object.entries(schemas))('what zod says of texts by a pattern is enforced: %s', (_name, schema) => {
  const json = zodJsonSchema(schema);
  expect(json).not.toHaveProperty('format');
  expect(enforced(json)).toBeInstanceOf(EnforcedSchema);
});

test('what is enforced is what the author wrote', () => {
  const schema = new EnforcedSchema(zodJsonSchema(z.string().startsWith('a').endsWith('b')));
  expect(['ab', 'acb', 'b', 'a'].map((text) => schema.problem(text) === undefined)).toEqual([true, true, false, false]);
});

test.each<[string, AnswerSchema, string]>([
  ['has no pattern', z.jwt(), 'jwt'],
  ['has none, beside another pattern', z.jwt().startsWith('ey'), 'jwt'],
  ['was said besides', z.string().startsWith('a').meta({ format: 'word' }), 'word'],
  ['has one that looks ahead', z.emoji(), 'emoji'],
  ['is a program', z.stringFormat('odd', (text) => text.length % 2 === 1), 'odd'],
])('a format is kept, and says nothing to masks, that %s', (_name, schema, format) => {
  const json = zodJsonSchema(schema);
  expect(json).toMatchObject({ format });
  expect(enforced(json)).toBeInstanceOf(EnforcedSchema);
});

test('formats that are known stay', () => {
  expect(zodJsonSchema(z.email())).toMatchObject({ format: 'email' });
  expect(zodJsonSchema(z.iso.datetime())).toMatchObject({ format: 'date-time' });
  expect(zodJsonSchema(z.url())).toMatchObject({ format: 'uri' });
  expect(zodJsonSchema(z.url().startsWith('https://'))).toMatchObject({ format: 'uri', pattern: '^https:\\/\\/.*' });
});
