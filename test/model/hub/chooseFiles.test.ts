import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { chooseFiles, type ListedFile } from '../../../src/model/hub/chooseFiles.js';

function choice(paths: readonly string[], wanted?: string): { files: string[]; entry: string | undefined } | string {
  const chosen = chooseFiles(
    paths.map((path): ListedFile => ({ path, bytes: 1 })),
    wanted,
  );
  return 'files' in chosen
    ? { files: chosen.files.map(({ path }) => path), entry: chosen.entry }
    : `found ${chosen.found}, expected ${chosen.expected}`;
}

describe('of GGUF files', () => {
  const FILES = [
    'README.md',
    'm-Q2_K.gguf',
    'm-Q4_K_M.gguf',
    'm-Q4_K_S.gguf',
    'm-Q8_0.gguf',
    'mmproj-m-F16.gguf',
    'm-imatrix.gguf',
  ];

  test.each([
    [undefined, 'm-Q4_K_M.gguf'],
    ['Q8_0', 'm-Q8_0.gguf'],
    ['q4_k_s', 'm-Q4_K_S.gguf'],
    ['m-Q2_K.gguf', 'm-Q2_K.gguf'],
  ])('%s', (wanted, entry) => {
    expect(choice(FILES, wanted)).toEqual({ files: [entry], entry });
  });

  test.each([
    ['Q4_K', FILES, 'found no file or quant "Q4_K", expected m-Q2_K.gguf, m-Q4_K_M.gguf, m-Q4_K_S.gguf, m-Q8_0.gguf'],
    ['README.md', FILES, 'found the file README.md, expected a GGUF file, or none for a model of safetensors'],
    ['.*', FILES, 'found no file or quant ".*", expected m-Q2_K.gguf, m-Q4_K_M.gguf, m-Q4_K_S.gguf, m-Q8_0.gguf'],
    [undefined, ['a-IQ1.gguf', 'b-IQ2.gguf'], 'found files of 2 models, expected one by name: a-IQ1.gguf, b-IQ2.gguf'],
    [undefined, ['a-IQ1.gguf', 'a-IQ2.gguf'], 'found several GGUF files, expected one by name: a-IQ1.gguf, a-IQ2.gguf'],
    [undefined, ['README.md'], 'found README.md, expected a GGUF file, or config.json and model.safetensors'],
    [undefined, [], 'found no files, expected a GGUF file, or config.json and model.safetensors'],
  ])('%s of %j: %s', (wanted, files, words) => {
    expect(choice(files, wanted)).toBe(words);
  });

  test('the usual one that there is; one alone whatever it is; in folders; in several files, all of them', () => {
    expect(choice(['x-Q8_0.gguf', 'x-Q5_0.gguf'])).toMatchObject({ entry: 'x-Q5_0.gguf' });
    expect(choice(['only.gguf'])).toEqual({ files: ['only.gguf'], entry: 'only.gguf' });
    const parts = [1, 2, 3].map((number) => `Q4_K_M/x-0000${number}-of-00003.gguf`);
    expect(choice([...parts].reverse())).toEqual({ files: parts, entry: parts[0] });
    expect(choice([...parts.slice(1), 'README.md'], parts[1])).toBe(
      `found 2 of the 3 files of ${parts[1] ?? ''}, expected all of them`,
    );
    expect(choice(['x-00001-of-99999.gguf'])).toBe(
      'found 0 of the 99999 files of x-00001-of-99999.gguf, expected all of them',
    );
  });
});

describe('helpers of a model are not taken for it', () => {
  const MODEL = 'some-long-name-12B-it-Q4_K_M.gguf';
  test.each([
    'MTP/mtp-Q4_K_M.gguf',
    'mtp-some-12B-Q4_K_M.gguf',
    'draft-Q4_K_M.gguf',
    'x-draft-0.5B-Q4_K_M.gguf',
    'drafter/x-Q4_K_M.gguf',
    'EAGLE3-Q4_K_M.gguf',
    'x-eagle-Q4_K_M.gguf',
    'x.lora-Q4_K_M.gguf',
    'lora/x-Q4_K_M.gguf',
    'x-adapter-F16.gguf',
    'mmproj-Q4_K_M.gguf',
    'x.mmproj-Q4_K_M.gguf',
    'x-Q4_K_M.imatrix.gguf',
    'ggml-vocab-Q4_K_M.gguf',
    'token_embeddings-Q4_K_M.gguf',
    'control-vector-Q4_K_M.gguf',
  ])('%s', (helper) => {
    for (const files of [
      [helper, MODEL],
      [MODEL, helper],
    ])
      for (const wanted of [undefined, 'Q4_K_M', 'q4_k_m'])
        expect(choice(files, wanted)).toMatchObject({ entry: MODEL });
    // Named, it is meant.
    expect(choice([helper, MODEL], helper)).toMatchObject({ entry: helper });
  });

  test('a word that all files have is the name of the model; words within words are none', () => {
    expect(choice(['glm-MTP-Q8_0.gguf', 'glm-MTP-Q4_K_M.gguf'])).toMatchObject({ entry: 'glm-MTP-Q4_K_M.gguf' });
    expect(choice(['x-DRAFT-0.5B-Q4_0.gguf'])).toMatchObject({ entry: 'x-DRAFT-0.5B-Q4_0.gguf' });
    expect(choice(['Qwen3-Embedding-0.6B-Q8_0.gguf', 'draftsman-Q8_0.gguf'])).toMatch(/^found files of 2 models/);
  });
});

