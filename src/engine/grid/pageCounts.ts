/** Pages by tier; `memory` is that of the host. */
export interface PageCounts {
  readonly gpu: number;
  readonly memory: number;
  readonly disk: number;
}

export const PAGE_TIERS = ['gpu', 'memory', 'disk'] as const;
export type PageTier = (typeof PAGE_TIERS)[number];

export const NO_PAGES: PageCounts = { gpu: 0, memory: 0, disk: 0 };

/** `a` and `times` times `b`. Pure. */
export function plus(a: PageCounts, b: PageCounts, times = 1): PageCounts {
  return { gpu: a.gpu + times * b.gpu, memory: a.memory + times * b.memory, disk: a.disk + times * b.disk };
}

/** On all tiers. Pure. */
export function total({ gpu, memory, disk }: PageCounts): number {
  return gpu + memory + disk;
}

/** Tells whether no tier has to hold more than it can. Pure. */
export function within(pages: PageCounts, capacity: PageCounts): boolean {
  return pages.gpu <= capacity.gpu && pages.memory <= capacity.memory && pages.disk <= capacity.disk;
}

/** The lesser of the two in each tier. Pure. */
export function least(a: PageCounts, b: PageCounts): PageCounts {
  return { gpu: Math.min(a.gpu, b.gpu), memory: Math.min(a.memory, b.memory), disk: Math.min(a.disk, b.disk) };
}
