import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { SpillwayError } from '../../src/errors/SpillwayError.js';
import { createTokenizer } from '../../src/model/createTokenizer.js';
import { readModel } from '../../src/model/readModel.js';
import { tinyModelWithTokenizer } from '../cli/support.js';
import { temporaryFolder } from '../jobs/support/files.js';

type Json = Record<string, unknown>;
const path = temporaryFolder();

/** A value of each kind that JSON has, and those that trip code up which trusts them. */
const WRONG: readonly unknown[] = [null, true, 7, -1, 0.5, 1e300, '', 'text', [], [null], [[]], {}, { type: 'Sequence' }, JSON.parse('{"__proto__":{"length":9}}')];

/** Everything that a reader may look at, in the places where models have it. */
const FILES: Readonly<Record<string, Json>> = {
  'generation_config.json': { eos_token_id: [2] },
  'chat_template.json': { chat_template: '{{ messages[0].content }}' },
  'tokenizer_config.json': {
    bos_token: '<s>', eos_token: { content: '</s>' }, unk_token: null, add_bos_token: true, additional_special_tokens: ['<pad>'],
    added_tokens_decoder: { 0: { content: '<pad>', special: true } }, chat_template: [{ name: 'default', template: '{{ messages[0].content }}' }],
  },
};

/** Paths of all values inside a value; of long lists and objects the first few. */
function pathsOf(value: unknown, at: readonly string[] = []): (readonly string[])[] {
  const inner = typeof value === 'object' && value !== null ? Object.entries(value).slice(0, 12) : [];
  return [at, ...inner.flatMap(([key, member]) => pathsOf(member, [...at, key]))];
}

function replaced(value: unknown, [key, ...rest]: readonly string[], by: unknown): unknown {
  if (key === undefined) return by;
  const copy = (Array.isArray(value) ? [...(value as unknown[])] : { ...(value as Json) }) as Json;
  Object.defineProperty(copy, key, { value: replaced(copy[key], rest, by), enumerable: true });
  return copy;
}

/** Reads the model and uses it: whatever it throws has to be one of our errors. */
async function use(folder: string): Promise<void> {
  try {
    const source = await readModel(folder);
    const tokenizer = createTokenizer(source.tokenizer, source.decoder.vocabularySize);
    const tokens = tokenizer.encode('a <s>b');
    tokenizer.decode(tokens);
    if (tokenizer.hasChatTemplate) tokenizer.encodeChat([{ role: 'user', content: 'a</s>' }], { parseSpecial: false });
  } catch (error) {
    if (!(error instanceof SpillwayError)) throw error;
  }
}

const files = ['config.json', 'model.safetensors.index.json', 'tokenizer.json', ...Object.keys(FILES)];

describe.each(files)('%s', (name) => {
  test('any value in any place gives a model that works or an error that says what is wrong', async () => {
    const folder = path(name);
    mkdirSync(folder);
    cpSync(tinyModelWithTokenizer(path('good')), folder, { recursive: true });
    const good = FILES[name] ?? (JSON.parse(readFileSync(join(folder, name), 'utf8')) as Json);
    // Only one file at a time says how conversations look.
    const paths = pathsOf(good);
    expect(paths.length).toBeGreaterThan(1);
    for (const at of paths) {
      for (const wrong of WRONG) {
        writeFileSync(join(folder, name), JSON.stringify(replaced(good, at, wrong)));
        await use(folder).catch((error: unknown) => {
          throw new Error(`${at.join('.')} = ${JSON.stringify(wrong)}`, { cause: error });
        });
      }
    }
  });
});
