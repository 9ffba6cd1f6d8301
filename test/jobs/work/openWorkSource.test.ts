import { expect, test } from '@jest/globals';
import { InterruptedError } from '../../../src/errors/InterruptedError.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { openWorkSource } from '../../../src/jobs/work/openWorkSource.js';

test.each(['nats://127.0.0.1:9', 'postgres://127.0.0.1:9/db'])(
  '%s is waited for until a signal fires',
  async (queue) => {
    const began = performance.now();
    await expect(openWorkSource(queue, 'j', { signal: AbortSignal.timeout(300) })).rejects.toThrow(InterruptedError);
    // Without one it takes ten seconds until it is given up.
    expect(performance.now() - began).toBeLessThan(8000);
    await expect(openWorkSource(queue, 'j', { signal: 5 as unknown as AbortSignal })).rejects.toThrow(
      new UsageError('signal: found 5, expected an AbortSignal'),
    );
  },
);
