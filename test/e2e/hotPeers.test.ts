import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { Subject } from 'rxjs';
import type { Row } from '../../src/index.js';
import { engineRing } from '../support/engineRing.js';
import { model } from './support.js';

test('a run over engines of other layers has what a source that does not wait gives before they have joined', async () => {
  await using ring = await engineRing([1, 1], { model: model('llama-Q4_1.gguf'), batchSize: 4, policy: 'default' });
  const [first, second] = ring.engines;
  const [peers, others] = ring.connect();
  if (!first || !second || !peers || !others) throw new Error('no ring');
  const rows$ = new Subject<Row>();
  const results = first.generate(rows$, { peers, maxNewTokens: 2 });
  const one = results.next();
  for (const at of [1, 2]) rows$.next({ id: at, tokens: [1, at] });
  await sleep(50);
  rows$.next({ id: 3, tokens: [1, 3] });
  const followed = second.follow(others);
  rows$.next({ id: 4, tokens: [1, 4] });
  rows$.complete();
  const ids = [(await one).value?.id];
  for await (const { id } of results) ids.push(id);
  await followed;
  expect(ids).toEqual([1, 2, 3, 4]);
});
