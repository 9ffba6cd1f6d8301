/** The most that there may be of each, whoever asks for it: an option, a policy, a flag. The least is 1. */
export const BLOCK_LIMITS = { batchSize: 4096, batches: 256, threads: 1024, tokensPerSquare: 65_536 } as const;
