import { expect, test } from '@jest/globals';
import { ROW_LIMITS } from '../../src/model/files/limits.js';
import { StopMatcher } from '../../src/model/StopMatcher.js';
import { StopLists, StopStrings } from '../../src/model/StopStrings.js';
import { liveHeapBytes } from '../support/liveHeapBytes.js';

/** Bytes in typed arrays and on the heap, of what is still in use. */
const bytesHeld = (): number => liveHeapBytes() + process.memoryUsage().arrayBuffers;

test('an automaton takes a few bytes a unit, however its strings are made', () => {
  const units = ROW_LIMITS.stopUnits;
  for (const strings of [
    ['ab'.repeat(units / 2)],
    Array.from({ length: units / 16 }, (_, at) => String.fromCharCode(at + 1).repeat(16)),
  ]) {
    const before = bytesHeld();
    const automata = Array.from({ length: 32 }, () => new StopStrings(strings));
    for (const each of automata) new StopMatcher(each).push('abababab');
    expect((bytesHeld() - before) / (32 * units)).toBeLessThan(30);
    expect(automata).toHaveLength(32);
  }
});

test('nothing is built for rows that wait', () => {
  const before = bytesHeld();
  const waiting = Array.from({ length: 10_000 }, () => new StopMatcher(new StopStrings(['ab'.repeat(8192)])));
  expect(bytesHeld() - before).toBeLessThan(10_000 * 1000);
  expect(waiting).toHaveLength(10_000);
});

test('equal lists have one automaton as long as they are among the last ones', () => {
  const lists = new StopLists();
  const first = lists.of(['a', 'b']);
  expect(lists.of(['a', 'b'])).toBe(first);
  expect(lists.of(['ab'])).not.toBe(first);
  expect(lists.of(['a","b'])).not.toBe(first);
  for (let at = 0; at < 1000; at++) lists.of([`${at}`]);
  expect(lists.of(['a', 'b'])).not.toBe(first);
});

test('more states than 16 bits can number', () => {
  const stop = 'x'.repeat(70_000) + 'y';
  const matcher = new StopMatcher([stop, 'yz']);
  expect(matcher.push(`a${'x'.repeat(70_001)}`)).toEqual({ text: 'ax', stopped: false });
  expect(matcher.push('y')).toEqual({ text: '', stopped: true });
});
