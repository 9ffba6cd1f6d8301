import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { NO_PAGES } from '../../../src/engine/memory/pageCounts.js';
import { PagePool, type RunPages } from '../../../src/engine/memory/PagePool.js';
import type { PrefixPath } from '../../../src/engine/memory/PrefixTree.js';
import { placePages, type CacheRules, type RowLengths } from '../../../src/engine/memory/rowPlacement.js';
import type { RowPages } from '../../../src/engine/memory/RowPages.js';

const PAGE = 4;
const STEADY_SWEEPS = { rowsPerSlot: 6, tokensPerSquare: 512, staggered: true };

/** A row that goes on in every sweep, its prompt all at once, to its end. */
const STEADY = { endsAfter: 99, chunk: 500, pauses: 0 };

interface Setup {
  readonly memory: number;
  readonly gpu: number;
  readonly gpuShare: number;
  readonly diskShare: number;
}

interface Prompt {
  readonly tokens: readonly number[];
  readonly newTokens: number;
  readonly kind: string;
  /** Sweeps after which the row ends, complete or not. */
  readonly endsAfter: number;
  /** Tokens of the prompt that a sweep computes. */
  readonly chunk: number;
  /** It stands still in so many sweeps before each in which it goes on. */
  readonly pauses: number;
}

interface Live {
  readonly prompt: Prompt;
  readonly pages: RowPages;
  /** Undefined for a prefix. */
  readonly row: number | undefined;
  next: number;
  age: number;
}

/** Prompts of trees: the fewer choices there are at each step, the more they have in common. */
const prompts = fc.array(
  fc.record({
    tokens: fc.array(fc.nat(1), { minLength: 1, maxLength: 40 }), head: fc.constantFrom(0, 8, 17, 30, 66, 140), newTokens: fc.integer({ min: 1, max: 12 }), kind: fc.constantFrom('', '', 'other'), endsAfter: fc.oneof(fc.nat(4), fc.nat(20)), chunk: fc.constantFrom(3, 10, 500), pauses: fc.constantFrom(0, 0, 1, 3),
  }).map(({ tokens, head, ...rest }): Prompt => ({ tokens: [...new Array<number>(head).fill(7), ...tokens], ...rest })),
  { minLength: 1, maxLength: 20 },
);
const rows = fc.oneof(prompts, prompts.map((all) => all.map((prompt) => ({ ...prompt, chunk: STEADY.chunk, pauses: STEADY.pauses }))));
const setups = fc.record({ memory: fc.integer({ min: 8, max: 200 }), gpu: fc.integer({ min: 0, max: 200 }), gpuShare: fc.constantFrom(0, 0, 0.4, 1), diskShare: fc.constantFrom(0, 0, 0.5, 1) })
  .map((setup) => ({ ...setup, diskShare: Math.min(setup.diskShare, 1 - setup.gpuShare) }));

/** A pool whose pages hold what was written to them: for every position the history that its keys and values follow from. */
class CheckedPool {
  readonly pool: PagePool;
  readonly run: RunPages;
  readonly live: Live[] = [];
  saved = 0;
  private readonly rules: CacheRules;
  private readonly contents = new Map<number, (string | undefined)[]>();
  private readonly waiting: { readonly index: number; readonly prompt: Prompt; readonly path: PrefixPath | undefined; readonly lengths: RowLengths }[];
  readonly served: number[] = [];

  constructor({ memory, gpu, gpuShare, diskShare }: Setup, prompts: readonly Prompt[]) {
    this.rules = { pageTokens: PAGE, gpuShare, diskShare, mostDiskPages: 20 };
    this.pool = new PagePool(memory, PAGE, { pages: 400, share: diskShare, mostPerRow: 20 }, { pages: gpu, share: gpuShare });
    // Rows that dawdle are no schedule's that promises steady sweeps: each counts in full.
    this.run = this.pool.openRun(prompts.every(({ chunk, pauses }) => chunk === STEADY.chunk && pauses === 0) ? STEADY_SWEEPS : undefined, true);
    this.waiting = prompts.map((prompt, index) => {
      const lengths = { promptTokens: prompt.tokens.length, positions: prompt.tokens.length + prompt.newTokens - 1 };
      return { index, prompt, lengths, path: this.run.expect(lengths, prompt.tokens, prompt.kind) };
    });
  }

  get done(): boolean {
    return this.waiting.length === 0 && this.live.length === 0;
  }

