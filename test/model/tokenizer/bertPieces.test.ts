import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Fields } from '../../../src/model/files/Fields.js';
import { Guard } from '../../../src/model/tokenizer/Guard.js';
import { createPreTokenizer } from '../../../src/model/tokenizer/PreTokenizer.js';
import { PART_UNITS } from '../../../src/model/tokenizer/parts.js';
import { allOf } from '../../../src/model/tokenizer/split.js';

const guard = new Guard(new Fields('tokenizer.json'));
const bert = createPreTokenizer(guard, { type: 'BertPreTokenizer' });
/** The two cuts that it is made of, one after the other. */
const twice = createPreTokenizer(guard, {
  type: 'Sequence',
  pretokenizers: [{ type: 'WhitespaceSplit' }, { type: 'Punctuation', behavior: 'Isolated' }],
});

test('words and signs are those of a cut at blanks and one at punctuation, of texts of any length', () => {
  const word = fc.constantFrom(
    'a',
    'Bc12',
    ' ',
    '  ',
    '.',
    '...',
    "it's",
    'é',
    '“ja”',
    '漢',
    '、',
    '\n',
    '\u00a0',
    '😀',
  );
  fc.assert(
    fc.property(fc.array(word, { minLength: 1, maxLength: 20 }), (words) => {
      const text = words.join('');
      const long = text.repeat(Math.ceil((PART_UNITS * 1.2) / text.length));
      for (const each of [text, long])
        expect(allOf(bert.split(each, 'first'))).toEqual(allOf(twice.split(each, 'first')));
    }),
    { numRuns: 60 },
  );
});

test('one word longer than a part is cut at its signs', () => {
  const text = `a ${'b'.repeat(PART_UNITS)}.${'c'.repeat(PART_UNITS)} d`;
  expect(allOf(bert.split(text, 'first'))).toEqual(['a', 'b'.repeat(PART_UNITS), '.', 'c'.repeat(PART_UNITS), 'd']);
});
