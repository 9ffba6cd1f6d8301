import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { ModelFileError } from '../../../src/errors/ModelFileError.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { lmStudioModel } from '../../../src/model/local/lmStudioModel.js';
import { ollamaModel } from '../../../src/model/local/ollamaModel.js';
import { readModel } from '../../../src/model/readModel.js';

const MODEL = readFileSync('test/fixtures/models/llama-Q8_0.gguf');
const DIGEST = createHash('sha256').update(MODEL).digest('hex');

let store: string;
beforeEach(() => {
  store = mkdtempSync(join(tmpdir(), 'spillway-store-'));
});
afterEach(() => rmSync(store, { recursive: true, force: true }));

function write(path: string, content: string | Buffer): void {
  mkdirSync(dirname(join(store, path)), { recursive: true });
  writeFileSync(join(store, path), content);
}

describe('ollama:', () => {
  const MANIFEST = {
    schemaVersion: 2,
    layers: [
      { mediaType: 'application/vnd.ollama.image.template', digest: `sha256:${'a'.repeat(64)}`, size: 3 },
      { mediaType: 'application/vnd.ollama.image.model', digest: `sha256:${DIGEST}`, size: MODEL.length },
    ],
  };
  const find = (name: string): Promise<string> => ollamaModel(name, { OLLAMA_MODELS: store });

  test.each([
    ['ollama:tiny', 'registry.ollama.ai/library/tiny/latest'],
    ['ollama:tiny:1b', 'registry.ollama.ai/library/tiny/1b'],
    ['ollama:me/tiny:1b', 'registry.ollama.ai/me/tiny/1b'],
    ['ollama:hf.co/me/tiny:Q4_K_M', 'hf.co/me/tiny/Q4_K_M'],
  ])('%s is found by its manifest, and can be read', async (name, manifest) => {
    write(`manifests/${manifest}`, JSON.stringify(MANIFEST));
    write(`blobs/sha256-${DIGEST}`, MODEL);
    const path = await find(name);
    expect(path).toBe(join(store, 'blobs', `sha256-${DIGEST}`));
    expect((await readModel(path)).decoder.family).toBe('llama');
  });

  test.each([
    'ollama:',
    'ollama:../x',
    'ollama:a/../../x',
    'ollama:a:b:c',
    'ollama:/etc/passwd',
    'ollama:a b',
    'ollama:a:../x',
    'ollama:a/b/c/d',
  ])('%s is no name', async (name) => {
    await expect(find(name)).rejects.toThrow(UsageError);
  });

  test('a model that is not there, one that is cut off, and manifests that name none', async () => {
    await expect(find('ollama:tiny')).rejects.toThrow(
      /no tiny:latest in .*, expected one that `ollama list` shows; `ollama pull tiny:latest` fetches it/,
    );
    write('manifests/registry.ollama.ai/library/tiny/latest', JSON.stringify(MANIFEST));
    await expect(find('ollama:tiny')).rejects.toThrow('no file');
    write(`blobs/sha256-${DIGEST}`, MODEL.subarray(1));
    await expect(find('ollama:tiny')).rejects.toThrow(ModelFileError);
    for (const manifest of [
      '',
      '[]',
      'null',
      '{"layers":[null,3]}',
      JSON.stringify({
        layers: [{ mediaType: 'application/vnd.ollama.image.model', digest: 'sha256:../../x', size: 1 }],
      }),
    ]) {
      write('manifests/registry.ollama.ai/library/tiny/latest', manifest);
      await expect(find('ollama:tiny')).rejects.toThrow('no layer with a model');
    }
  });

  test('an adapter, or a second model, makes another one of it: refused', async () => {
    write(`blobs/sha256-${DIGEST}`, MODEL);
    for (const [more, words] of [
      ['adapter', 'an adapter beside the model'],
      ['model', '2 models'],
    ] as const) {
      const layer = { mediaType: `application/vnd.ollama.image.${more}`, digest: `sha256:${'b'.repeat(64)}`, size: 3 };
      const manifest = { ...MANIFEST, layers: [...MANIFEST.layers, layer] };
      write('manifests/registry.ollama.ai/library/tiny/latest', JSON.stringify(manifest));
      await expect(find('ollama:tiny')).rejects.toThrow(words);
    }
  });
});

describe('lmstudio:', () => {
  const find = (name: string): Promise<string> => lmStudioModel(name, { LMSTUDIO_MODELS: store });

  test('a model, and its quant', async () => {
    write('me/tiny-GGUF/tiny-Q4_K_M.gguf', MODEL);
    write('me/tiny-GGUF/tiny-Q8_0.gguf', MODEL);
    expect(await find('lmstudio:me/tiny-GGUF')).toBe(join(store, 'me/tiny-GGUF/tiny-Q4_K_M.gguf'));
    expect(await find('lmstudio:me/tiny-GGUF:Q8_0')).toBe(join(store, 'me/tiny-GGUF/tiny-Q8_0.gguf'));
    await expect(find('lmstudio:me/tiny-GGUF:Q2_K')).rejects.toThrow(
      'found no file or quant "Q2_K", expected tiny-Q4_K_M.gguf, tiny-Q8_0.gguf',
    );
    await expect(find('lmstudio:me/other')).rejects.toThrow('no me/other in');
  });

  test.each(['lmstudio:', 'lmstudio:x', 'lmstudio:../x', 'lmstudio:a/b/c', 'lmstudio:a/b:../../x'])(
    '%s is no name',
    async (name) => {
      await expect(find(name)).rejects.toThrow(UsageError);
    },
  );
});