  sweep(): void {
    this.run.advance();
    this.admit();
    this.batch(this.live.filter(({ age, prompt: { pauses } }) => age % (pauses + 1) === pauses));
    for (const each of this.live) each.age++;
    for (const each of this.live) this.check(each);
    for (const each of [...this.live]) if (each.next >= each.pages.lengths.positions || (each.row !== undefined && each.age > each.prompt.endsAfter)) this.end(each);
  }

  end(each: Live): void {
    each.pages.release();
    each.pages.release();
    this.live.splice(this.live.indexOf(each), 1);
    if (each.row !== undefined) this.served.push(each.row);
  }

  private admit(): void {
    const admission = this.run.admission(Math.min(6 - this.live.length, this.waiting.length));
    for (const waiting of [...this.waiting]) {
      if (this.live.length >= 6) return;
      const { index, prompt, lengths, path } = waiting;
      const prefix = path && admission.admitPrefix(lengths, path);
      if (prefix === 'coming') continue;
      if (prefix) {
        this.live.push({ prompt, pages: prefix, row: undefined, next: prefix.sharedTokens, age: 0 });
        continue;
      }
      const pages = admission.admit(lengths, path);
      if (!pages) {
        // Alone in the pool and still refused: it can never fit.
        if (this.live.length > 0) return;
        expect(lengths.positions).toBeGreaterThan(this.pool.longestRow);
        this.waiting.splice(this.waiting.indexOf(waiting), 1);
        continue;
      }
      expect(pages.sharedTokens).toBeLessThan(lengths.promptTokens);
      this.saved += pages.sharedTokens;
      this.waiting.splice(this.waiting.indexOf(waiting), 1);
      this.live.push({ prompt, pages, row: index, next: pages.sharedTokens, age: 0 });
    }
  }

  /** A batch of rows: what they need is taken for all of them, then pages are copied, in any order, then keys and values are stored. */
  private batch(rows: readonly Live[]): void {
    const moves = rows.map((each) => {
      const { pages, next, prompt } = each;
      const inPrompt = Math.min(pages.lengths.promptTokens, pages.lengths.positions, next + prompt.chunk);
      const end = Math.max(inPrompt, next + 1);
      if (!this.pool.has(pages.lacks(end))) throw new Error('a row that was admitted does not find its pages');
      pages.advance(end);
      return { each, next, end, own: pages.entries[Math.floor(next / PAGE)] ?? NaN };
    });
    const copies = moves.filter(({ each: { pages }, next }) => pages.copy?.position === next);
    const sources = new Set(copies.map(({ each }) => each.pages.copy?.from));
    for (const { each: { pages }, next, own } of copies) {
      const from = pages.copy?.from ?? NaN;
      expect(next % PAGE).toBeGreaterThan(0);
      // What is copied is in memory, or on the GPU like its copy, and nobody's copy goes there.
      expect(from).toBeGreaterThanOrEqual(0);
      expect(from >= this.pool.capacity).toBe(own >= this.pool.capacity);
      expect(sources.has(own)).toBe(false);
      this.contents.set(own, (this.contents.get(from) ?? []).slice(0, next % PAGE));
    }
    for (const { each, next, end } of moves) {
      for (let position = next; position < end; position++) {
        const page = each.pages.entries[Math.floor(position / PAGE)] ?? NaN;
        const content = this.contents.get(page) ?? [];
        content[position % PAGE] = this.historyOf(each, position);
        this.contents.set(page, content);
      }
      each.next = end;
      each.pages.copied();
    }
  }

  /** Whatever of it has been computed is still there, and was computed from the same tokens on the same tiers. */
  private check(each: Live): void {
    const { pages, row, next } = each;
    // What is yet to be copied is not there yet.
    const there = pages.copy?.position === next ? next - (next % PAGE) : next;
    const wrong = Array.from({ length: there }, (_, position) => position)
      .filter((position) => this.contents.get(pages.entries[Math.floor(position / PAGE)] ?? NaN)?.[position % PAGE] !== this.historyOf(each, position));
    expect(wrong).toEqual([]);
    if (row === undefined) return;
    const { gpu } = placePages(pages.lengths.positions, this.rules);
    expect(pages.entries.filter((entry, index) => entry >= this.pool.capacity !== index < gpu)).toEqual([]);
  }

