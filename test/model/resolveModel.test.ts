import { afterEach, describe, expect, test } from '@jest/globals';
import { mkdir, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ModelFileError } from '../../src/errors/ModelFileError.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { userCacheFolder, userDataFolder } from '../../src/files/userFolders.js';
import { isModelName, knownModels, resolveModel } from '../../src/model/resolveModel.js';
import { temporaryFolder } from './pull/pullFixtures.js';

describe('resolveModel', () => {
  const before = process.env['XDG_CACHE_HOME'];
  afterEach(() => {
    if (before === undefined) delete process.env['XDG_CACHE_HOME'];
    else process.env['XDG_CACHE_HOME'] = before;
  });

  test.each(['./model.gguf', '/nowhere/model', 'model.gguf', 'folder/', '..', 'MODEL.GGUF'])(
    'leaves the path %s alone',
    async (path) => {
      await expect(resolveModel(path)).resolves.toBe(path);
    },
  );

  test('leaves a bare name alone that is something on disk', async () => {
    await expect(resolveModel('src')).resolves.toBe('src');
  });

  test.each(['hf:nobody', 'hf:a/b/c', 'ollama:../x', 'lmstudio:x'])(
    '%s has a known beginning and is no name',
    async (name) => {
      await expect(resolveModel(name)).rejects.toThrow(UsageError);
      expect(isModelName(name)).toBe(true);
    },
  );

  test('suggests what was probably meant', async () => {
    await expect(resolveModel('smollm2-135m')).rejects.toThrow('(did you mean smollm2-135m-instruct?)');
  });

  test('refuses any other bare word, with the list of known models', async () => {
    const refused = resolveModel('smollm3-1t-instruct');
    await expect(refused).rejects.toBeInstanceOf(ModelFileError);
    await expect(refused).rejects.toThrow(
      /smollm3-1t-instruct: model: found neither .*, expected .*smollm2-135m-instruct/,
    );
  });

  test.each([[5], [null], [undefined], [{}], [new URL('file:///model.gguf')]])(
    'refuses %p, which is no text',
    async (model) => {
      await expect(resolveModel(model as string)).rejects.toThrow(/^model: found .*, expected a path or a known id$/);
      await expect(resolveModel(model as string)).rejects.toThrow(UsageError);
    },
  );

  test('refuses options that are none', async () => {
    await expect(resolveModel('./model.gguf', null as never)).rejects.toThrow(
      'options: found null, expected an object',
    );
    await expect(resolveModel('./model.gguf', { onprogress: () => undefined } as never)).rejects.toThrow(
      'options: found the unknown "onprogress"',
    );
    await expect(resolveModel('./model.gguf', { onProgress: 3 as never })).rejects.toThrow(
      'onProgress: found 3, expected a function',
    );
  });

  test('finds a known model in the cache, whatever the case of its id', async () => {
    await using folder = await temporaryFolder();
    process.env['XDG_CACHE_HOME'] = folder.path;
    const [model] = knownModels;
    if (model === undefined) throw new Error('no known model');
    const path = join(folder.path, 'spillway', 'models', model.fileName);
    await mkdir(join(folder.path, 'spillway', 'models'), { recursive: true });
    await writeFile(path, '');
    await truncate(path, model.bytes);
    await expect(resolveModel(model.id.toUpperCase())).resolves.toBe(path);
  });
});

test('known models have distinct lower-case ids and file names, full hashes and fixed commits', () => {
  expect(new Set(knownModels.map(({ id }) => id)).size).toBe(knownModels.length);
  expect(new Set(knownModels.map(({ fileName }) => fileName)).size).toBe(knownModels.length);
  for (const model of knownModels) {
    expect(model.id).toMatch(/^[a-z0-9][a-z0-9.-]*$/);
    expect(model.sha256).toMatch(/^[0-9a-f]{64}$/);
    expect(model.hub.revision).toMatch(/^[0-9a-f]{40}$/);
    expect(model.bytes).toBeGreaterThan(0);
  }
});

describe('userCacheFolder', () => {
  test.each([
    [{ XDG_CACHE_HOME: '/somewhere' }, /^\/somewhere\/spillway$/],
    [{ XDG_CACHE_HOME: 'relative' }, /\/\.cache\/spillway$/],
    [{ XDG_CACHE_HOME: '' }, /\/\.cache\/spillway$/],
    [{}, /\/\.cache\/spillway$/],
  ])('%j gives %s', (environment, expected) => {
    expect(userCacheFolder(environment)).toMatch(expected);
  });
});

describe('userDataFolder', () => {
  test.each([
    [{ XDG_DATA_HOME: '/somewhere' }, /^\/somewhere\/spillway$/],
    [{ XDG_DATA_HOME: 'relative' }, /\/\.local\/share\/spillway$/],
    [{ XDG_CACHE_HOME: '/somewhere' }, /\/\.local\/share\/spillway$/],
  ])('%j gives %s', (environment, expected) => {
    expect(userDataFolder(environment)).toMatch(expected);
  });
});
