import { expect, test } from '@jest/globals';
import type { PeerMessage } from '../../../../src/engine/peers/PeerMessage.js';
import { StallWatch } from '../../../../src/engine/peers/sockets/StallWatch.js';

const hidden = { kind: 'hidden', pass: 0, slot: 0, hidden: new Float32Array(0) } as const;
const head: PeerMessage = { kind: 'head', pass: 0, slot: 0, output: { sampled: new Map(), scored: new Map() } };
const sweep: PeerMessage = { kind: 'sweep', batches: [{ pass: 0, slot: 0, rows: [] }], interleaved: true };

function watched(): { readonly watch: StallWatch; readonly clock: { seconds: number } } {
  const clock = { seconds: 0 };
  return { watch: new StallWatch(10, () => clock.seconds * 1000), clock };
}

test('the first engine waits for results of what it has sent, and for the end', () => {
  const { watch, clock } = watched();
  clock.seconds = 100;
  expect(watch.overdue(0)).toBeUndefined();
  watch.sent(hidden, true);
  clock.seconds = 110;
  expect(watch.overdue(0)).toBeUndefined();
  clock.seconds = 111;
  expect(watch.overdue(0)).toContain('10 s');
  watch.received(head, true);
  clock.seconds = 200;
  expect(watch.overdue(0)).toBeUndefined();
  watch.closed();
  clock.seconds = 211;
  expect(watch.overdue(0)).toContain('10 s');
});

test('time that the process was not given counts for nobody', () => {
  const { watch, clock } = watched();
  watch.sent(hidden, true);
  clock.seconds = 105;
  expect(watch.overdue(0, 100_000)).toBeUndefined();
  clock.seconds = 110;
  expect(watch.overdue(0)).toBeUndefined();
  clock.seconds = 111;
  expect(watch.overdue(0)).toContain('10 s');
});

test('whatever comes unasked, what is asked for later is due, and so is the end', () => {
  const { watch, clock } = watched();
  for (let more = 0; more < 5; more++) watch.received(head, true);
  watch.sent(hidden, true);
  clock.seconds = 11;
  expect(watch.overdue(0)).toContain('10 s');
  const ending = watched();
  ending.watch.closed();
  for (let more = 0; more < 5; more++) ending.watch.received(head, true);
  ending.clock.seconds = 11;
  expect(ending.watch.overdue(0)).toContain('10 s');
});

test('one that follows waits for what was announced, and not while it is asked for nothing', () => {
  const { watch, clock } = watched();
  watch.received(sweep, false);
  clock.seconds = 11;
  expect(watch.overdue(0)).toContain('10 s');
  expect(watch.overdue(5000)).toBeUndefined();
  watch.sent(head, false);
  expect(watch.overdue(0)).toBeUndefined();
  watch.received(hidden, false);
  clock.seconds = 100;
  expect(watch.overdue(0)).toBeUndefined();
});

test('who reads no more because enough is here waits until some of it is computed, and not before the first of it came', () => {
  const { watch, clock } = watched();
  clock.seconds = 100;
  expect(watch.overdue(undefined)).toBeUndefined();
  watch.received(hidden, false);
  clock.seconds = 110;
  expect(watch.overdue(undefined)).toBeUndefined();
  clock.seconds = 111;
  expect(watch.overdue(undefined)).toMatch(/nothing computed of what it has sent for 10 s/);
  watch.sent(head, false);
  expect(watch.overdue(undefined)).toBeUndefined();
});

test('whoever asks for prompts waits for all pages of each; who has enough of them for now waits for nobody', () => {
  const prompt: PeerMessage = { kind: 'prompt', row: 0, tokens: [1, 2], promptTokens: 2 };
  const pages: PeerMessage = { kind: 'pages', row: 0, first: 0, last: false, values: new Uint8Array(0) };
  const { watch, clock } = watched();
  watch.sent(prompt, true);
  watch.received(pages, true);
  clock.seconds = 11;
  expect(watch.overdue(0)).toContain('10 s');
  expect(watch.overdue(undefined)).toBeUndefined();
  watch.received({ ...pages, last: true }, true);
  clock.seconds = 22;
  expect(watch.overdue(0)).toBeUndefined();
  expect(watch.overdue(undefined)).toBeUndefined();
  const other = watched();
  other.watch.received(prompt, false);
  other.clock.seconds = 100;
  expect(other.watch.overdue(undefined)).toBeUndefined();
});

test('whoever sends a partial sum waits for one', () => {
  const partial: PeerMessage = { kind: 'partial', pass: 0, slot: 0, layer: 0, step: 0, values: new Float32Array(0) };
  for (const first of [true, false]) {
    const { watch, clock } = watched();
    watch.sent(partial, first);
    clock.seconds = 11;
    expect(watch.overdue(0)).toContain('10 s');
    watch.received(partial, first);
    clock.seconds = 30;
    expect(watch.overdue(0)).toBeUndefined();
  }
});
