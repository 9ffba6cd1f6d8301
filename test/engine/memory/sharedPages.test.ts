import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { NO_PAGES } from '../../../src/engine/grid/pageCounts.js';
import { PagePool, type RunPages } from '../../../src/engine/memory/PagePool.js';
import type { PrefixPath } from '../../../src/engine/memory/PrefixNode.js';
import { ALL_POSITIONS, lastPositions } from '../../../src/engine/grid/CacheLaw.js';
import { GIVEN_BACK, type GroupTable } from '../../../src/engine/grid/PageTable.js';
import type { PagePlacement, RowLengths } from '../../../src/engine/memory/PagePlacement.js';
import { placePages, type CacheRules } from '../../../src/engine/memory/placePages.js';
import type { RowPages } from '../../../src/engine/memory/RowPages.js';
import { tries } from '../../support/tries.js';

const PAGE = 4;
const PLACES = 6;
const NOTHING = { waiting: 0, holders: 0, readers: 0, pages: 0, nodes: 0 };

/** A row that goes on in every sweep, its prompt all at once, to its end. */
const STEADY = { arrives: 0, endsAfter: 99, chunk: 500, pauses: 0 };

interface Setup {
  readonly memory: number;
  readonly gpu: number;
  readonly gpuShare: number;
  readonly diskShare: number;
  /** As in `CacheRules`. */
  readonly attendedShare?: number | undefined;
  /** Rows that may wait. Default: all. */
  readonly ahead?: number;
  /** Rows come in whenever there is a place. Default true. */
  readonly staggered?: boolean;
  /** Tokens that a steady sweep computes. Default: all prompts at once. */
  readonly tokensPerSquare?: number;
  /** Windows of the groups of layers; 0 = all positions. Default: one group that keeps everything. */
  readonly windows?: readonly number[];
}

interface Prompt {
  /** The sweep from which on it is known, if there is room for it among those that wait. */
  readonly arrives: number;
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
  fc
    .record({
      tokens: fc.array(fc.nat(1), { minLength: 1, maxLength: 40 }),
      head: fc.constantFrom(0, 8, 17, 30, 66, 140),
      newTokens: fc.oneof(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 20, max: 60 })),
      kind: fc.constantFrom('', '', 'other'),
      endsAfter: fc.oneof(fc.nat(4), fc.nat(20), fc.constant(99)),
      chunk: fc.constantFrom(3, 10, 500),
      pauses: fc.constantFrom(0, 0, 1, 3),
      arrives: fc.oneof(fc.constant(0), fc.nat(40)),
    })
    .map(({ tokens, head, ...rest }): Prompt => ({ tokens: [...new Array<number>(head).fill(7), ...tokens], ...rest })),
  { minLength: 1, maxLength: 20 },
);
const steady = prompts.map((all) => all.map((prompt) => ({ ...prompt, chunk: STEADY.chunk, pauses: STEADY.pauses })));
const rows = fc.oneof(prompts, steady);
const setups = fc
  .record({
    memory: fc.integer({ min: 8, max: 200 }),
    gpu: fc.integer({ min: 0, max: 200 }),
    gpuShare: fc.constantFrom(0, 0, 0.4, 1),
    diskShare: fc.constantFrom(0, 0, 0.5, 1),
    attendedShare: fc.constantFrom(undefined, undefined, 0.3, 0.7),
    ahead: fc.integer({ min: 1, max: 20 }),
    staggered: fc.boolean(),
  })
  .map((setup) => ({
    ...setup,
    diskShare: Math.min(setup.diskShare, 1 - setup.gpuShare),
    attendedShare: setup.attendedShare && Math.max(setup.attendedShare, setup.gpuShare),
  }));
/** Groups of layers of a model some or all of whose layers see the last positions alone. */
const windows = fc.constantFrom([0, 9], [0, 9, 9], [5], [17, 17], [0, 1, 30]);
const windowed = fc.record({ setup: setups, windows }).map(({ setup, windows: each }) => ({
  ...setup,
  memory: setup.memory * each.length,
  attendedShare: undefined,
  windows: each,
}));
/**
 * One beginning, and hardly more memory than the longest row takes: who comes in counts on what others will give back.
 */