describe('several models of one repository are refused by name', () => {
  test.each([
    [undefined, ['big-Q8_0.gguf', 'small-Q4_K_M.gguf'], ''],
    ['Q4_K_M', ['big-Q4_K_M.gguf', 's-Q4_K_M.gguf'], ' with "Q4_K_M"'],
    [undefined, ['7B/model-Q4_K_M.gguf', '13B/model-Q4_K_M.gguf'], ''],
    ['Q8_0', ['Q8_0/big-00001-of-00002.gguf', 'Q8_0/small.gguf'], ' with "Q8_0"'],
  ])('%s of %j', (wanted, files, words) => {
    expect(choice(files, wanted)).toBe(`found files of 2 models${words}, expected one by name: ${files.join(', ')}`);
  });

  test('a part of a name chooses the model, and its usual quant', () => {
    const files = ['big-Q8_0.gguf', 'big-Q4_K_M.gguf', 'small-Q4_K_M.gguf', 'small-Q8_0.gguf'];
    expect(choice(files, 'big')).toMatchObject({ entry: 'big-Q4_K_M.gguf' });
    expect(choice(files, 'small')).toMatchObject({ entry: 'small-Q4_K_M.gguf' });
  });

  test('quants, their folders and kinds are no other models', () => {
    const files = [
      'm-F16.gguf',
      'm-UD-Q4_K_M.gguf',
      'm-Q4_K_M.gguf',
      'UD-Q8_K_XL/m-UD-Q8_K_XL-00001-of-00001.gguf',
      'BF16/m.gguf',
    ];
    expect(choice(files)).toMatchObject({ entry: 'm-Q4_K_M.gguf' });
    expect(choice(files, 'Q8_K_XL')).toMatchObject({ entry: 'UD-Q8_K_XL/m-UD-Q8_K_XL-00001-of-00001.gguf' });
    expect(choice(['p-fp16.gguf', 'p-q4.gguf', 'p-q4_0.gguf'])).toMatchObject({ entry: 'p-q4_0.gguf' });
  });
});

describe('of safetensors', () => {
  const SETTINGS = ['config.json', 'tokenizer.json', 'tokenizer_config.json'];

  test('settings first, weights last; nothing else', () => {
    expect(choice(['model.safetensors', 'pytorch_model.bin', 'onnx/model.onnx', ...SETTINGS])).toEqual({
      files: [...SETTINGS, 'model.safetensors'],
      entry: undefined,
    });
    const modules = ['1_Pooling/config.json', '2_Dense/config.json'];
    const dense = '2_Dense/model.safetensors';
    expect(choice([...modules, dense, 'onnx/config.json', 'model.safetensors', ...SETTINGS])).toEqual({
      files: [...modules, ...SETTINGS, dense, 'model.safetensors'],
      entry: undefined,
    });
    const shards = [1, 2].map((number) => `model-0000${number}-of-00002.safetensors`);
    expect(choice([...shards, 'model.safetensors.index.json', ...SETTINGS])).toEqual({
      files: ['model.safetensors.index.json', ...SETTINGS, ...shards],
      entry: undefined,
    });
  });

  test('what is not whole is none', () => {
    expect(choice(['model-00001-of-00002.safetensors', ...SETTINGS])).toContain(
      'expected a GGUF file, or config.json and model.safetensors',
    );
    expect(choice(['model.safetensors'])).toContain('expected a GGUF file');
  });
});

test('whatever the names are, what is chosen is of the list', () => {
  const part = fc.constantFrom(
    'a',
    'Q4_K_M',
    'x-Q8_0',
    '-00001-of-00002',
    '.gguf',
    '.safetensors',
    '/',
    'model',
    'config.json',
    '[',
    '(',
  );
  const path = fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join(''));
  fc.assert(
    fc.property(fc.array(path, { maxLength: 8 }), fc.option(path, { nil: undefined }), (paths, wanted) => {
      const chosen = choice(paths, wanted);
      if (typeof chosen === 'string') return;
      expect(chosen.files.length).toBeGreaterThan(0);
      expect(chosen.files.every((file) => paths.includes(file))).toBe(true);
    }),
  );
});
