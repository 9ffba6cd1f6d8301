// How threads are best divided between computing and moving: the same rows, streaming from disk, with one compute thread and more, and with the disk's
// requests made by the kernel's ring (no thread of ours) or by a pool of threads. The engine's own choice is marked.
import { availableParallelism } from 'node:os';
import { benchVariants } from './lib/variants.mjs';

const processors = availableParallelism();
/** One, half, all but one, all, and one too many. */
const counts = [...new Set([1, processors >> 1, processors - 1, processors, processors + 1])].filter((count) => count > 0).sort((a, b) => a - b);

await benchVariants({
  name: 'threads',
  title: 'Thread splits',
  variants: ({ engine }) =>
    ['ring', 'threads'].flatMap((backend) =>
      counts.map((threads) => ({
        name: `${threads} to compute, disk by ${backend === 'ring' ? 'the ring' : 'threads'}${threads === engine.threads && backend === 'ring' ? ' (chosen)' : ''}`,
        engine: { threads },
        env: { SPILLWAY_DISK_BACKEND: backend },
      })),
    ),
});
