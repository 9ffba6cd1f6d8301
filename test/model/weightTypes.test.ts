import { describe, expect, test } from '@jest/globals';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { UNREAD_TYPES, WEIGHT_TYPES } from '../../src/model/weightTypes.js';

describe('WEIGHT_TYPES', () => {
  test("is the addon's table, but for what no file has", () => {
    const inFiles = loadAddon().weightTypes.filter(({ id }) => id < 200);
    expect(Object.fromEntries(inFiles.map(({ name, ...facts }) => [name, facts]))).toEqual(WEIGHT_TYPES);
  });

  test('has no number twice, and none that counts as unread', () => {
    const ids = Object.values(WEIGHT_TYPES).map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.filter((id) => UNREAD_TYPES.has(id))).toEqual([]);
  });
});
