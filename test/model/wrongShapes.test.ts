import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { ModelFileError } from '../../src/errors/ModelFileError.js';
import { SpillwayError } from '../../src/errors/SpillwayError.js';
import { createTokenizer } from '../../src/model/createTokenizer.js';
import { readModel } from '../../src/model/readModel.js';
import { tinyModelWithTokenizer } from '../cli/support.js';
import { temporaryFolder } from '../jobs/support/files.js';

type Json = Record<string, unknown>;
const path = temporaryFolder();
let named = 0;

/** A value of each kind that JSON has, and those that trip code up which trusts them. */
const WRONG: readonly unknown[] = [
  null,
  true,
  7,
  -1,
  0.5,
  1e300,
  '',
  'text',
  [],
  [null],
  [[]],
  {},
  { type: 'Sequence' },
  JSON.parse('{"__proto__":{"length":9}}'),
];

/** Everything that a reader may look at, in the places where models have it. */
const FILES: Readonly<Record<string, Json>> = {
  'generation_config.json': { eos_token_id: [2] },
  'chat_template.json': { chat_template: '{{ messages[0].content }}' },
  'tokenizer_config.json': {
    bos_token: '<s>',
    eos_token: { content: '</s>' },
    unk_token: null,
    add_bos_token: true,
    additional_special_tokens: ['<pad>'],
    added_tokens_decoder: { 0: { content: '<pad>', special: true } },
    chat_template: [{ name: 'default', template: '{{ messages[0].content }}' }],
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

/**
 * Reads the model and uses it: whatever it throws has to be one of our errors. @returns the file that it names, where
 * it is the model's
 */
async function use(folder: string): Promise<string | undefined> {
  try {
    const source = await readModel(folder);
    const tokenizer = createTokenizer(source.tokenizer, source.decoder.vocabularySize);
    const tokens = tokenizer.encode('a <s>b');
    tokenizer.decode(tokens);
    if (tokenizer.hasChatTemplate) tokenizer.encodeChat([{ role: 'user', content: 'a</s>' }], { parseSpecial: false });
  } catch (error) {
    if (!(error instanceof SpillwayError)) throw error;
    return error instanceof ModelFileError ? error.file : undefined;
  }
  return undefined;
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

describe('the error names the file that is at fault', () => {
  test.each<[string, Json]>([
    ['config.json', {}],
    ['config.json', { model_type: 'llama', hidden_size: 'wide' }],
    ['generation_config.json', { eos_token_id: 'x' }],
    ['generation_config.json', { eos_token_id: 2 ** 30 }],
    ['model.safetensors.index.json', { weight_map: 3 }],
    ['tokenizer.json', {}],
    [
      'tokenizer.json',
      {
        model: { type: 'BPE', vocab: { a: 0 }, merges: [] },
        added_tokens: [
          { id: 9, content: 'x' },
          { id: 9, content: 'y' },
        ],
      },
    ],
    ['chat_template.json', { chat_template: 3 }],
    ['tokenizer_config.json', { chat_template: 3 }],
    ['tokenizer_config.json', { chat_template: [{ name: 'default', template: 3 }] }],
    ['tokenizer_config.json', { chat_template: ['x'] }],
    ['tokenizer_config.json', { eos_token: 3 }],
    ['tokenizer_config.json', { bos_token: { content: [] } }],
    ['tokenizer_config.json', { added_tokens_decoder: [] }],
    ['tokenizer_config.json', { added_tokens_decoder: { x: { content: 'x' } } }],
    ['tokenizer_config.json', { added_tokens_decoder: { 9: { content: 7 } } }],
    [
      'tokenizer_config.json',
      { added_tokens_decoder: { 900: { content: 'new' }, 901: { content: 'longer' }, '0900': { content: 'newer' } } },
    ],
  ])('%s with %j', async (name, document) => {
    const folder = path(`named-${++named}`);
    mkdirSync(folder);
    cpSync(tinyModelWithTokenizer(path('good')), folder, { recursive: true });
    writeFileSync(join(folder, name), JSON.stringify(document));
    expect(await use(folder)).toBe(join(folder, name));
  });
});
