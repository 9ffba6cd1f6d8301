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
    [undefined, ['a-IQ1.gguf', 'b-IQ2.gguf'], 'found several GGUF files, expected one by name: a-IQ1.gguf, b-IQ2.gguf'],
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

describe('of safetensors', () => {
  const SETTINGS = ['config.json', 'tokenizer.json', 'tokenizer_config.json'];

  test('settings first, weights last; nothing else', () => {
    expect(choice(['model.safetensors', 'pytorch_model.bin', 'onnx/model.onnx', ...SETTINGS])).toEqual({
      files: [...SETTINGS, 'model.safetensors'],
      entry: undefined,
    });
    const modules = ['1_Pooling/config.json', '2_Dense/config.json'];
    expect(choice([...modules, 'onnx/config.json', 'model.safetensors', ...SETTINGS])).toEqual({
      files: [...modules, ...SETTINGS, 'model.safetensors'],
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
