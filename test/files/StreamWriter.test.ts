import { PassThrough, Writable } from 'node:stream';
import { describe, expect, test } from '@jest/globals';
import { InterruptedError } from '../../src/errors/InterruptedError.js';
import { JobFileError } from '../../src/errors/JobFileError.js';
import { StreamWriter } from '../../src/files/StreamWriter.js';

describe('StreamWriter', () => {
  test('a slow reader holds the writer up: what waits is bounded', async () => {
    const stream = new PassThrough({ highWaterMark: 1000 });
    const writer = new StreamWriter(stream, 'out');
    let written = 0;
    const writing = (async () => {
      for (; written < 500; written += 1) await writer.write(`${'x'.repeat(99)}\n`);
      await writer.close();
    })();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(written).toBeLessThan(50);
    let bytes = 0;
    stream.on('data', (chunk: Buffer) => (bytes += chunk.length));
    await writing;
    expect(bytes).toBe(50_000);
    expect(stream.destroyed).toBe(false);
  });

  test('leaves no listeners behind', async () => {
    const stream = new PassThrough();
    stream.resume();
    for (let at = 0; at < 20; at += 1) {
      const writer = new StreamWriter(stream, 'out');
      await writer.write('x\n');
      await writer.close();
    }
    expect(stream.listenerCount('error') + stream.listenerCount('close')).toBe(
      new PassThrough().listenerCount('error'),
    );
  });

  test('a stream that fails is a JobFileError with its cause, also when the failure comes late', async () => {
    const failing = new Writable({
      highWaterMark: 1,
      write: (_chunk, _encoding, done) =>
        setTimeout(() => done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' })), 5),
    });
    const error: unknown = await new StreamWriter(failing, 'standard output')
      .write('x\n')
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(JobFileError);
    expect(error).toMatchObject({
      message: 'standard output: cannot be written: write EPIPE',
      cause: { code: 'EPIPE' },
    });

    const late = new Writable({ write: (_chunk, _encoding, done) => setTimeout(() => done(new Error('late')), 5) });
    const writer = new StreamWriter(late, 'out');
    await writer.write('x\n');
    await expect(writer.close()).rejects.toThrow('out: cannot be written: late');
  });

  test('a reader that goes away does not leave the writer waiting', async () => {
    const stream = new PassThrough({ highWaterMark: 1 });
    const writing = new StreamWriter(stream, 'out').write('much\n');
    setTimeout(() => stream.destroy(), 5);
    await expect(writing).rejects.toThrow('the stream was closed');
  });
});

test('an interrupted writer waits no longer for a reader that sleeps, and closes what it was to close', async () => {
  const end = new AbortController();
  const stream = new PassThrough({ highWaterMark: 10 });
  const writer = new StreamWriter(stream, 'out', { end: true, signal: end.signal });
  const writing = writer.write('more than it takes\n');
  end.abort();
  await expect(writing).rejects.toThrow(InterruptedError);
  await expect(writer.close()).rejects.toThrow(JobFileError);
  expect(stream.destroyed).toBe(true);
});
