import { NO_PAGES, type PageCounts } from '../grid/pageCounts.js';
import type { PrefixNode, SharedTier } from './PrefixNode.js';

/**
 * Why a page is kept that nobody uses, from what is given back first: a row had it a short while ago (the next may
 * begin alike, also where rows come one by one); several rows have begun so (the head of a job, a document: more will
 * come); or rows wait that begin so.
 */
export const REASONS = ['recent', 'common', 'wanted'] as const;
export type Reason = (typeof REASONS)[number];

/**
 * Pages that rows have left, of each tier and for each reason: those that were used last are given back last.
 */
export class IdlePages {
  private readonly kept: Readonly<Record<SharedTier, Readonly<Record<Reason, Set<PrefixNode>>>>> = {
    gpu: reasons(),
    memory: reasons(),
  };
  private readonly reasonOf = new Map<PrefixNode, Reason>();

  get count(): PageCounts {
    return { ...NO_PAGES, gpu: this.onTier('gpu'), memory: this.onTier('memory') };
  }

  /** The idle pages that rows wait for. */
  get wanted(): PageCounts {
    const { gpu, memory } = this.kept;
    return { ...NO_PAGES, gpu: gpu.wanted.size, memory: memory.wanted.size };
  }

  /** Why the page is kept; undefined for one that is used, or not there. */
  reasonFor(node: PrefixNode): Reason | undefined {
    return this.reasonOf.get(node);
  }

  /** Nobody uses the page, as of now, or there is another reason to keep it. */
  put(node: PrefixNode): void {
    this.take(node);
    const reason = reasonToKeep(node);
    this.reasonOf.set(node, reason);
    this.kept[node.tier][reason].add(node);
  }

  /** The page is used, or given back. */
  take(node: PrefixNode): void {
    const reason = this.reasonOf.get(node);
    if (reason === undefined) return;
    this.reasonOf.delete(node);
    this.kept[node.tier][reason].delete(node);
  }

  /**
   * The page that can best be spared: one that no other page of its tier builds on. @param beyond how many of them may
   * stay
   */
  spare(tier: SharedTier, reason: Reason, beyond = 0): PrefixNode | undefined {
    const pages = this.kept[tier][reason];
    if (pages.size <= beyond) return undefined;
    for (const node of pages) if (node.builtHere === 0) return node;
    return undefined;
  }

  private onTier(tier: SharedTier): number {
    return REASONS.reduce((sum, reason) => sum + this.kept[tier][reason].size, 0);
  }
}

function reasonToKeep({ waiting, begun }: PrefixNode): Reason {
  return waiting > 0 ? 'wanted' : begun > 1 ? 'common' : 'recent';
}

function reasons(): Record<Reason, Set<PrefixNode>> {
  return { recent: new Set(), common: new Set(), wanted: new Set() };
}
