import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { truncateSync } from 'node:fs';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { nativeCall, nativeCallAsync, nativeCallReporting } from '../../src/bindings/nativeCall.js';
import { ModelFileError } from '../../src/errors/ModelFileError.js';
import { NativeError } from '../../src/errors/NativeError.js';
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
  test('passes results and foreign errors through', async () => {
    expect(nativeCall(() => 7)).toBe(7);
    expect(await nativeCallAsync(() => Promise.resolve(8))).toBe(8);
    const foreign = new RangeError('mine');
    expect(thrown(() => { throw foreign; })).toBe(foreign);
    await expect(nativeCallAsync(() => Promise.reject(foreign))).rejects.toBe(foreign);
  });

  test('a refused argument becomes a NativeError that names it', () => {
    const error = thrown(() => addon.openRuntime(model.options({ threads: 0 })));
    expect(error).toBeInstanceOf(NativeError);
    expect(error).toMatchObject({ message: 'threads: found 0, expected 1 to 1024' });
  });

  test('a file that does not hold what was expected becomes a ModelFileError', () => {
    const missing = thrown(() => addon.openRuntime(model.options({ bindings: model.bindings.slice(1) })));
    expect(missing).toBeInstanceOf(ModelFileError);
    expect(missing).toMatchObject({ file: model.file, field: 'token_embedding', found: 'no such tensor', expected: 'matrix [61, 32]' });
    const absent = thrown(() => addon.openRuntime(model.options({ files: ['/nonexistent/a.gguf'] })));
    expect(absent).toMatchObject({ code: 'model-file', file: '/nonexistent/a.gguf' });
  });

  test('a file that shrinks after it was opened fails the load, with the tensor that was being read', async () => {
    const short = makeTinyModel(2);
    const runtime = addon.openRuntime(short.options());
    truncateSync(short.file, 9000);
    const error: unknown = await nativeCallAsync(() => runtime.load(() => undefined)).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ModelFileError);
    expect(error).toMatchObject({ file: short.file, field: expect.stringMatching(/weight|embedding/) });
    await runtime.close();
    short.remove();
  });
});

describe('nativeCallReporting', () => {
  test('hands on what is told, and the result', async () => {
    const seen: number[] = [];
    const work = async (told: (step: number) => boolean): Promise<string> => Promise.resolve(`${told(1)} ${told(2)}`);
    expect(await nativeCallReporting(work, (step: number) => seen.push(step))).toBe('true true');
    expect(seen).toEqual([1, 2]);
  });

  test('what a callback throws is the error, once the work has been told to stop and has ended, in whatever way', async () => {
    const mine = new RangeError('mine');
    for (const end of [() => Promise.resolve('done'), () => Promise.reject(new Error('cancelled'))]) {
      const answers: boolean[] = [];
      let calls = 0;
      let stopped = 0;
      const work = (told: (step: number) => boolean): Promise<string> => {
        answers.push(told(1), told(2), told(3));
        return end();
      };
      const onProgress = (step: number): void => {
        calls++;
        if (step === 2) throw mine;
      };
      await expect(nativeCallReporting(work, onProgress, () => stopped++)).rejects.toBe(mine);
      expect({ answers, calls, stopped }).toEqual({ answers: [true, false, false], calls: 2, stopped: 1 });
    }
  });

  test("the addon's own errors come as one of the library's", async () => {
    const runtime = addon.openRuntime(model.options());
    await runtime.close();
    await expect(nativeCallReporting((told: (bytes: number) => boolean) => runtime.load(told), () => undefined)).rejects.toThrow(NativeError);
  });
});
