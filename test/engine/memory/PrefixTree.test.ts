import { describe, expect, test } from '@jest/globals';
import { PagePool } from '../../../src/engine/memory/PagePool.js';
import { PrefixTree, type PrefixPath } from '../../../src/engine/memory/PrefixTree.js';

const PAGE = 4;
const IN_MEMORY = { gpu: 0, memory: 9, disk: 0 };

function treeOf(): { tree: PrefixTree; given: number[]; enter: (tokens: readonly number[]) => PrefixPath; compute: (path: PrefixPath, upTo?: number) => { next: number } } {
  const given: number[] = [];
  const tree = new PrefixTree(PAGE, (page) => given.push(page));
  let pages = 0;
  return {
    tree, given,
    enter: (tokens) => tree.enter(tokens, IN_MEMORY),
    compute: (path, upTo = path.tokens.length) => {
      const row = { next: upTo };
      for (const node of path.nodes) tree.hold(node, node.page === undefined ? pages++ : undefined, row);
      return row;
    },
  };
}

describe('PrefixTree', () => {
  test('a row takes whole pages of another one, and copies the part of the page in which they part', () => {
    const { tree, enter, compute } = treeOf();
    const first = enter([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    compute(first);
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
    const row = compute(enter([1, 2, 3, 4, 5, 6, 7, 8]), 3);
    const other = enter([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(tree.match(other)).toMatchObject({ pages: 0, tokens: 3, coming: 8 });
    row.next = 6;
    expect(tree.match(other)).toMatchObject({ pages: 1, tokens: 6, coming: 8 });
  });

  test('of a row that ended in the middle of a page nobody takes more than it computed, also while another one copies from it', () => {
    const { tree, given, enter, compute } = treeOf();
    const path = enter([1, 2, 3, 4]);
    const row = compute(path, 3);
    const other = enter([1, 2, 3, 4, 5]);
    const { source } = tree.match(other);
    if (!source) throw new Error('nothing to copy from');
    tree.read(source);
    for (const node of path.nodes) tree.release(node, row);
    tree.leave(path);
    expect(given).toEqual([]);
    expect(tree.match(enter([1, 2, 3, 4, 6]))).toMatchObject({ pages: 0, tokens: 3 });
    tree.hasRead(source);
    // Where nobody copies from it the page goes back at once, for somebody to fill.
    const again = treeOf();
    const unfinished = again.enter([1, 2, 3, 4]);
    const writer = again.compute(unfinished, 3);
    for (const node of unfinished.nodes) again.tree.release(node, writer);
    expect(again.given).toEqual([0]);
  });

  test('a page that somebody is about to copy is in use, and counts once', () => {
    const { tree, given, enter, compute } = treeOf();
    const path = enter([1, 2, 3, 4]);
    const row = compute(path);
    const [node] = path.nodes;
    if (!node) throw new Error('no node');
    tree.read(node);
    tree.release(node, row);
    expect(tree.reclaim('memory')).toBe(false);
    expect(tree.commonPages.memory).toBe(1);
    tree.hasRead(node);
    expect(tree.commonPages.memory).toBe(0);
    expect(tree.reclaimable.memory).toBe(1);
    expect(tree.reclaim('memory')).toBe(true);
    expect(given).toEqual([0]);
  });

  test('pages that no row holds go from the last to the first', () => {
    const { tree, given, enter, compute } = treeOf();
    const path = enter([1, 2, 3, 4, 5, 6, 7, 8]);
    const row = compute(path);
    for (const node of path.nodes.toReversed()) tree.release(node, row);
    expect(tree.reclaim('memory') && tree.reclaim('memory')).toBe(true);
    expect(given).toEqual([1, 0]);
    expect(tree.reclaim('memory')).toBe(false);
  });

  test('a prefix is worth what the rows that wait need not compute, and ends where most of them part', () => {
    const { tree, enter } = treeOf();
    const paths = [[1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 0], [1, 2, 3, 4, 5, 6, 9], [1, 2, 0, 0, 0]].map((tokens) => enter(tokens));
    const [first] = paths;
    if (!first) throw new Error('no path');
    // Two others share six tokens of which four are a page of their own; the fourth prompt would save two tokens less by ending the prefix early.
    expect(tree.worth(first, 0)).toEqual({ tokens: 6, saved: 2 * 4 + 2 * 2 });
    expect(tree.worth(first, 4)).toEqual({ tokens: 6, saved: 2 * 2 });
    expect(tree.worth(first, 6).saved).toBe(0);
  });

  test('closing gives back what is left', () => {
    const { tree, given, enter, compute } = treeOf();
    const path = enter([1, 2, 3, 4, 5]);
    const row = compute(path);
    for (const node of path.nodes.toReversed()) tree.release(node, row);
    tree.leave(path);
    tree.close();
    expect([...given].sort()).toEqual([0, 1]);
  });
});

test('a row that copies the beginning of a page holds it until the batch that does so is through', () => {
  const pool = new PagePool(3, PAGE);
  const run = pool.openRun(undefined, true);
  const prompts = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 0]];
  const lengths = { promptTokens: 6, positions: 6 };
  const [first, second] = prompts.map((prompt) => run.expect(lengths, prompt));
  const row = run.admission(9).admit(lengths, first);
  row?.advance(6);
  const other = run.admission(9).admit(lengths, second);
  expect(other?.copy).toEqual({ from: row?.entries[1], position: 5 });
  row?.release();
  const another = { gpu: 0, memory: 1, disk: 0 };
  expect(pool.has(another)).toBe(false);
  other?.advance(6);
  expect(pool.has(another)).toBe(false);
  other?.copied();
  expect(pool.has(another)).toBe(true);
  other?.release();
  run.close();
  expect(pool.used.memory).toBe(0);
});
