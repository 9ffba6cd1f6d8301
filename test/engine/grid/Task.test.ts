import { describe, expect, test } from '@jest/globals';
import { isMove, LOADS, STORES } from '../../../src/engine/grid/Task.js';

describe('kinds of tasks', () => {
  test('loads come before compute and stores after it, each of what it moves', () => {
    expect(LOADS).toEqual(['load_weight', 'load_cache', 'load_activation']);
    expect(STORES).toEqual(['store_activation', 'store_cache']);
  });

  test('what moves nothing, or is no task, is no move', () => {
    expect(['load_cache', 'compute', 'toString', ''].map(isMove)).toEqual([true, false, false, false]);
  });
});
