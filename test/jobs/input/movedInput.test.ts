import { chmodSync, renameSync, utimesSync, writeFileSync } from 'node:fs';
import { afterEach, expect, jest, test } from '@jest/globals';
import { temporaryFolder } from '../support/files.js';

/** What another process does just before a file is opened. */
let meddle = (): void => undefined;
const [files, promised] = [await import('node:fs'), await import('node:fs/promises')];

jest.unstable_mockModule('node:fs', () => ({
  ...files,
  openSync: (...more: Parameters<typeof files.openSync>) => {
    meddle();
    return files.openSync(...more);
  },
}));
jest.unstable_mockModule('node:fs/promises', () => ({
  ...promised,
  open: (...more: Parameters<typeof promised.open>) => {
    meddle();
    return promised.open(...more);
  },
}));

const { CountedInput } = await import('../../../src/jobs/input/CountedInput.js');
const { unchangedBytes } = await import('../../../src/files/fileBytes.js');
const { text } = await import('../../../src/jobs/formats/text.js');

const path = temporaryFolder();
const CONTENT = 'one\ntwo\n';

function made(name: string): string {
  writeFileSync(path(name), CONTENT);
  return path(name);
}

afterEach(() => {
  meddle = () => undefined;
});

// Where it is looked at and then opened, it may be away in between: no less than where it was away before.

test('an input that was counted, touched, and moved away while it is looked at once more', async () => {
  const file = made('counted');
  const counted = await CountedInput.count(file, { format: text, compression: undefined });
  expect(counted.rows).toBe(2);
  utimesSync(file, 1, 1);
  meddle = () => renameSync(file, `${file}.old`);
  await counted.checkUnchanged();
});

test('an input that was read once, given another mode, and moved away while it is looked at once more', async () => {
  const file = made('read');
  async function* bytes(): AsyncGenerator<Buffer, void, undefined> {
    yield Buffer.from(CONTENT);
    await Promise.resolve();
    chmodSync(file, 0o600);
    meddle = () => renameSync(file, `${file}.old`);
  }
  const read: Buffer[] = [];
  for await (const piece of unchangedBytes(bytes(), file, file)) read.push(piece);
  expect(Buffer.concat(read).toString()).toBe(CONTENT);
});
