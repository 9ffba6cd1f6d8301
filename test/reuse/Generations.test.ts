import { existsSync, renameSync, rmSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { expect, test } from '@jest/globals';
import { Generations, Warnings } from '../../src/reuse/Generations.js';
import { temporaryFolder } from '../jobs/support/files.js';

const path = temporaryFolder();

async function opened(file: string): Promise<Generations> {
  const generations = new Generations(file, open, new Warnings(undefined));
  await generations.open();
  await generations.make(true);
  return generations;
}

test('who would begin anew what another one has begun anew meanwhile goes on with that', async () => {
  const file = path('both');
  const [one, other] = [await opened(file), await opened(file)];
  const { ino } = statSync(file);
  await one.rotate(0);
  await other.rotate(0);
  expect(statSync(`${file}.old`).ino).toBe(ino);
  expect(other.all).toHaveLength(2);
  expect(other.current?.is(statSync(file, { bigint: true }))).toBe(true);
  await Promise.all([one.close(), other.close()]);
});

test('nothing is renamed where another file has taken the place of ours, or none is there', async () => {
  const file = path('moved');
  const generations = await opened(file);
  renameSync(file, `${file}.elsewhere`);
  await generations.rotate(0);
  expect([existsSync(file), existsSync(`${file}.old`), generations.current]).toEqual([false, false, undefined]);
  await generations.make(false);
  expect(generations.current?.is(statSync(file, { bigint: true }))).toBe(true);
  await generations.close();
});

test('files that others have replaced are let go of', async () => {
  const file = path('let go');
  const [one, other] = [await opened(file), await opened(file)];
  await one.rotate(0);
  await one.rotate(0);
  const [before] = other.all;
  await other.refresh();
  expect(other.all.map((generation) => generation.is(statSync(file, { bigint: true })))).toEqual([true, false]);
  await expect(before?.bytes()).rejects.toThrow();
  rmSync(`${file}.old`);
  await other.refresh();
  expect(other.all).toHaveLength(1);
  await Promise.all([one.close(), other.close()]);
});
