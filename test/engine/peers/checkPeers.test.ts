import { expect, test } from '@jest/globals';
import { checkLayers } from '../../../src/engine/peers/checkPeers.js';
import type { Peers } from '../../../src/engine/peers/PeerConnection.js';
import type { AnswerStore } from '../../../src/KeptAnswer.js';

const peers = {} as Peers;
const reuse: AnswerStore = { get: () => undefined, put: () => undefined };
const [first, later] = [{ part: { first: 0, count: 2 } }, { part: { first: 2, count: 2 } }] as unknown as Parameters<
  typeof checkLayers
>[0][];

test.each<
  [string, Parameters<typeof checkLayers>[0] | undefined, Parameters<typeof checkLayers>[1], RegExp | undefined]
>([
  ['all layers', {}, {}, undefined],
  ['all layers, and what lasts', {}, { reuse }, undefined],
  ['peers for all layers', {}, { peers }, /^peers: found some/],
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
  const check = (): void => checkLayers(grid ?? {}, options);
  if (message) expect(check).toThrow(message);
  else expect(check).not.toThrow();
});
