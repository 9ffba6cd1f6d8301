import type { RowLimit } from '../memory/PagePool.js';

/** Says what holds no longer row, and what to give for one: the end of an error's message. Pure. */
export function rowLimitWords({ tokens, by }: RowLimit): string {
  if (by === 'square')
    return `a square holds ${tokens}, and an encoder computes a row as a whole: give more memory, or a larger tokensPerSquare`;
  if (by === 'keeper')
    return `each engine keeps rows whole (attention by rows), and its KV cache holds ${tokens}: give more memory, or attention by heads, which divides them`;
  return by === 'pages'
    ? `all the KV cache there is holds ${tokens}: give more memory`
    : `a buffer for pages of the KV cache that come to the GPU holds those of ${tokens} (cpuAttention: false or a share): give a larger rowTokens, more gpuMemory`;
}
