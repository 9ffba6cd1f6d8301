import { describe, expect, test } from '@jest/globals';
import type { Tokenizer } from '../../../src/model/Tokenizer.js';
import { PART_UNITS } from '../../../src/model/tokenizer/parts.js';
import { open } from './fixtures.js';

const AFTER = 1000;
/** Ids that may be made between two stops: of a unit, three bytes at most, and what a step goes beyond its part. */
const BETWEEN = 4 * PART_UNITS;

/** The ids of a long text, and the most that were there at once: what is counted at a stop was kept until then. */
function counted(make: (surplus: { after: number; count: number }) => ReturnType<Tokenizer['encodeInParts']>): {
  readonly ids: readonly number[];
  readonly count: number;
  readonly most: number;
} {
  const surplus = { after: AFTER, count: 0 };
  const work = make(surplus);
  if (!('next' in work)) throw new Error('expected work that stops');
  let [before, most] = [0, 0];
  for (;;) {
    const step = work.next();
    most = Math.max(most, surplus.count - before);
    before = surplus.count;
    if (step.done === true) return { ids: step.value, count: surplus.count, most: AFTER + most };
  }
}

describe('ids beyond those that anybody needs', () => {
  const texts = { words: 'what is so ', 'one word': 'abc', signs: '漢é', controls: '<|im_start|<' };

  test.each(
    ['smollm', 'qwen2', 'llama2', 'unigram', 'wordpiece'].flatMap((name) =>
      Object.entries(texts).map(([what, piece]) => [name, what, piece] as const),
    ),
  )('of %s are counted and not kept: %s', (name, _, piece) => {
    const tokenizer = open(name);
    const text = piece.repeat(Math.ceil((5 * PART_UNITS) / piece.length));
    const all = tokenizer.encode(text);
    const { ids, count, most } = counted((surplus) => tokenizer.encodeInParts(text, { surplus }));
    const behind = tokenizer.suffixTokens ?? 0;
    expect(ids.length + count).toBe(all.length);
    if (count > 0) expect(ids).toEqual([...all.slice(0, AFTER), ...all.slice(all.length - behind)]);
    expect(most).toBeLessThanOrEqual(AFTER + BETWEEN);
  });

  test.each([true, false])('nor those of a conversation (control tokens are parsed: %p)', (parseSpecial) => {
    const tokenizer = open('smollm', 'tokenizer.json', {
      chat_template: '{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}',
    });
    for (const piece of Object.values(texts)) {
      const messages = [{ role: 'user', content: piece.repeat(Math.ceil((5 * PART_UNITS) / piece.length)) }];
      const all = tokenizer.encodeChat(messages, { parseSpecial });
      const { ids, count, most } = counted((surplus) =>
        tokenizer.encodeChatInParts(messages, { parseSpecial, surplus }),
      );
      expect(count).toBe(all.length - AFTER);
      expect(ids).toEqual(all.slice(0, AFTER));
      expect(most).toBeLessThanOrEqual(AFTER + BETWEEN);
    }
  });
});