const scarce = fc
  .record({
    memory: fc.integer({ min: 6, max: 30 }),
    ahead: fc.integer({ min: 1, max: 6 }),
    staggered: fc.boolean(),
    head: fc.integer({ min: 4, max: 40 }),
    tokensPerSquare: fc.constantFrom(512, 12, PLACES),
    rows: fc.array(
      fc.record({
        begins: fc.boolean(),
        own: fc.oneof(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 10, max: 40 })),
        newTokens: fc.integer({ min: 1, max: 40 }),
        arrives: fc.oneof(fc.constant(0), fc.nat(20)),
      }),
      { minLength: 3, maxLength: 10 },
    ),
  })
  .map(({ head, rows: all, memory, ahead, staggered, tokensPerSquare }) => ({
    setup: { memory, ahead, staggered, tokensPerSquare, gpu: 0, gpuShare: 0, diskShare: 0 },
    prompts: all.map(({ begins, own, newTokens, arrives }, row): Prompt => ({
      ...STEADY,
      tokens: [
        ...new Array<number>(begins ? head : 0).fill(7),
        ...Array.from({ length: own }, (_, i) => 100 * row + i),
      ],
      newTokens,
      arrives,
      kind: '',
    })),
  }));

interface Waiting {
  readonly index: number;
  readonly prompt: Prompt;
  readonly path: PrefixPath | undefined;
  readonly lengths: RowLengths;
}

const beginnings = new WeakMap<readonly number[], readonly string[]>();

/** For each token of a prompt, all up to that one. */
function beginningsOf(tokens: readonly number[]): readonly string[] {
  let all = beginnings.get(tokens);
  if (!all) beginnings.set(tokens, (all = tokens.map((_, index) => tokens.slice(0, index + 1).join(','))));
  return all;
}

/**
 * A pool whose pages hold what was written to them: for every position the history that its keys and values follow
 * from.
 */
class CheckedPool {
  readonly pool: PagePool;
  readonly run: RunPages;
  readonly live: Live[] = [];
  saved = 0;
  private readonly rules: CacheRules;
  private readonly contents = new Map<number, (string | undefined)[]>();
  private readonly waiting: Waiting[] = [];
  private readonly steady: boolean;
  private coming: { readonly index: number; readonly prompt: Prompt }[];
  private sweeps = 0;
  private nextRow = 0;
  readonly served: number[] = [];

  constructor(
    private readonly setup: Setup,
    prompts: readonly Prompt[],
  ) {
    const { memory, gpu, gpuShare, diskShare, attendedShare, staggered = true, windows = [0] } = setup;
    const groups = windows.map((window) => (window === 0 ? ALL_POSITIONS : lastPositions(window)));
    // Rows that dawdle are alone with what they compute of their prompts.
    const chunk = Math.max(...prompts.map((prompt) => prompt.chunk));
    const promptTokensUnderWay = Math.min(chunk, this.tokensPerSquare);
    this.rules = {
      pageTokens: PAGE,
      gpuShare,
      diskShare,
      mostDiskPages: 20,
      attendedShare,
      groups,
      promptTokensUnderWay,
    };
    this.pool = new PagePool(
      memory,
      PAGE,
      { pages: 400, share: diskShare, mostPerRow: 20 },
      { pages: gpu, share: gpuShare, attendedShare },
      { groups, promptTokensUnderWay },
    );
    // Rows that dawdle are no schedule's that promises steady sweeps: each counts in full.
    this.steady = prompts.every(({ chunk, pauses }) => chunk === STEADY.chunk && pauses === 0);
    this.run = this.pool.openRun(
      this.steady ? { rowsPerSlot: PLACES, tokensPerSquare: this.tokensPerSquare, staggered } : undefined,
      true,
    );
    this.coming = prompts
      .map((prompt, index) => ({ index, prompt }))
      .sort((a, b) => a.prompt.arrives - b.prompt.arrives);
  }

  private get tokensPerSquare(): number {
    return this.setup.tokensPerSquare ?? 512;
  }

  get done(): boolean {
    return this.coming.length === 0 && this.waiting.length === 0 && this.live.length === 0;
  }

  sweep(): void {
    this.arrive();
    this.run.sweepPlanned();
    this.admit();
    this.batch(this.steady ? this.steadyMoves() : this.dawdlingMoves());
    for (const each of this.live) each.age++;
    for (const each of this.live) this.check(each);
    for (const each of [...this.live])
      if (each.next >= each.pages.lengths.positions || (each.row !== undefined && each.age > each.prompt.endsAfter))
        this.end(each);
  }

  end(each: Live): void {
    each.pages.release();
    each.pages.release();
    this.live.splice(this.live.indexOf(each), 1);
    if (each.row !== undefined) this.served.push(each.row);
  }

  /** The run is over. */
  close(): void {
    for (const each of [...this.live]) this.end(each);
    for (const { path } of this.waiting) if (path) this.run.forget(path);
    this.run.close();
    expect(this.pool.used).toEqual(NO_PAGES);
    expect(this.run.census()).toEqual(NOTHING);
  }

