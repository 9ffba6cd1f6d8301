import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { PagePool } from '../../../src/engine/memory/PagePool.js';
import type { PrefixNode, PrefixPath } from '../../../src/engine/memory/PrefixNode.js';
import { TierByTier } from '../../../src/engine/memory/PagePlacement.js';
import { PrefixTree } from '../../../src/engine/memory/PrefixTree.js';
import { liveHeapBytes } from '../../support/liveHeapBytes.js';

const PAGE = 4;
const IN_MEMORY = new TierByTier({ gpu: 0, memory: 9, disk: 0 });

interface Computed {
  readonly nodes: readonly PrefixNode[];
  readonly writer: { readonly row: number; written: number };
  /** The row ends. */
  readonly end: () => void;
}

interface Watched {
  readonly tree: PrefixTree;
  /** Pages that were given back. */
  readonly given: number[];
  readonly enter: (tokens: readonly number[]) => PrefixPath;
  /** The row comes in, and computes its prompt up to there. */
  readonly compute: (path: PrefixPath, upTo?: number) => Computed;
}

function treeOf(pages = 1000): Watched {
  const given: number[] = [];
  const tree = new PrefixTree(
    PAGE,
    (page) => given.push(page),
    () => ({ gpu: 0, memory: pages, disk: 0 }),
  );
  let next = 0;
  return {
    tree,
    given,
    enter: (tokens) => tree.enter(tokens, IN_MEMORY),
    compute: (path, upTo = path.tokens.length) => {
      const writer = { row: 0, written: upTo };
      const nodes = tree.pagesOf(path, path.tokens.length);
      for (const node of nodes) tree.hold(node, node.page === undefined ? [next++] : undefined, writer);
      tree.leave(path);
      return {
        nodes,
        writer,
        end: () => {
          for (const node of nodes.toReversed()) tree.release(node);
        },
      };
    },
  };
}

/** Whole pages that two prompts have in common. */
function pagesInCommon(a: readonly number[], b: readonly number[]): number {
  let pages = 0;
  while (
    (pages + 1) * PAGE <= Math.min(a.length, b.length) &&
    a.slice(0, (pages + 1) * PAGE).join() === b.slice(0, (pages + 1) * PAGE).join()
  )
    pages++;
  return pages;
}

/** Puts a row that comes after the last of those that have most pages in common with it, if any have one. */
function gather(order: PrefixPath[], path: PrefixPath): void {
  const common = order.map(({ tokens }) => pagesInCommon(tokens, path.tokens));
  const most = Math.max(0, ...common);
  order.splice(most === 0 ? order.length : common.lastIndexOf(most) + 1, 0, path);
}

