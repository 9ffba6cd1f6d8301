import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { InterruptedError } from '../../../src/errors/InterruptedError.js';
import { JobFileError } from '../../../src/errors/JobFileError.js';
import { isRunning } from '../../../src/files/processes.js';
import { DUCKDB_BYTES } from '../../../src/jobs/input/duckDbLimit.js';
import { readSql } from '../../../src/jobs/input/readSql.js';
import { failureOf } from '../formats/support.js';
import { built } from '../support/built.js';
import { collect, temporaryFolder } from '../support/files.js';

/** It is a peer, which users install. */
function installed(): boolean {
  try {
    createRequire(import.meta.url).resolve('@duckdb/node-api');
    return true;
  } catch {
    return false;
  }
}

const path = temporaryFolder();
const LINUX = process.platform === 'linux';
const ENDLESS = 'select count(*) || a.range as prompt from range(1000000000) a, range(1000000000) b group by a.range';

/** The processes of DuckDB that a process has started. */
function processesOf(parent: number): number[] {
  return readdirSync('/proc').flatMap((name) => {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      const own = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === parent;
      return own && readFileSync(`/proc/${name}/cmdline`, 'utf8').includes('duckDbProcess') ? [Number(name)] : [];
    } catch {
      return [];
    }
  });
}

