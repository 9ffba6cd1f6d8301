import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { KnownModel } from '../../../src/model/pull/knownModels.js';
import type { DownloadSource } from '../../../src/model/pull/ModelDownload.js';

/** A file of 300,000 bytes that no piece of it repeats, and a model that it is the file of. */
export const CONTENTS = Buffer.alloc(300_000, Buffer.from(Array.from({ length: 997 }, (_, i) => (i * i) % 251)));

export const MODEL: KnownModel = {
  id: 'tiny',
  description: 'a model for tests',
  license: 'Apache-2.0',
  fileName: 'tiny.gguf',
  bytes: CONTENTS.length,
  sha256: createHash('sha256').update(CONTENTS).digest('hex'),
  hub: { repo: 'someone/tiny-GGUF', revision: '0123456789abcdef0123456789abcdef01234567', path: 'tiny.gguf' },
  pypi: { package: 'tiny-wheel', version: '1.0', member: 'tiny_wheel/tiny.gguf' },
};

export async function temporaryFolder(): Promise<{ path: string } & AsyncDisposable> {
  const path = await mkdtemp(join(tmpdir(), 'spillway-pull-'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** A source that sends `bytes` from where the request wants it, in pieces, and may fail after some of them. */
export function source(
  name: string,
  bytes: Buffer,
  options: { resumes?: boolean; failAfter?: number; offsets?: number[]; onChunk?: (at: number) => void } = {},
): DownloadSource {
  return {
    name,
    has: () => true,
    open: ({ offset: wanted, signal }) => {
      const offset = options.resumes === true ? wanted : 0;
      options.offsets?.push(wanted);
      async function* chunks(): AsyncGenerator<Uint8Array> {
        for (let at = offset; at < bytes.length; at += 10_000) {
          await Promise.resolve();
          signal.throwIfAborted();
          if (at >= (options.failAfter ?? Infinity))
            throw new Error(`${name} broke off`, { cause: new Error('reset by peer') });
          options.onChunk?.(at);
          yield bytes.subarray(at, at + 10_000);
        }
      }
      return Promise.resolve({ offset, chunks: chunks() });
    },
  };
}

export function failing(name: string, message: string): DownloadSource {
  return { name, has: () => true, open: () => Promise.reject(new Error(message)) };
}
