import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { GrammarKind, NativeVocabulary } from '../../../src/bindings/Grammars.js';
import { loadAddon } from '../../../src/bindings/loadAddon.js';
import { cpuSeconds } from '../../model/support/expectBounded.js';
import { describeGrammars } from '../../support/grammars.js';

const addon = loadAddon();

/** All bytes of ASCII, some words, an end. */
function vocabulary(): Promise<NativeVocabulary> {
  const words = [
    ...Array.from({ length: 127 }, (_, byte) => String.fromCharCode(byte + 1)),
    'true',
    '":',
    '","',
    'name',
    ' the',
    '',
  ];
  return addon.createVocabulary({
    bytes: Uint8Array.from(Buffer.from(words.join(''))),
    lengths: Uint32Array.from(words, (word) => word.length),
    ends: Uint32Array.of(words.length - 1),
    firstTokens: new Uint32Array(),
    firstBytes: new Uint8Array(),
    firstLengths: new Uint32Array(),
  });
}

const scalar = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    false,
    0,
    -1,
    1.5,
    1e300,
    1e-9,
    2 ** 53,
    '',
    'a',
    '#',
    '#/$defs/a',
    'http://a/b',
    '^(a|b)*$',
    '(',
    '[',
    'string',
    'number',
    'object',
    'array',
    'date',
    'uuid',
  ),
  fc.integer({ min: -100_000, max: 100_000 }),
);
const KEYWORDS = [
  '$ref',
  'const',
  'enum',
  'type',
  'items',
  'prefixItems',
  'additionalItems',
  'minItems',
  'maxItems',
  'properties',
  'additionalProperties',
  'patternProperties',
  'required',
  'minProperties',
  'maxProperties',
  'minLength',
  'maxLength',
  'pattern',
  'format',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'anyOf',
  'oneOf',
  'allOf',
  'not',
  'if',
  'contains',
  '$defs',
  '$id',
  '$anchor',
  '$schema',
  'x-guidance',
];
/** Schemas that are nearly right, and those that are not at all. */
const schemas = fc.letrec<{ schema: unknown }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    scalar,
    fc.array(tie('schema'), { maxLength: 3 }),
    fc
      .uniqueArray(
        fc.tuple(
          fc.oneof(
            { weight: 6, arbitrary: fc.constantFrom(...KEYWORDS) },
            { weight: 1, arbitrary: fc.constantFrom('a', 'b', '__proto__') },
          ),
          tie('schema'),
        ),
        { maxLength: 4, selector: ([name]) => name },
      )
      .map((entries) => Object.fromEntries(entries)),
  ),
})).schema;
const typed = schemas.map((schema) =>
  typeof schema === 'object' && schema !== null && !Array.isArray(schema)
    ? { type: 'object', ...schema }
    : { anyOf: [schema] },
);

/** Compiled, or why not; and how much processor time that took. */
async function outcome(
  on: NativeVocabulary,
  kind: GrammarKind,
  text: string,
): Promise<{ refused: string | undefined; seconds: number }> {
  const start = process.cpuUsage();
  const refused = await addon.compileGrammar(on, kind, text).then(
    () => undefined,
    (error: unknown) => (error as { code: string; message: string }).code,
  );
  return { refused, seconds: cpuSeconds(start) };
}

describeGrammars('texts of grammars that nobody means well with', () => {
  // SPILLWAY_SCHEMAS: so many of each kind, for a longer look.
  const numRuns = Number(process.env['SPILLWAY_SCHEMAS'] ?? 200);

  test('schemas are compiled or refused, soon', async () => {
    const on = await vocabulary();
    let compiled = 0;
    await fc.assert(
      fc.asyncProperty(fc.oneof(schemas, typed), async (schema) => {
        const { refused, seconds } = await outcome(on, 'json_schema', JSON.stringify(schema));
        expect([undefined, 'invalid-argument']).toContain(refused);
        expect(seconds).toBeLessThan(20);
        compiled += refused === undefined ? 1 : 0;
      }),
      { numRuns },
    );
    expect(compiled).toBeGreaterThan(numRuns / 50);
  });

  test('and so are expressions and grammars', async () => {
    const on = await vocabulary();
    const pieces = fc.constantFrom(
      'a',
      'b',
      '(',
      ')',
      '[',
      ']',
      '{2,50}',
      '{1000}',
      '*',
      '+',
      '?',
      '|',
      '\\',
      '^',
      '$',
      '.',
      '(?i)',
      '\\p{L}',
      '&',
      '~',
      '"',
      '/',
      ':',
      '\n',
      'start: ',
      'A: ',
      'B',
      ' ',
      '%ignore ',
      '%json {',
      '<[3]>',
      '\ud83e\uddff',
      '\0',
    );
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom<GrammarKind>('regex', 'grammar', 'choices', 'json_schema'),
        fc.array(pieces, { maxLength: 40 }),
        async (kind, parts) => {
          const { refused, seconds } = await outcome(
            on,
            kind,
            (kind === 'grammar' ? 'start: A\nA: "a"' : '') + parts.join(''),
          );
          expect([undefined, 'invalid-argument']).toContain(refused);
          expect(seconds).toBeLessThan(20);
        },
      ),
      { numRuns: 2 * numRuns },
    );
  });
});
