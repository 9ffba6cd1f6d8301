import { PassThrough } from 'node:stream';
import { expect, test } from '@jest/globals';
import { Log, type LogFormat } from '../../src/cli/Log.js';

function written(format: LogFormat | undefined, say: (log: Log) => void): string {
  const stream = new PassThrough();
  const log = new Log(stream, () => new Date('2026-11-29T18:12:00Z'));
  log.format = format;
  say(log);
  return String(stream.read() ?? '');
}

test('words alone, unless a format was asked for', () => {
  expect(written(undefined, (log) => log.say('one\ntwo', 'error'))).toBe('one\ntwo\n');
});

test('text: the time before each line', () => {
  expect(written('text', (log) => log.say('one\ntwo'))).toBe(
    '2026-11-29T18:12:00.000Z one\n2026-11-29T18:12:00.000Z two\n',
  );
});

test('json: a document a line, whatever the words are, and nothing that steers a terminal', () => {
  const words = 'a "b"\n\u001b[31m\u009b1A\u2028';
  const text = written('json', (log) => log.say(words, 'error', { progress: { of: 'rows', done: 1, total: 2 } }));
  expect(text.split('\n')).toHaveLength(2);
  expect(text).not.toMatch(/[\u001b\u009b\u2028]/);
  expect(JSON.parse(text)).toEqual({
    time: '2026-11-29T18:12:00.000Z',
    level: 'error',
    message: words,
    progress: { of: 'rows', done: 1, total: 2 },
  });
});
