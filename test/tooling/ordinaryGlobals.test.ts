import { afterEach, expect, jest, test } from '@jest/globals';

const { fetch: nodes } = globalThis;
afterEach(() => {
  globalThis.fetch = nodes;
  jest.useRealTimers();
});

test('a global name is what a test puts in its place', () => {
  const own = (): Promise<Response> => Promise.reject(new Error('no network here'));
  globalThis.fetch = own;
  expect(fetch).toBe(own);
});

test('timers can be faked', () => {
  jest.useFakeTimers();
  const seen: string[] = [];
  setTimeout(() => seen.push('later'), 60_000);
  jest.advanceTimersByTime(60_000);
  expect(seen).toEqual(['later']);
});

test('bytes that node makes are bytes here', () => {
  expect(Buffer.from('a')).toBeInstanceOf(Uint8Array);
  expect(new TextEncoder().encode('a').buffer).toBeInstanceOf(ArrayBuffer);
});
