import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { TimedFetch } from '../../../src/model/pull/TimedFetch.js';

test('an abort between two reads ends the transfer, and no rejection is left that nobody looks at', async () => {
  const stop = new AbortController();
  const stream = new ReadableStream<Uint8Array>({
    start: (controller) => {
      controller.enqueue(Buffer.from('first'));
      stop.signal.addEventListener('abort', () => controller.error(new Error('the connection is gone')));
    },
  });
  const chunks = new TimedFetch(stop.signal, { answer: 60, stall: 60 }, fetch).read(stream);
  expect((await chunks.next()).value).toEqual(Buffer.from('first'));
  stop.abort();
  await expect(chunks.next()).rejects.toThrow('the download was stopped');
  // jest fails a test that leaves one.
  await turn();
});
