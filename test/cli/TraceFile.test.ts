import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { JobFileError } from '../../src/errors/JobFileError.js';
import { TraceFile } from '../../src/cli/TraceFile.js';
import { temporaryFolder } from '../jobs/support/files.js';

const path = temporaryFolder();
const event = (at: number): Parameters<TraceFile['add']>[0] => ({
  name: 'compute',
  ph: 'X',
  ts: at,
  dur: 1,
  pid: 1,
  tid: 0,
  args: { pass: at, part: 'é"\n' },
});

test('a JSON array, whatever the number of events; written in pieces', () => {
  for (const count of [0, 1, 20_000]) {
    const file = path(`trace-${count}.json`);
    const trace = new TraceFile(file);
    for (let at = 0; at < count; at += 1) trace.add(event(at));
    // What a trace holds back is small.
    expect(readFileSync(file).length).toBeGreaterThan(count * 60 - 300_000);
    trace.close();
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual(Array.from({ length: count }, (_, at) => event(at)));
  }
});

test('a file that cannot be made', () => {
  expect(() => new TraceFile(path('none/trace.json'))).toThrow(JobFileError);
});

test('one that waits leaves what is there until there is a task to tell of', () => {
  const file = path('kept.json');
  writeFileSync(file, '[]');
  const idle = new TraceFile(file, true);
  idle.add({ ...event(0), ph: 'C' });
  idle.close();
  expect(readFileSync(file, 'utf8')).toBe('[]');
  const busy = new TraceFile(file, true);
  busy.add({ ...event(0), ph: 'C' });
  busy.add(event(1));
  busy.close();
  expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual([{ ...event(0), ph: 'C' }, event(1)]);
  const nowhere = new TraceFile(path('none/trace.json'), true);
  nowhere.add(event(1));
  expect(() => nowhere.close()).toThrow(JobFileError);
});
