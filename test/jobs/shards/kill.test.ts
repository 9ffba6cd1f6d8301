import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { runJob } from '../../../src/jobs/runJob.js';
import { collectJob } from '../../../src/jobs/shards/collectJob.js';
import { shardPath } from '../../../src/jobs/shards/Shard.js';
import { failureOf } from '../formats/support.js';
import { built } from '../support/built.js';
import { compiledStub } from '../support/compiledStub.js';
import { temporaryFolder } from '../support/files.js';
import { StubEngine } from '../support/stubEngine.js';

const path = temporaryFolder();
const ROWS = 500;
const WORKERS = 3;
/** Of each worker. */
const KILLS = 4;

test.each([
  ['rows.jsonl', ''],
  ['rows.csv', '.rows.jsonl'],
])(
  `%s: ${WORKERS} workers, each killed (-9) ${KILLS} times at random moments, leave what collects to one run's output, byte for byte; before that it is refused`,
  async (name, journal) => {
    const [input, whole, output] = [path(`in-${name}`), path(`whole-${name}`), path(`out-${name}`)];
    const lines = Array.from({ length: ROWS }, (_, at) => {
      const prompt = `prompt ${at} `.repeat(at % 30);
      if (name.endsWith('.csv')) return at % 100 === 99 ? 'broken' : `row-${at},${prompt}`;
      return at % 100 === 99 ? 'broken' : JSON.stringify({ id: `row-${at}`, prompt });
    });
    writeFileSync(input, `${name.endsWith('.csv') ? 'id,prompt\n' : ''}${lines.join('\n')}\n`);
    const { failed } = await runJob({ engine: new StubEngine(), input, output: whole });
    expect(failed).toBeGreaterThan(0);

    const script = fileURLToPath(new URL('../support/killableJob.mjs', import.meta.url));
    const [jobs, stub] = [built('jobs/runJob.js'), compiledStub(path('stubEngine.mjs'))];
    const part = (index: number): string => shardPath(output, { index, count: WORKERS });
    const start = (index: number, order: string): ChildProcess =>
      spawn(process.execPath, [script, jobs, stub, input, part(index), order, '', `${index}/${WORKERS}`], {
        stdio: ['ignore', 'inherit', 'inherit'],
        // So slow that few runs are through before their kill, also where that comes late.
        env: { ...process.env, SPILLWAY_ROW_MILLISECONDS: '40' },
      });
    const size = (index: number): number => {
      const file = `${part(index)}${journal}`;
      return existsSync(file) ? statSync(file).size : 0;
    };
    let killed = 0;
    // One after another: a second would be told that the first has the output.
    let refusals = Promise.resolve();
    const refused = async (): Promise<void> => {
      expect((await failureOf(collectJob({ output, input }))).message).toContain('cannot be collected');
    };
    const work = async (index: number): Promise<void> => {
      for (let kill = 0; kill < KILLS; kill += 1) {
        const before = size(index);
        const child = start(index, kill % 2 === 0 ? 'completion' : 'input');
        const ended = once(child, 'exit') as Promise<[number | null, string | null]>;
        while (size(index) <= before && child.exitCode === null) await sleep(1);
        await sleep(Math.random() * 40);
        child.kill('SIGKILL');
        if ((await ended)[1] === 'SIGKILL') killed += 1;
        if (kill === 1) await (refusals = refusals.then(refused));
      }
      const [code] = (await once(start(index, 'completion'), 'exit')) as [number | null];
      expect(code).toBe(0);
    };
    // The last ones first, and all at once.
    await Promise.all(Array.from({ length: WORKERS }, (_, at) => work(WORKERS - 1 - at)));
    expect(killed).toBeGreaterThan(WORKERS);
    expect(await collectJob({ output, input })).toEqual({ shards: WORKERS, rows: ROWS, results: ROWS, failed });
    expect(readFileSync(output)).toEqual(readFileSync(whole));
    expect(readdirSync(path('')).filter((file) => /lock|tmp/.test(file))).toEqual([]);
  },
);