(installed() ? describe : describe.skip)('the process of a query (skipped without @duckdb/node-api)', () => {
  test('rows come as they are, whatever their size, among short ones', async () => {
    const rows = await collect(
      readSql(
        `select i as id, 'p' as prompt, case when i % 3 = 1 then repeat('xé漢😀', 300000) end as note,
           case when i % 3 = 2 then list_transform(range(30000), k -> {'k': k, 't': 't' || k, 'none': null}) end as list
         from range(7) t(i) order by i`,
        { carryFields: true },
      ),
    );
    expect(rows.map(({ id }) => id)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    const list = JSON.stringify(Array.from({ length: 30_000 }, (_, k) => ({ k, t: `t${k}`, none: null })));
    const note = 'xé漢😀'.repeat(300_000);
    for (const [at, { carry }] of rows.entries()) {
      expect(carry?.['note'] === (at % 3 === 1 ? note : null)).toBe(true);
      expect(JSON.stringify(carry?.['list']) === (at % 3 === 2 ? list : 'null')).toBe(true);
    }
  });

  test('of a row that takes too much its own id comes, and the rows after it', async () => {
    const rows = await collect(
      readSql(
        "select 'r' || i as id, 'a' as prompt, repeat('n', case i when 1 then 40000000 else 4 end) as note from range(100) t(i)",
        { carryFields: true },
      ),
    );
    expect(rows).toHaveLength(100);
    expect(rows[1]).toEqual({
      id: 'r1',
      error: { code: 'limit', message: expect.stringMatching(/^row 2: /) as unknown },
    });
    expect(rows[2]).toMatchObject({ id: 'r2', carry: { note: 'nnnn' } });
  });

  test('documents fit where it may have more', async () => {
    const rows = readSql(
      "create temp table t as select i, repeat('n', 60000) as note from range(3000) t(i); select i as id, 'a' as prompt, note from t",
      { carryFields: true, memory: '1GiB' },
    );
    let length = 0;
    for await (const { carry } of rows) length += (carry?.['note'] as string).length;
    expect(length).toBe(3000 * 60_000);
  });

  test('rows of small lists are rows, or too large by themselves', async () => {
    const rows = await collect(
      readSql(
        `select i as id, 'a' as prompt, case i when 1 then list_transform(range(2500000), k -> []) when 2 then
           list_transform(range(300000), k -> [k % 2]) end as note from range(4) t(i) order by i`,
        { carryFields: true, memory: '3GiB' },
      ),
    );
    expect(rows.map((row) => ('error' in row ? row.error.code : (row.carry?.['note'] as [] | null)?.length))).toEqual([
      undefined,
      'limit',
      300_000,
      undefined,
    ]);
  });

  test('the rows before an error come', async () => {
    const rows = readSql(
      "select i as id, case when i < 29000 then 'p' else error('no ' || i) end as prompt from range(30000) t(i) where i % 5 = 0",
    );
    let count = 0;
    const error = await failureOf(
      (async () => {
        for await (const _ of rows) count += 1;
      })(),
    );
    expect(error.message).toContain(`broke off after row ${count},`);
    expect(count).toBeGreaterThan(4096);
  });

  test('less than it takes is refused', () => {
    expect(() => readSql('select 1 as prompt', { memory: '64MB' })).toThrow(
      'memory: found 61 MiB, expected at least 512 MiB',
    );
  });

  test('an id that is too long itself is a number', async () => {
    const rows = await collect(readSql("select repeat('i', 40000000) as id, 'a' as prompt union all select 'b', 'b'"));
    expect(rows).toMatchObject([{ id: 1, error: { code: 'limit' } }, { id: 'b' }]);
  });

  (LINUX ? test : test.skip)('values that its memory does not hold are one error that says what to do', async () => {
    const error = await failureOf(
      collect(
        readSql(
          "select 1 as id, 'a' as prompt, list('a text of some length, number ' || i) as note from range(12000000) t(i)",
          { carryFields: true, memory: DUCKDB_BYTES },
        ),
      ),
    );
    expect(error).toBeInstanceOf(JobFileError);
    expect(error.message).toMatch(
      /^SQL: the (process of DuckDB gave up|query (failed|broke off)).*set memory_limit = '1GB'/s,
    );
    expect(await collect(readSql("select 'b' as prompt"))).toEqual([{ id: 1, duplicate: false, prompt: 'b' }]);
  });

  (LINUX ? test : test.skip)('where it dies the rows before are rows, and an error says how', async () => {
    const rows = readSql('select i as id, $$p$$ as prompt from range(100000000) t(i)');
    expect((await rows.next()).value).toEqual({ id: 0, prompt: 'p' });
    const [running] = processesOf(process.pid);
    process.kill(running ?? NaN, 'SIGKILL');
    const error = await failureOf(collect(rows));
    expect(error).toBeInstanceOf(JobFileError);
    expect(error.message).toMatch(
      /^SQL: the process of DuckDB ended after row \d+ \(SIGKILL\); rows that were finished/,
    );
  });

  (LINUX ? test : test.skip)('a query without end is given up when it is not wanted', async () => {
    const ending = new AbortController();
    const rows = readSql(ENDLESS, { signal: ending.signal });
    const first = failureOf(rows.next());
    while (processesOf(process.pid).length === 0) await sleep(10);
    ending.abort('enough');
    expect(await first).toBeInstanceOf(InterruptedError);
    expect(processesOf(process.pid)).toEqual([]);
    expect(await failureOf(collect(readSql('select 1 as prompt', { signal: ending.signal })))).toBeInstanceOf(
      InterruptedError,
    );
  });

  (LINUX ? test : test.skip)('it ends with the process that asks, however that ends', async () => {
    writeFileSync(
      path('ask.mjs'),
      `import { readSql } from ${JSON.stringify(pathToFileURL(built('api/jobs.js')).href)};
       await readSql(${JSON.stringify(ENDLESS)}).next();`,
    );
    for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
      const asking = spawn(process.execPath, [path('ask.mjs')], { stdio: 'ignore' });
      const ended = once(asking, 'exit');
      let running: number | undefined;
      while (running === undefined) {
        await sleep(10);
        [running] = processesOf(asking.pid ?? NaN);
      }
      asking.kill(signal);
      await ended;
      while (isRunning(running)) await sleep(10);
    }
  });

  test('rows that nobody takes any more keep no process', async () => {
    writeFileSync(
      path('leave.mjs'),
      `import { readSql } from ${JSON.stringify(pathToFileURL(built('api/jobs.js')).href)};
       globalThis.kept = readSql('select i as id, $$p$$ as prompt from range(100000000) t(i)');
       await kept.next();`,
    );
    const [code] = (await once(spawn(process.execPath, [path('leave.mjs')], { stdio: 'ignore' }), 'exit')) as [number];
    expect(code).toBe(0);
  });

  test('files that statements wrote are whole when all rows have come', async () => {
    const file = path('written.duckdb');
    const written = `attach '${file}' as w; create table w.t as select range as id from range(1000); begin; insert into w.t
      values (1000); commit; select id, 'p' as prompt from w.t`;
    expect(await collect(readSql(written))).toHaveLength(1001);
    expect(readdirSync(path('')).filter((name) => name.startsWith('written.'))).toEqual(['written.duckdb']);
  });

  test('what statements have committed is there, wherever the query ended', async () => {
    const file = path('ended.duckdb');
    const rows = readSql(
      `attach '${file}' as w; create table w.t as select range as id from range(1000); insert into w.t values (1000);
       select i as id, 'p' as prompt from range(100000000) t(i)`,
    );
    await rows.next();
    await rows.return();
    // Nobody may write it, and yet its log is read.
    const counted = await collect(readSql("select count(*) as id, 'p' as prompt from t", { database: file }));
    expect(counted).toEqual([{ id: 1001, prompt: 'p' }]);
    const [first] = await collect(readSql(`attach '${file}' as w; select count(*) as id, 'p' as prompt from w.t`));
    expect(first).toEqual({ id: 1001, prompt: 'p' });
    expect(readdirSync(path('')).filter((name) => name.startsWith('ended.'))).toEqual(['ended.duckdb']);
  });

  test('it loads what modules are found by, and has no other flags of this process', async () => {
    const [loaded, told] = [path('a hook.cjs'), path('told.json')];
    writeFileSync(
      loaded,
      `require('node:fs').writeFileSync(${JSON.stringify(told)}, JSON.stringify([process.execArgv, process.env.NODE_OPTIONS ?? '']));`,
    );
    const before = process.env['NODE_OPTIONS'];
    process.env['NODE_OPTIONS'] = `--max-old-space-size=64 --require "${loaded}" --inspect-port=1`;
    try {
      expect(await collect(readSql("select 1 as id, 'p' as prompt"))).toEqual([{ id: 1, prompt: 'p' }]);
      const [flags, options] = JSON.parse(readFileSync(told, 'utf8')) as [string[], string];
      expect(flags.slice(0, 2)).toEqual(['--require', loaded]);
      expect([...flags, options].join(' ')).not.toMatch(/max-old-space-size=64|inspect/);
    } finally {
      if (before === undefined) delete process.env['NODE_OPTIONS'];
      else process.env['NODE_OPTIONS'] = before;
    }
  });

  test('where it does not start an error says why', async () => {
    const before = process.env['NODE_OPTIONS'];
    process.env['NODE_OPTIONS'] = `--require ${path('none.cjs')}`;
    try {
      const error = await failureOf(collect(readSql("select 'p' as prompt")));
      expect(error).toBeInstanceOf(JobFileError);
      expect(error.message).toMatch(
        /^SQL: the process of DuckDB ended \(exit code 1: Error: Cannot find module '.*none\.cjs'\); rows/,
      );
    } finally {
      if (before === undefined) delete process.env['NODE_OPTIONS'];
      else process.env['NODE_OPTIONS'] = before;
    }
  });

  test('what it has no memory for goes to the folder that is said, and nothing stays there', async () => {
    const disk = path('disk');
    mkdirSync(disk);
    const sorted = "select i as id, repeat('a', 1000) || i as prompt from range(400000) r(i) order by prompt desc";
    const rows = readSql(sorted, { disk });
    expect((await rows.next()).done).toBe(false);
    expect(readdirSync(disk)).toEqual([expect.stringMatching(/^duckdb\./)]);
    await rows.return();
    expect(readdirSync(disk)).toEqual([]);
  });
});
