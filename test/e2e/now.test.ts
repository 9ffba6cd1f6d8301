import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { runJob } from '../../src/api/jobs.js';
import { addPromptFlags, promptOptions, type PromptFlags } from '../../src/cli/flags/promptFlags.js';
import { Engine, type RowResult } from '../../src/index.js';
import { recordPath } from '../../src/jobs/output/sidecarFiles.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

/** As many tokens as the year says, so that a prompt tells which it was told. */
const TEMPLATE = "{{ 'x' * (strftime_now('%Y') | int - 1990) }}{% for m in messages %}{{ m['content'] }}{% endfor %}";

describe('the time that chat templates are told', () => {
  let model: Awaited<ReturnType<typeof tinyChatModel>>;
  let engine: Engine;
  let folder: string;
  beforeAll(async () => {
    model = await tinyChatModel();
    const config = join(model.path, 'tokenizer_config.json');
    const settings = JSON.parse(await readFile(config, 'utf8')) as object;
    await writeFile(config, JSON.stringify({ ...settings, chat_template: TEMPLATE }));
    engine = await Engine.open({ model: model.path, learn: false });
    folder = await mkdtemp(join(tmpdir(), 'spillway-now-'));
    const lines = Array.from({ length: 6 }, (_, nth) =>
      JSON.stringify({ id: nth, messages: [{ role: 'user', content: 'a' }] }),
    );
    await writeFile(join(folder, 'in.jsonl'), `${lines.join('\n')}\n`);
  });
  afterAll(async () => {
    await engine.close();
    await model[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  const years = async (path: string): Promise<number[]> => {
    const lines = (await readFile(path, 'utf8')).trim().split('\n');
    return lines.map((line) => (JSON.parse(line) as RowResult).usage.promptTokens - 1 + 1990);
  };
  const job = (name: string, now?: string, more: object = {}): Promise<unknown> =>
    runJob({
      engine,
      input: join(folder, 'in.jsonl'),
      output: join(folder, name),
      generate: { maxNewTokens: 1, ...(now !== undefined && { now }) },
      ...more,
    });

  test('is that of the job, also where it is gone on with', async () => {
    const path = join(folder, 'begun.jsonl');
    await job('begun.jsonl');
    expect(await years(path)).toEqual(Array(6).fill(new Date().getFullYear()));
    // As if it had begun long ago, and come as far as the second row.
    const whole = await readFile(path, 'utf8');
    await writeFile(
      path,
      whole
        .split('\n')
        .slice(0, 2)
        .map((line) => `${line}\n`)
        .join(''),
    );
    const record = JSON.parse(await readFile(recordPath(path), 'utf8')) as { begun: string };
    await writeFile(recordPath(path), JSON.stringify({ ...record, begun: '2003-06-01T12:00:00Z' }));
    await job('begun.jsonl', undefined, { resume: true });
    const year = new Date().getFullYear();
    expect(await years(path)).toEqual([year, year, 2003, 2003, 2003, 2003]);
  });

  test('is what is said, and part of what a resumed job is compared by', async () => {
    await job('said.jsonl', '2010-02-03T12:00:00Z');
    expect(await years(join(folder, 'said.jsonl'))).toEqual(Array(6).fill(2010));
    await expect(job('said.jsonl', '2011-02-03T12:00:00Z', { resume: true })).rejects.toThrow(
      'now (was "2010-02-03T12:00:00.000Z", is "2011-02-03T12:00:00.000Z")',
    );
    await expect(job('said.jsonl', undefined, { resume: true })).rejects.toThrow('now (was "2010');
  });

  test('is none in a shard, whose template is refused with the remedy; with `now` all shards have the same', async () => {
    await job('part0.jsonl', undefined, { shard: { index: 0, count: 2 } });
    const rows = (await readFile(join(folder, 'part0.jsonl'), 'utf8')).trim().split('\n');
    expect(rows).toHaveLength(3);
    for (const row of rows)
      expect((JSON.parse(row) as RowResult).error).toEqual({
        code: 'chat-template',
        message: expect.stringMatching(/strftime_now: .* all shards of a job: say which with --now/),
      });
    for (const index of [0, 1]) {
      await job(`of${index}.jsonl`, '2012-02-03T12:00:00Z', { shard: { index, count: 2 } });
      expect(await years(join(folder, `of${index}.jsonl`))).toEqual([2012, 2012, 2012]);
    }
  });

  test.each([
    ['2026-11-29T12:00:00Z', '2026-11-29T12:00:00.000Z'],
    ['2026-11-29', new Date('2026-11-29T00:00:00').toISOString()],
    ['2026-11-29T12:00:00+02:00', '2026-11-29T10:00:00.000Z'],
  ])('--now %s', async (given, expected) => {
    expect(await optionsOf(given)).toMatchObject({ now: expected });
  });

  test.each(['yesterday', '29', '2026-13-01', ''])('--now %p is no date', async (given) => {
    await expect(optionsOf(given)).rejects.toThrow('--now');
  });
});

async function optionsOf(now: string): Promise<unknown> {
  const command = new Command();
  addPromptFlags(command);
  command.parse(['--now', now], { from: 'user' });
  return promptOptions(command.opts<PromptFlags>(), new AbortController().signal);
}