  private historyOf({ prompt: { tokens, kind }, pages, row }: Live, position: number): string {
    const gpu = row === undefined ? pages.placement.gpu : placePages(pages.lengths.positions, this.rules).gpu;
    const known = tokens.slice(0, position + 1).join('');
    // Tokens that it samples are nobody else's.
    const own = position < tokens.length ? '' : ` row ${String(row)} ${position}`;
    return `${kind} ${known}${own} ${Math.min(gpu, Math.floor(position / PAGE) + 1)} pages on the GPU`;
  }
}

describe('rows that share pages', () => {
  test('find in them what they would have computed, for as long as they live; all pages come back', () => {
    let saved = 0;
    fc.assert(
      fc.property(setups, rows, (setup, prompts) => {
        const checked = new CheckedPool(setup, prompts);
        for (let sweep = 0; sweep < 3000 && !checked.done; sweep++) checked.sweep();
        expect(checked.done).toBe(true);
        expect(new Set(checked.served).size).toBe(checked.served.length);
        saved += checked.saved;
        checked.run.close();
        expect(checked.pool.used).toEqual(NO_PAGES);
      }),
      { numRuns: 150 },
    );
    expect(saved).toBeGreaterThan(500);
  });

  test('give everything back when the run is broken off at any moment', () => {
    fc.assert(
      fc.property(setups, rows, fc.nat(12), (setup, prompts, sweeps) => {
        const checked = new CheckedPool(setup, prompts);
        for (let sweep = 0; sweep < sweeps; sweep++) checked.sweep();
        for (const each of [...checked.live]) checked.end(each);
        checked.run.close();
        expect(checked.pool.used).toEqual(NO_PAGES);
      }),
      { numRuns: 80 },
    );
  });

  test('hold one copy of what all begin with', () => {
    const common = new Array<number>(40).fill(7);
    const rows = Array.from({ length: 6 }, (_, id): Prompt => ({ tokens: [...common, id, id + 1], newTokens: 3, kind: '', ...STEADY }));
    const checked = new CheckedPool({ memory: 200, gpu: 0, gpuShare: 0, diskShare: 0 }, rows);
    checked.sweep();
    checked.sweep();
    // Ten pages of the prefix, and one for each of the rows.
    expect(checked.pool.used.memory).toBe(10 + 6);
    expect(checked.saved).toBe(6 * 40);
  });

  test('of a cache on disk keep in memory what they share, and go on in their tails', () => {
    const common = new Array<number>(42).fill(7);
    const rows = Array.from({ length: 5 }, (_, id): Prompt => ({ tokens: [...common, ...new Array<number>(12).fill(id)], newTokens: 3, kind: '', ...STEADY }));
    const checked = new CheckedPool({ memory: 200, gpu: 0, gpuShare: 0, diskShare: 1 }, rows);
    while (checked.live.length < 5) checked.sweep();
    for (const { pages } of checked.live) {
      expect(pages.entries.slice(0, 10)).toEqual(checked.live[0]?.pages.entries.slice(0, 10));
      expect(pages.entries.slice(0, 10).every((entry) => entry >= 0)).toBe(true);
      expect(pages.entries.slice(10, 13).every((entry) => entry < 0)).toBe(true);
      expect(pages.copy?.position).toBe(42);
    }
  });

  test('of two kinds, or with their pages on two tiers, share nothing', () => {
    const common = new Array<number>(140).fill(7);
    const row = (id: number, newTokens: number, kind: string): Prompt => ({ tokens: [...common, id], newTokens, kind, ...STEADY });
    const kinds = new CheckedPool({ memory: 200, gpu: 0, gpuShare: 0, diskShare: 0 }, [row(0, 2, 'a'), row(1, 2, 'b')]);
    kinds.sweep();
    expect(kinds.saved).toBe(0);
    // Half of 36 pages, and of 44: from the 19th page on one is on the GPU and the other is not.
    const tiers = new CheckedPool({ memory: 200, gpu: 200, gpuShare: 0.5, diskShare: 0 }, [row(0, 3, ''), row(1, 35, ''), row(2, 3, '')]);
    while (tiers.live.filter((each) => each.row !== undefined).length < 3) tiers.sweep();
    const [one, other] = [0, 1].map((index) => tiers.live.find((each) => each.row === index)?.pages.entries ?? []);
    expect(other?.slice(0, 18)).toEqual(one?.slice(0, 18));
    expect(other?.[18]).toBeGreaterThanOrEqual(200);
    expect(one?.[18]).toBeLessThan(200);
  });
});
