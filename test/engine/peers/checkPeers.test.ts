import { expect, test } from '@jest/globals';
import { checkLayers } from '../../../src/engine/peers/checkPeers.js';
import type { Peers } from '../../../src/engine/peers/PeerConnection.js';
import type { AnswerStore } from '../../../src/KeptAnswer.js';

const peers = {} as Peers;
const reuse: AnswerStore = { get: () => undefined, put: () => undefined };
const whole = { slots: 2 };
const first = { slots: 2, part: { first: 0, of: 4 } };
const later = { slots: 2, part: { first: 2, of: 4 } };

test.each<[string, Parameters<typeof checkLayers>[0], Parameters<typeof checkLayers>[1], RegExp | undefined]>([
  ['all layers', whole, {}, undefined],
  ['all layers, and what lasts', whole, { reuse }, undefined],
  ['all layers, and an engine that computes prompts', whole, { peers, reuse }, undefined],
  ['the same with parts of a block', whole, { peers, microBatches: 1 }, /^microBatches: found 1 in an engine of all/],
  ['parts of a block that passes no other engine', whole, { microBatches: 1 }, /^microBatches: found 1 without peers/],
  ['as many parts as batches', first, { peers, microBatches: 2 }, undefined],
  ['more', first, { peers, microBatches: 3 }, /^microBatches: found 3, expected at most 2/],
  ['the first layers with peers', first, { peers }, undefined],
  ['without', first, {}, /^peers: found none/],
  ['later layers', later, { peers }, /^layers: found an engine of later layers/],
  [
    'answers that others have computed as well',
    first,
    { peers, reuse },
    /^reuse: found a store, expected none where peers have layers/,
  ],
])('%s', (_, grid, options, message) => {
  const check = (): void => checkLayers(grid, options);
  if (message) expect(check).toThrow(message);
  else expect(check).not.toThrow();
});

test.each<[string, number | undefined, RegExp | undefined]>([
  ['row', 2, /^microBatches: found 2 beside the schedule row, .*, expected 1, or the schedule zigzag or diagonal$/],
  ['row', 1, undefined],
  ['row', undefined, undefined],
  ['zigzag', 2, undefined],
  ['diagonal', 2, undefined],
  ["one of the user's", 2, undefined],
])('the schedule %s with %s parts of the block', (schedule, microBatches, message) => {
  const check = (): void =>
    checkLayers(first, { peers, ...(microBatches !== undefined && { microBatches }) }, schedule);
  if (message) expect(check).toThrow(message);
  else expect(check).not.toThrow();
});