  private arrive(): void {
    const known = this.coming
      .filter(({ prompt }) => prompt.arrives <= this.sweeps)
      .slice(0, Math.max(0, (this.setup.ahead ?? Infinity) - this.waiting.length));
    this.sweeps++;
    this.coming = this.coming.filter((each) => !known.includes(each));
    for (const { index, prompt } of known) {
      const lengths = { promptTokens: prompt.tokens.length, positions: prompt.tokens.length + prompt.newTokens - 1 };
      this.waiting.push({ index, prompt, lengths, path: this.run.expect(lengths, prompt.tokens, prompt.kind) });
    }
  }

  private admit(): void {
    const admission = this.run.admission(Math.min(PLACES - this.live.length, this.waiting.length));
    for (const turn of [...this.run.inTurn()]) {
      const waiting = this.waiting.find(({ path }) => path === turn);
      if (!waiting || this.live.length >= PLACES) return;
      const { index, prompt, lengths, path } = waiting;
      const prefix = path && admission.admitPrefix(this.nextRow, lengths, path);
      if (prefix === 'coming') continue;
      if (prefix) {
        this.nextRow++;
        this.live.push({ prompt, pages: prefix, row: undefined, next: prefix.sharedTokens, age: 0 });
        continue;
      }
      const pages = admission.admit(this.nextRow, lengths, path);
      if (!pages) {
        // Alone in the pool and still refused: it can never fit.
        if (this.live.length > 0) return;
        expect(lengths.positions).toBeGreaterThan(this.pool.longestRow);
        if (path) this.run.forget(path);
        this.waiting.splice(this.waiting.indexOf(waiting), 1);
        continue;
      }
      this.nextRow++;
      expect(pages.sharedTokens).toBeLessThan(lengths.promptTokens);
      this.saved += pages.sharedTokens;
      this.waiting.splice(this.waiting.indexOf(waiting), 1);
      this.live.push({ prompt, pages, row: index, next: pages.sharedTokens, age: 0 });
    }
  }

  /** Rows that decode advance by a token each, prompts by what is left of the square, oldest first. */
  private steadyMoves(): (readonly [Live, number])[] {
    let left = this.tokensPerSquare;
    const inPrompt = ({ pages: { lengths }, next }: Live): number =>
      Math.max(0, Math.min(lengths.promptTokens, lengths.positions) - next);
    const moved = this.live.map((each) => [each, inPrompt(each) > 0 ? 0 : 1] as const);
    for (const [, tokens] of moved) left -= tokens;
    return moved
      .map(([each, tokens]) => {
        const more = Math.min(inPrompt(each), left);
        left -= more;
        return [each, each.next + tokens + more] as const;
      })
      .filter(([each, end]) => end > each.next);
  }

  private dawdlingMoves(): (readonly [Live, number])[] {
    const rows = this.live.filter(({ age, prompt: { pauses } }) => age % (pauses + 1) === pauses);
    return rows.map((each) => [
      each,
      Math.max(
        Math.min(each.pages.lengths.promptTokens, each.pages.lengths.positions, each.next + each.prompt.chunk),
        each.next + 1,
      ),
    ]);
  }

  /**
   * A batch of rows: what they need is taken for all of them, then pages are copied, in any order, then keys and values
   * are stored.
   */
  private batch(rows: readonly (readonly [Live, number])[]): void {
    const moves = rows.map(([each, end]) => {
      const { pages, next } = each;
      if (!this.pool.has(pages.lacks(end))) throw new Error('a row that was admitted does not find its pages');
      pages.growTo(end);
      return { each, next, end };
    });
    this.copy(moves);
    for (const { each, next, end } of moves) {
      this.tablesOf(each).forEach(({ entries }, group) => {
        for (let position = next; position < end; position++) {
          const page = entries[Math.floor(position / PAGE)] ?? NaN;
          const content = this.contents.get(page) ?? [];
          content[position % PAGE] = this.historyOf(each, position, group);
          this.contents.set(page, content);
        }
      });
      each.next = end;
      each.pages.wrote(end);
      each.pages.copied();
    }
    for (const { each, next } of moves) each.pages.left(next);
  }

  private tablesOf({ pages: { entries, tail, further = [] } }: Live): readonly GroupTable[] {
    return [{ entries, tail }, ...further];
  }

