import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { truncateSync } from 'node:fs';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { fromNativeError, nativeCall } from '../../src/bindings/nativeCall.js';
import { ModelFileError } from '../../src/errors/ModelFileError.js';
import { NativeError } from '../../src/errors/engineErrors.js';
import { makeTinyModel, type TinyModel } from './support/tinyModel.js';

const addon = loadAddon();
let model: TinyModel;
beforeAll(() => {
  model = makeTinyModel();
});
afterAll(() => model.remove());

function thrown(call: () => unknown): unknown {
  try {
    nativeCall(call);
  } catch (error) {
    return error;
  }
  return undefined;
}

describe('nativeCall', () => {
  test('passes results and foreign errors through', () => {
    expect(nativeCall(() => 7)).toBe(7);
    const foreign = new RangeError('mine');
    expect(
      thrown(() => {
        throw foreign;
      }),
    ).toBe(foreign);
  });

  test('a refused argument becomes a NativeError that names it', () => {
    const error = thrown(() => addon.openRuntime(model.options({ threads: 0 })));
    expect(error).toBeInstanceOf(NativeError);
    expect(error).toMatchObject({ message: 'threads: found 0, expected 1 to 1024' });
  });

  test('a file that does not hold what was expected becomes a ModelFileError', () => {
    const missing = thrown(() => addon.openRuntime(model.options({ bindings: model.bindings.slice(1) })));
    expect(missing).toBeInstanceOf(ModelFileError);
    expect(missing).toMatchObject({
      file: model.file,
      field: 'token_embedding',
      found: 'no such tensor',
      expected: 'matrix [61, 32]',
    });
    const absent = thrown(() => addon.openRuntime(model.options({ files: ['/nonexistent/a.gguf'] })));
    expect(absent).toMatchObject({ code: 'model-file', file: '/nonexistent/a.gguf' });
  });

  test('a file that shrinks after it was opened fails the load, with the tensor that was being read', async () => {
    const short = makeTinyModel(2);
    const runtime = addon.openRuntime(short.options());
    truncateSync(short.file, 9000);
    const error: unknown = await runtime.load(() => undefined).catch((reason: unknown) => fromNativeError(reason));
    expect(error).toBeInstanceOf(ModelFileError);
    expect(error).toMatchObject({ file: short.file, field: expect.stringMatching(/weight|embedding/) });
    await runtime.close();
    short.remove();
  });
});