describe('PrefixTree', () => {
  test('a row takes whole pages of another one, and copies the part of the page in which they part', () => {
    const { tree, enter, compute } = treeOf();
    const first = compute(enter([1, 2, 3, 4, 5, 6, 7, 8, 9]));
    const second = enter([1, 2, 3, 4, 5, 6, 0, 0]);
    expect(tree.match(second)).toMatchObject({ pages: 1, tokens: 6, coming: 6 });
    expect(tree.match(second).source).toBe(first.nodes[1]);
    // The last token is always computed: what comes next is sampled from it.
    expect(tree.match(enter([1, 2, 3, 4]))).toMatchObject({ pages: 0, tokens: 3 });
    expect(tree.match(enter([1, 2, 3, 4, 5]))).toMatchObject({ pages: 1, tokens: 4 });
    expect(tree.match(enter([9, 2, 3]))).toMatchObject({ pages: 0, tokens: 0, source: undefined });
  });

  test('what is not computed yet does not count, and is known to be coming', () => {
    const { tree, enter, compute } = treeOf();
    const { writer } = compute(enter([1, 2, 3, 4, 5, 6, 7, 8]), 3);
    const other = enter([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(tree.match(other)).toMatchObject({ pages: 0, tokens: 3, coming: 8 });
    writer.written = 6;
    expect(tree.match(other)).toMatchObject({ pages: 1, tokens: 6, coming: 8 });
    // Of what others compute, too, nobody waits for more than there will be.
    expect(tree.match(enter([1, 2, 3, 4, 5, 0, 0, 0]))).toMatchObject({ pages: 1, tokens: 5, coming: 5 });
  });

  test('of a row that ended in the middle of a page nobody takes more than it computed, also while another one copies from it', () => {
    const { tree, given, enter, compute } = treeOf();
    const row = compute(enter([1, 2, 3, 4]), 3);
    const other = enter([1, 2, 3, 4, 5]);
    const { source } = tree.match(other);
    if (!source) throw new Error('nothing to copy from');
    tree.read(source);
    row.end();
    expect(given).toEqual([]);
    expect(tree.match(enter([1, 2, 3, 4, 6]))).toMatchObject({ pages: 0, tokens: 3 });
    // Nobody goes on with it: who waited for the rest would wait for ever.
    tree.hasRead(source);
    expect(given).toEqual([0]);
    expect(tree.match(enter([1, 2, 3, 4, 7]))).toMatchObject({ tokens: 0, coming: 0 });
    // Where nobody copies from it the page goes back at once, for somebody to fill.
    const again = treeOf();
    again.compute(again.enter([1, 2, 3, 4]), 3).end();
    expect(again.given).toEqual([0]);
  });

  test('a page that somebody is about to copy is in use, and counts once', () => {
    const { tree, given, enter, compute } = treeOf();
    const {
      nodes: [node],
      end,
    } = compute(enter([1, 2, 3, 4]));
    if (!node) throw new Error('no node');
    tree.read(node);
    // Its row's end does not give it back any more.
    expect([tree.commonPages.memory, tree.lastingPages.memory]).toEqual([0, 1]);
    end();
    expect(tree.reclaim('memory', 'recent')).toBe(false);
    expect([tree.commonPages.memory, tree.lastingPages.memory]).toEqual([1, 1]);
    tree.hasRead(node);
    expect([tree.commonPages.memory, tree.lastingPages.memory]).toEqual([0, 0]);
    expect(tree.reclaimable.memory).toBe(1);
    expect(tree.reclaim('memory', 'recent')).toBe(true);
    expect(given).toEqual([0]);
  });

  test('pages that no row holds go from the last to the first, whatever else was used since', () => {
    const { tree, given, enter, compute } = treeOf();
    compute(enter([1, 2, 3, 4, 5, 6, 7, 8])).end();
    const [first] = tree.pagesOf(enter([1, 2, 3, 4, 0, 0]), 4);
    if (!first) throw new Error('no node');
    tree.hold(first);
    tree.release(first);
    // The first page was used last, and a row waits for it.
    expect(tree.reclaim('memory', 'wanted')).toBe(false);
    expect(tree.reclaim('memory', 'recent') && tree.reclaim('memory', 'wanted')).toBe(true);
    expect(given).toEqual([1, 0]);
  });

  test('where memory is short, those go first that nobody is known to want, then those that few begin with', () => {
    const { tree, given, enter, compute } = treeOf();
    for (const tokens of [
      [1, 1, 1, 1, 1],
      [2, 2, 2, 2, 2],
      [2, 2, 2, 2, 3],
      [4, 4, 4, 4, 4],
    ])
      compute(enter(tokens)).end();
    enter([4, 4, 4, 4, 9]);
    const pages = (['recent', 'common', 'wanted'] as const).map((reason) => {
      const before = given.length;
      while (tree.reclaim('memory', reason));
      return given.slice(before);
    });
    expect(pages).toEqual([[1, 0, 3, 4, 6], [2], [5]]);
  });

  test('what rows have begun with in common is kept for more than the last ones, within bounds', () => {
    const { tree, enter, compute } = treeOf(400);
    const head = [7, 7, 7, 7, 7, 7, 7, 7];
    for (const last of [1, 2]) compute(enter([...head, last])).end();
    for (let stranger = 0; stranger < 500; stranger++) compute(enter([100 + stranger, 0, 0, 0, 0])).end();
    expect(tree.match(enter([...head, 3]))).toMatchObject({ pages: 2, tokens: 8 });
    expect(tree.reclaimable.memory).toBe(64 + 2);
    for (let other = 0; other < 300; other++)
      for (const last of [1, 2]) compute(enter([1000 + other, 0, 0, 0, last])).end();
    // A quarter of all pages for what was common, and the last ones.
    expect(tree.reclaimable.memory).toBe(100 + 64 + 2);
  });

  test('pages are not worth memory that was never touched while rows are known to come and none goes on with any', () => {
    const { tree, given, enter, compute } = treeOf(10_000);
    for (let row = 0; row < 70; row++) compute(enter([row + 10, 0, 0, 0, 0])).end();
    // Nobody waits: the next row may begin like one of these.
    expect(tree.reuse('memory')).toBe(false);
    enter([9, 9, 9, 9, 9]);
    let reused = 0;
    while (tree.reuse('memory')) reused++;
    // The last ones stay; the oldest have gone, from each row's last page to its first.
    expect([reused, tree.reclaimable.memory]).toEqual([2 * 70 - 64, 64]);
    expect(given.slice(0, 4)).toEqual([1, 0, 3, 2]);
    // A row goes on with what another has left: so may the next.
    for (let row = 0; row < 70; row++) compute(enter([row + 100, 0, 0, 0, 0])).end();
    compute(enter([169, 0, 0, 0, 7])).end();
    expect(tree.reuse('memory')).toBe(false);
  });

  test('pages of rows that are expected to go on are kept', () => {
    const { tree, enter, compute } = treeOf(10_000);
    for (let row = 0; row < 70; row++) compute(enter([row + 10, 0, 0, 0, 0])).end();
    tree.enter([9, 9, 9, 9, 9], IN_MEMORY, '', true);
    expect(tree.reuse('memory')).toBe(false);
    expect(tree.reclaimable.memory).toBe(140);
  });

  test('a prefix is worth what the rows that wait need not compute, and ends where the last of them part', () => {
    const { tree, enter } = treeOf();
    const paths = [
      [1, 2, 3, 4, 5, 6, 7],
      [1, 2, 3, 4, 5, 6, 0],
      [1, 2, 3, 4, 5, 6, 9],
      [1, 2, 0, 0, 0],
    ].map((tokens) => enter(tokens));
    const [first, , , last] = paths;
    if (!first || !last) throw new Error('no path');
    // All share two tokens, three of them four more.
    expect(tree.worth(first, { tokens: 0, coming: 0 })).toEqual({ tokens: 6, saved: 2 * 3 + 4 * 2 });
    expect(tree.worth(first, { tokens: 4, coming: 4 })).toEqual({ tokens: 6, saved: 2 * 2 });
    expect(tree.worth(first, { tokens: 6, coming: 6 }).saved).toBe(0);
    expect(tree.worth(last, { tokens: 0, coming: 0 })).toEqual({ tokens: 2, saved: 2 * 3 });
    // What somebody computes already the row need not, either.
    expect(tree.worth(first, { tokens: 0, coming: 4 }).saved).toBe(2 * 3 + 4 * 2 + 4);
    for (const path of paths.slice(1)) tree.leave(path);
    expect(tree.worth(first, { tokens: 0, coming: 0 }).saved).toBe(0);
    expect(tree.worth(first, { tokens: 1, coming: 5 }).saved).toBe(4);
  });

  test('what is worth computing for others is enough for them to take it', () => {
    const tree = new PrefixTree(16, () => undefined);
    // All have four tokens, a quarter of a page: of these they could take three, for the last is always computed.
    const paths = Array.from({ length: 60 }, () => tree.enter([1, 2, 3, 4], IN_MEMORY));
    for (const path of paths) expect(tree.worth(path, { tokens: 0, coming: 0 })).toEqual({ tokens: 0, saved: 0 });
  });

  test('rows that begin alike stand together, in the order in which the first of them came; those of whose prompts most is there come first', () => {
    const { tree, enter, compute } = treeOf();
    const prompts = [
      [1, 0, 0, 0, 1],
      [2, 0, 0, 0, 1],
      [9, 9],
      [1, 0, 0, 0, 2],
      [2, 0, 0, 0, 2, 5],
      [1, 0, 0, 7],
      [2, 0, 0, 0, 2, 6],
    ];
    const paths = prompts.map((tokens) => enter(tokens));
    const order = (): number[] => [...tree.inTurn()].map((path) => paths.indexOf(path));
    // The sixth has less than a page in common with the first.
    expect(order()).toEqual([0, 3, 1, 4, 6, 2, 5]);
    const [first, second] = paths;
    if (!first || !second) throw new Error('no path');
    compute(second);
    expect(order()).toEqual([4, 6, 0, 3, 2, 5]);
    tree.leave(first);
    expect(order()).toEqual([4, 6, 3, 2, 5]);
    paths.push(enter([2, 0, 0, 0, 2, 4]), enter([1, 0, 0, 0, 3]), enter([9, 8]));
    expect(order()).toEqual([4, 6, 7, 3, 8, 2, 5, 9]);
  });

  test('the order is that of a tree of whole pages, whoever comes and goes', () => {
    const prompt = fc
      .array(fc.constantFrom([1, 1, 1, 1], [2, 2, 2, 2], [1, 1, 2], [3]), { minLength: 1, maxLength: 5 })
      .map((parts) => parts.flat());
    const steps = fc.array(fc.oneof({ weight: 3, arbitrary: prompt }, { weight: 2, arbitrary: fc.nat(20) }), {
      minLength: 10,
      maxLength: 80,
    });
    fc.assert(
      fc.property(steps, fc.boolean(), (all, computes) => {
        const { tree, enter, compute } = treeOf();
        const order: PrefixPath[] = [];
        for (const each of all) {
          if (typeof each !== 'number') gather(order, enter(each));
          else
            for (const path of order.splice(each % Math.max(1, order.length), 1)) {
              if (computes) compute(path).end();
              else tree.leave(path);
            }
          const found = [...tree.inTurn()].map((path) => order.indexOf(path));
          // What is there of some of them comes first.
          if (computes) found.sort((a, b) => a - b);
          expect(found).toEqual([...order.keys()]);
        }
      }),
      { numRuns: 300 },
    );
  });

  test('prompts that part at the tier of a page share what is before it', () => {
    const given: string[] = [];
    const tree = new PrefixTree(PAGE, (page, tier) => given.push(`${tier} ${page}`));
    const tokens = Array.from({ length: 13 }, (_, i) => i);
    const [short, long, again] = [1, 2, 1].map((gpu) =>
      tree.enter(tokens, new TierByTier({ gpu, memory: 4 - gpu, disk: 0 })),
    );
    if (!short || !long || !again) throw new Error('no path');
    const nodes = tree.pagesOf(short, 13);
    expect(nodes.map(({ tier, end }) => [tier, end])).toEqual([
      ['gpu', 4],
      ['memory', 8],
      ['memory', 12],
      ['memory', 13],
    ]);
    nodes.forEach((node, page) => {
      tree.hold(node, [page], { row: 0, written: 13 });
    });
    expect(tree.match(long)).toMatchObject({ pages: 1, tokens: 4 });
    expect(tree.match(again)).toMatchObject({ pages: 3, tokens: 12 });
    for (const path of [short, long, again]) tree.leave(path);
    for (const node of nodes.toReversed()) tree.release(node);
    // A page in memory is nothing without those on the GPU before it.
    expect(tree.reclaim('gpu', 'recent') || tree.reclaim('gpu', 'common')).toBe(true);
    expect(given.sort()).toEqual(['gpu 0', 'memory 1', 'memory 2', 'memory 3']);
    expect(tree.census()).toEqual({ waiting: 0, holders: 0, readers: 0, pages: 0, nodes: 0 });
  });

  test('closing gives back what is left, and leaves nothing', () => {
    const { tree, given, enter, compute } = treeOf();
    compute(enter([1, 2, 3, 4, 5])).end();
    tree.leave(enter([1, 2, 3, 9]));
    tree.close();
    expect([...given].sort()).toEqual([0, 1]);
    expect(tree.census()).toEqual({ waiting: 0, holders: 0, readers: 0, pages: 0, nodes: 0 });
  });

  test('a row that waits takes a few hundred bytes beside its tokens, however long it is, and however it parts from others', () => {
    const [rows, length] = [400, 4096];
    const common = Array.from({ length }, (_, i) => (i * 7919) % 49_000);
    const prompts = Array.from({ length: rows }, (_, row) =>
      common.map((token, at) => (at < row * 5 ? token : token + row + 1)),
    );
    const tree = new PrefixTree(32, () => undefined);
    const before = liveHeapBytes();
    const paths = prompts.map((tokens) => tree.enter(tokens, new TierByTier({ gpu: 0, memory: 200, disk: 0 })));
    expect(liveHeapBytes() - before).toBeLessThan(rows * 2048);
    expect(tree.census().nodes).toBeLessThanOrEqual(2 * rows);
    for (const path of paths) tree.leave(path);
    expect(tree.census().nodes).toBe(0);
  });

  test('prompts are not kept for the pages that are left of them', () => {
    const { tree, enter } = treeOf();
    const head = Array.from({ length: 16 }, (_, i) => i);
    const before = liveHeapBytes();
    for (let row = 0; row < 40; row++) {
      // Whatever row they come from, the pages of the head are kept; and a long prompt with them, if they hold on to
      // it.
      const prompt = enter([...head, ...Array.from({ length: 50_000 }, (_, i) => row + i)]);
      const nodes = tree.pagesOf(prompt, 16 + (row % 3));
      nodes.forEach((node, page) => {
        tree.hold(node, node.page === undefined ? [100 * row + page] : undefined, { row, written: 16 + (row % 3) });
      });
      tree.leave(prompt);
      for (const node of nodes.toReversed()) tree.release(node);
    }
    expect(tree.reclaimable.memory).toBeGreaterThan(4);
    expect(liveHeapBytes() - before).toBeLessThan(2 ** 20);
  });
});

test('a row that copies the beginning of a page holds it until the batch that does so is through', () => {
  const pool = new PagePool(3, PAGE);
  const run = pool.openRun(undefined, true);
  const prompts = [
    [1, 2, 3, 4, 5, 6],
    [1, 2, 3, 4, 5, 0],
  ];
  const lengths = { promptTokens: 6, positions: 6 };
  const [first, second] = prompts.map((prompt) => run.expect(lengths, prompt));
  const row = run.admission(9).admit(0, lengths, first);
  row?.growTo(6);
  row?.wrote(6);
  const other = run.admission(9).admit(1, lengths, second);
  expect(other?.copy).toEqual({ from: row?.entries[1], position: 5 });
  expect(other?.shared).toEqual([{ row: 0, end: 5 }]);
  row?.release();
  const another = { gpu: 0, memory: 1, disk: 0 };
  expect(pool.has(another)).toBe(false);
  other?.growTo(6);
  expect(pool.has(another)).toBe(false);
  other?.copied();
  expect(pool.has(another)).toBe(true);
  other?.release();
  run.close();
  expect(pool.used.memory).toBe(0);
});
