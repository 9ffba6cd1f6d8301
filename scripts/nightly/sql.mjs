// Jobs over tables of a real Postgres and a real SQLite, killed at random moments; and a database that goes away.
import { existsSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCampaign } from './lib/Campaign.mjs';
import { ending, start } from './lib/commandLine.mjs';
import { needBuild, tinyTextModel } from './lib/models.mjs';

const USAGE = `Fills a table of a Postgres server, which it starts, and one of a SQLite file, by DuckDB's extensions, and runs \`generate --input sql:QUERY\` over each: killed with SIGKILL at random
moments, resumed, run to its end; the output has to be that of a run that nobody killed, byte for byte. Then the server is killed while a job reads from it: one clear error, exit 2, and the job
goes on once the server is back.
  --postgres DIR    where initdb and postgres are (default: the newest of /usr/lib/postgresql/*/bin; skipped, and said so, where there is none)
  --extensions DIR  where postgres_scanner.duckdb_extension and sqlite_scanner.duckdb_extension are, of the installed DuckDB's version (default: DuckDB fetches them)
  --kills N         of each database (default 20)
  --rows N          of each table (default 20000)`;

/** Far more than DuckDB reads ahead. */
const LARGE_ROWS = 1_000_000;
/** Results of some hundred rows. */
const SOME_BYTES = 200_000;

async function fill(attach, table, rows) {
  const { DuckDBInstance } = await import('@duckdb/node-api');
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  await connection.run(
    `${attach}; create table shop.${table} as select i::bigint as id, 'review ' || i || repeat(' and so on', (i % 7)::int) as prompt, case when i % 3 = 0 then null else 'note, "' || i || '"' end as note, (i * 0.25)::decimal(12, 2) as price from range(${rows}) r(i)`,
  );
  connection.closeSync();
  instance.closeSync();
}

const options = {
  postgres: { type: 'string' },
  extensions: { type: 'string' },
  kills: { type: 'string', default: '20' },
  rows: { type: 'string', default: '20000' },
};
await runCampaign({ usage: USAGE, options, done: 'killed' }, async (campaign) => {
  needBuild();
  const model = await tinyTextModel(campaign);
  const load = (name, short) =>
    campaign.values.extensions === undefined
      ? `install ${short}; load ${short}`
      : `load '${join(campaign.values.extensions, `${name}.duckdb_extension`)}'`;
  const databases = [];
  const sqlite = join(campaign.folder, 'shop.db');
  databases.push({
    name: 'sqlite',
    attach: (mode) => `${load('sqlite_scanner', 'sqlite')}; attach '${sqlite}' as shop (type sqlite${mode})`,
  });
  // Its loader of TypeScript is there since the model was made.
  const { postgresFolder, postgresServer } = await import('../../test/support/databaseServers.ts');
  const bin = campaign.values.postgres ?? postgresFolder();
  const server = bin === undefined ? undefined : await postgresServer(bin);
  if (server === undefined) campaign.set('postgres', 'skipped: no server is installed');
  else
    databases.push({
      name: 'postgres',
      server,
      attach: (mode) =>
        `${load('postgres_scanner', 'postgres')}; attach 'host=127.0.0.1 port=${server.port} user=spillway dbname=postgres' as shop (type postgres${mode})`,
    });
  try {
    for (const database of databases) await oneDatabase(campaign, model, database);
  } finally {
    await server?.[Symbol.asyncDispose]();
  }
});

function beginJob(model, query, output, more) {
  return start([
    'generate',
    '--model',
    model,
    '--input',
    `sql:${query}`,
    '--output',
    output,
    '--max-new-tokens',
    '2',
    '--ignore-eos',
    '--progress',
    'off',
    ...more,
  ]);
}

async function oneDatabase(campaign, model, { name, attach, server }) {
  await fill(attach(''), 'reviews', campaign.number('rows'));
  const query = `${attach(', read_only')}; select * from shop.reviews order by id`;
  const begin = (to, more = ['--resume']) => beginJob(model, query, to, more);
  const whole = join(campaign.folder, `${name}.csv`);
  const reference = await begin(whole, []).ended;
  if (reference.code !== 0) return campaign.violation(`${name}: the uninterrupted run failed`, ending(reference));
  const expected = readFileSync(whole);
  campaign.set(`${name} rows a second`, Math.round(campaign.number('rows') / reference.seconds));
  const check = async (output, what) => {
    const last = await begin(output).ended;
    if (last.code !== 0) campaign.violation(`${name}: ${what}: the last run failed`, ending(last));
    else if (!readFileSync(output).equals(expected))
      campaign.violation(`${name}: ${what}: the output is another one`, output);
    if (existsSync(`${output}.lock`)) campaign.violation(`${name}: ${what}: a lock was left`);
    for (const left of [output, `${output}.job.json`, `${output}.rows.jsonl`]) rmSync(left, { force: true });
  };
  const output = join(campaign.folder, `${name}-killed.csv`);
  let killed = 0;
  for (
    let attempts = 0;
    killed < campaign.number('kills') && attempts < 4 * campaign.number('kills') && campaign.goesOn;
    attempts += 1
  ) {
    const { child, ended } = begin(output);
    await sleep(campaign.random.whole(0, Math.round(reference.seconds * 900)));
    child.kill('SIGKILL');
    const result = await ended;
    if (result.signal !== 'SIGKILL') {
      if (result.code !== 0) campaign.violation(`${name}: a run failed before it was killed`, ending(result));
      await check(output, 'a run that ended');
      continue;
    }
    killed += 1;
    campaign.count('killed');
    if (killed % 5 === 0) await check(output, `after ${killed} kills`);
  }
  await check(output, 'at the end');
  if (killed < campaign.number('kills'))
    campaign.violation(`${name}: only ${killed} of ${campaign.number('kills')} runs were killed`);
  if (server === undefined) return;
  await serverGone(campaign, attach, server, model);
}

/**
 * The server is killed while a job reads a table that is too large to be read ahead; and it is away when one begins.
 */
async function serverGone(campaign, attach, server, model) {
  await fill(attach(''), 'large', LARGE_ROWS);
  const output = join(campaign.folder, 'gone.jsonl');
  const query = `set threads = 1; ${attach(', read_only')}; select id, prompt from shop.large`;
  const begin = () => beginJob(model, query, output, ['--resume']);
  const size = () => statSync(output, { throwIfNoEntry: false })?.size ?? 0;
  const ids = () =>
    readFileSync(output, 'utf8')
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line).id);
  const reach = async (bytes, child) => {
    while (child.exitCode === null && size() < bytes) await sleep(20);
  };
  const { child, ended } = begin();
  await reach(SOME_BYTES, child);
  await server.end('SIGKILL');
  const lost = await ended;
  if (lost.hung || lost.code !== 2 || !/the query (failed|broke off)/.test(lost.stderr))
    campaign.violation('the server went away in mid-run', ending(lost));
  const before = [ids().length, size()];
  campaign.set('server gone', `after ${before[0]} rows: "${lost.stderr.trim().replaceAll('\n', ' ').slice(-300)}"`);
  const away = await begin().ended;
  if (away.hung || away.code !== 2) campaign.violation('the server was away from the beginning', ending(away));
  await server.begin();
  const again = begin();
  await reach(before[1] + SOME_BYTES, again.child);
  again.child.kill('SIGKILL');
  const result = await again.ended;
  const all = ids();
  if (result.signal !== 'SIGKILL' || all.length <= before[0])
    campaign.violation('the job did not go on once the server was back', ending(result));
  if (all.some((id, at) => id !== at))
    campaign.violation('rows are lost or doubled once the server was back', `${all.length} rows`);
}