  private copy(moves: readonly { readonly each: Live; readonly next: number }[]): void {
    const copies = moves.filter(({ each: { pages }, next }) => pages.copy?.position === next);
    const sourcesOf = ({ pages: { copy } }: Live): number[] => (copy ? [copy.from, ...(copy.further ?? [])] : []);
    const sources = new Set(copies.flatMap(({ each }) => sourcesOf(each)));
    for (const { each, next } of copies) {
      const from = sourcesOf(each);
      expect(next % PAGE).toBeGreaterThan(0);
      expect(from).toHaveLength(this.tablesOf(each).length);
      this.tablesOf(each).forEach(({ entries }, group) => {
        const own = entries[Math.floor(next / PAGE)] ?? NaN;
        const source = from[group] ?? NaN;
        // What is copied is in memory, or on the GPU like its copy, and nobody's copy goes there.
        expect(source).toBeGreaterThanOrEqual(0);
        expect(source >= this.pool.capacity).toBe(own >= this.pool.capacity);
        expect(sources.has(own)).toBe(false);
        this.contents.set(own, (this.contents.get(source) ?? []).slice(0, next % PAGE));
      });
    }
  }

  /** Whatever of it has been computed is still there, and was computed from the same tokens on the same tiers. */
  private check(each: Live): void {
    const { pages, row, next } = each;
    // What is yet to be copied is not there yet.
    const there = pages.copy?.position === next ? next - (next % PAGE) : next;
    this.tablesOf(each).forEach(({ entries }, group) => {
      // What the next token sees.
      const window = this.setup.windows?.[group] ?? 0;
      const first = window === 0 ? 0 : Math.max(0, next - window + 1);
      const wrong = Array.from({ length: there }, (_, position) => position).filter(
        (position) =>
          position >= first &&
          this.contents.get(entries[Math.floor(position / PAGE)] ?? NaN)?.[position % PAGE] !==
            this.historyOf(each, position, group),
      );
      if (wrong.length > 0)
        throw new Error(
          `positions ${wrong.join()} of row ${String(row)} are not what it would have computed in group ${group}`,
        );
    });
    if (row === undefined) return;
    const gpu = onGpu(placePages(pages.lengths.positions, this.rules));
    if (pages.entries.some((entry, index) => entry !== GIVEN_BACK && entry >= this.pool.capacity !== index < gpu))
      throw new Error(`row ${row} has pages on the wrong tier`);
  }

  private historyOf({ prompt: { tokens, kind }, pages, row }: Live, position: number, group: number): string {
    const placement = row === undefined ? pages.placement : placePages(pages.lengths.positions, this.rules);
    const gpu = onGpu(placement);
    const known = beginningsOf(tokens)[Math.min(position, tokens.length - 1)] ?? '';
    // Tokens that it samples are nobody else's.
    const own = position < tokens.length ? '' : ` row ${String(row)} ${position}`;
    return `${kind} ${known}${own} ${Math.min(gpu, Math.floor(position / PAGE) + 1)} pages on the GPU, group ${group}`;
  }
}

