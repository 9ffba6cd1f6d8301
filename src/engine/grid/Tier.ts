/** Where things live: the GPU's memory, the host's, a disk. */
export const TIERS = ['gpu', 'cpu', 'disk'] as const;
export type Tier = (typeof TIERS)[number];

/** Where something may be computed. */
export type ComputeTier = Exclude<Tier, 'disk'>;

/** Where something comes from or goes to: a tier of this machine, or the engine of the layers before or after. */
export type Place = Tier | 'peer';