/** Pages of one table there, the first ones. */
function onGpu(placement: PagePlacement): number {
  return Array.from({ length: placement.length }, (_, index) => placement.tierOf(index)).filter(
    (tier) => tier === 'gpu',
  ).length;
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
        checked.close();
      }),
      { numRuns: tries(100, 200) },
    );
    expect(saved).toBeGreaterThan(500);
  });

  test('find what their windows see where groups of layers give back the pages before, on every tier', () => {
    let saved = 0;
    fc.assert(
      fc.property(windowed, rows, (setup, prompts) => {
        const checked = new CheckedPool(setup, prompts);
        for (let sweep = 0; sweep < 3000 && !checked.done; sweep++) checked.sweep();
        expect(checked.done).toBe(true);
        saved += checked.saved;
        checked.close();
      }),
      { numRuns: tries(100, 300) },
    );
    expect(saved).toBeGreaterThan(500);
  });

  test('with windows find the pages they grow into where memory is scarce, and give all back when they are broken off', () => {
    fc.assert(
      fc.property(scarce, windows, fc.oneof(fc.constant(3000), fc.nat(12)), ({ setup, prompts }, each, sweeps) => {
        const checked = new CheckedPool({ ...setup, memory: setup.memory * each.length, windows: each }, prompts);
        for (let sweep = 0; sweep < sweeps && !checked.done; sweep++) checked.sweep();
        if (sweeps === 3000) expect(checked.done).toBe(true);
        checked.close();
      }),
      { numRuns: tries(200, 600) },
    );
  });

  test('give everything back when the run is broken off at any moment', () => {
    fc.assert(
      fc.property(setups, rows, fc.nat(12), (setup, prompts, sweeps) => {
        const checked = new CheckedPool(setup, prompts);
        for (let sweep = 0; sweep < sweeps; sweep++) checked.sweep();
        checked.close();
      }),
      { numRuns: tries(40, 80) },
    );
  });

  test('find the pages they grow into, also where memory is scarce and rows become known late', () => {
    fc.assert(
      fc.property(scarce, ({ setup, prompts }) => {
        const checked = new CheckedPool(setup, prompts);
        for (let sweep = 0; sweep < 3000 && !checked.done; sweep++) checked.sweep();
        expect(checked.done).toBe(true);
        checked.close();
      }),
      { numRuns: tries(200, 600) },
    );
  });

  test('count on no page that somebody is about to copy when its row ends', () => {
    const pool = new PagePool(4, PAGE);
    const run = pool.openRun({ rowsPerSlot: 4, tokensPerSquare: 8, staggered: false }, true);
    const admit = (row: number, prompt: readonly number[], newTokens: number): RowPages | undefined => {
      const lengths = { promptTokens: prompt.length, positions: prompt.length + newTokens - 1 };
      return run.admission(1).admit(row, lengths, run.expect(lengths, prompt));
    };
    const first = admit(0, [7, 7, 7, 7, 7, 1], 3);
    first?.growTo(7);
    first?.wrote(7);
    const sharer = admit(1, [7, 7, 7, 7, 7, 2], 3);
    expect(sharer?.copy?.position).toBe(5);
    // By the time that it needs a second page the first row is over; but who copies from that one may not have come so
    // far.
    const later = (row: number): RowPages | undefined => admit(row, [row, row], 7);
    expect(later(2)).toBeUndefined();
    sharer?.copied();
    expect(later(3)).toBeDefined();
  });

  test('hold one copy of what all begin with', () => {
    const common = new Array<number>(40).fill(7);
    const rows = Array.from({ length: 6 }, (_, id): Prompt => ({
      tokens: [...common, id, id + 1],
      newTokens: 3,
      kind: '',
      ...STEADY,
    }));
    const checked = new CheckedPool({ memory: 200, gpu: 0, gpuShare: 0, diskShare: 0 }, rows);
    checked.sweep();
    checked.sweep();
    // Ten pages of the prefix, and one for each of the rows.
    expect(checked.pool.used.memory).toBe(10 + 6);
    expect(checked.saved).toBe(6 * 40);
  });

  test('of a cache on disk keep in memory what they share, and go on in their tails', () => {
    const common = new Array<number>(42).fill(7);
    const rows = Array.from({ length: 5 }, (_, id): Prompt => ({
      tokens: [...common, ...new Array<number>(12).fill(id)],
      newTokens: 3,
      kind: '',
      ...STEADY,
    }));
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
    const row = (id: number, newTokens: number, kind: string): Prompt => ({
      tokens: [...common, id],
      newTokens,
      kind,
      ...STEADY,
    });
    const kinds = new CheckedPool({ memory: 200, gpu: 0, gpuShare: 0, diskShare: 0 }, [row(0, 2, 'a'), row(1, 2, 'b')]);
    kinds.sweep();
    expect(kinds.saved).toBe(0);
    // Half of 36 pages, and of 44: from the 19th page on one is on the GPU and the other is not.
    const tiers = new CheckedPool({ memory: 200, gpu: 200, gpuShare: 0.5, diskShare: 0 }, [
      row(0, 3, ''),
      row(1, 35, ''),
      row(2, 3, ''),
    ]);
    while (tiers.live.filter((each) => each.row !== undefined).length < 3) tiers.sweep();
    const [one, other] = [0, 1].map((index) => tiers.live.find((each) => each.row === index)?.pages.entries ?? []);
    expect(other?.slice(0, 18)).toEqual(one?.slice(0, 18));
    expect(other?.[18]).toBeGreaterThanOrEqual(200);
    expect(one?.[18]).toBeLessThan(200);
    // Of the same tier, but from the 19th page on the GPU attends to one of them and the processor to the other.
    const attending = new CheckedPool({ memory: 200, gpu: 0, gpuShare: 0, diskShare: 0, attendedShare: 0.5 }, [
      row(0, 3, ''),
      row(1, 35, ''),
      row(2, 3, ''),
    ]);
    while (attending.live.filter((each) => each.row !== undefined).length < 3) attending.sweep();
    const [short, long, alike] = [0, 1, 2].map(
      (index) => attending.live.find((each) => each.row === index)?.pages.entries ?? [],
    );
    expect(long?.slice(0, 18)).toEqual(short?.slice(0, 18));
    expect(long?.[18]).not.toBe(short?.[18]);
    expect(alike?.slice(0, 34)).toEqual(short?.slice(0, 34));
  });
});
