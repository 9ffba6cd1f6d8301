// Jobs over tables of a real Postgres and a real SQLite, killed at random moments; and a database that goes away.
import { execFileSync, spawn } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCampaign } from './lib/Campaign.mjs';
import { ending, start } from './lib/commandLine.mjs';
import { needBuild, tinyTextModel } from './lib/models.mjs';

const USAGE = `Fills a table of a Postgres server, which it starts, and one of a SQLite file, by DuckDB's extensions, and runs \`generate --input sql:QUERY\` over each: killed with SIGKILL at random
moments, resumed, run to its end; the output has to be that of a run that nobody killed, byte for byte. Then the server is killed while the query runs: one clear error, exit 2, and the job
goes on once the server is back; and while a job works through the rows, which ends as if nothing had been.
  --postgres DIR    where initdb and postgres are (default: the newest of /usr/lib/postgresql/*/bin; skipped, and said so, where there is none)
  --extensions DIR  where postgres_scanner.duckdb_extension and sqlite_scanner.duckdb_extension are, of the installed DuckDB's version (default: DuckDB fetches them)
  --kills N         of each database (default 20)
  --rows N          of each table (default 20000)`;

const READY_SECONDS = 60;

function newestPostgres() {
  try {
    return execFileSync('sh', ['-c', 'ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim() || undefined;
  } catch {
    return undefined;
  }
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Who the server runs as: it refuses to be root. */
function serverUser() {
  if (process.getuid() !== 0) return {};
  const id = (flag) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

/** A server of its own on loopback, in a folder of its own. */
async function postgresServer(bin) {
  // The campaign's folder is its user's alone.
  const data = mkdtempSync(join(tmpdir(), 'spillway-postgres-'));
  const user = serverUser();
  if (user.uid !== undefined) chownSync(data, user.uid, user.gid);
  execFileSync(join(bin, 'initdb'), ['-D', data, '-A', 'trust', '-U', 'spillway', '--no-sync'], { ...user, cwd: '/', stdio: ['ignore', 'ignore', 'inherit'] });
  const port = await freePort();
  let child;
  const begin = async () => {
    child = spawn(join(bin, 'postgres'), ['-D', data, '-h', '127.0.0.1', '-p', String(port), '-k', '', '-c', 'fsync=off'], { ...user, cwd: '/', stdio: 'ignore' });
    for (let waited = 0; waited < READY_SECONDS * 10; waited += 1) {
      try {
        execFileSync(join(bin, 'pg_isready'), ['-h', '127.0.0.1', '-p', String(port)], { stdio: 'ignore' });
        return;
      } catch {
        await sleep(100);
      }
    }
    throw new Error('the server does not answer');
  };
  const end = async (signal) => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await ended;
  };
  await begin();
  const close = async () => {
    await end('SIGQUIT');
    rmSync(data, { recursive: true, force: true });
  };
  return { port, begin, end, close };
}

async function fill(attach, rows) {
  const { DuckDBInstance } = await import('@duckdb/node-api');
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  await connection.run(`${attach}; create table shop.reviews as select i::bigint as id, 'review ' || i || repeat(' and so on', (i % 7)::int) as prompt, case when i % 3 = 0 then null else 'note, "' || i || '"' end as note, (i * 0.25)::decimal(12, 2) as price from range(${rows}) r(i)`);
  connection.closeSync();
  instance.closeSync();
}

const options = { postgres: { type: 'string' }, extensions: { type: 'string' }, kills: { type: 'string', default: '20' }, rows: { type: 'string', default: '20000' } };
await runCampaign({ usage: USAGE, options, done: 'killed' }, async (campaign) => {
  needBuild();
  const model = await tinyTextModel(campaign);
  const load = (name, short) => (campaign.values.extensions === undefined ? `install ${short}; load ${short}` : `load '${join(campaign.values.extensions, `${name}.duckdb_extension`)}'`);
  const databases = [];
  const sqlite = join(campaign.folder, 'shop.db');
  databases.push({ name: 'sqlite', attach: (mode) => `${load('sqlite_scanner', 'sqlite')}; attach '${sqlite}' as shop (type sqlite${mode})` });
  const bin = campaign.values.postgres ?? newestPostgres();
  const server = bin === undefined ? undefined : await postgresServer(bin);
  if (server === undefined) campaign.set('postgres', 'skipped: no server is installed');
  else databases.push({ name: 'postgres', server, attach: (mode) => `${load('postgres_scanner', 'postgres')}; attach 'host=127.0.0.1 port=${server.port} user=spillway dbname=postgres' as shop (type postgres${mode})` });
  try {
    for (const database of databases) await oneDatabase(campaign, model, database);
  } finally {
    await server?.close();
  }
});

async function oneDatabase(campaign, model, { name, attach, server }) {
  await fill(attach(''), campaign.number('rows'));
  const query = `${attach(', read_only')}; select * from shop.reviews order by id`;
  const begin = (output, resume = true) => start(['generate', '--model', model, '--input', `sql:${query}`, '--output', output, '--max-new-tokens', '2', '--ignore-eos', '--progress', 'off', ...(resume ? ['--resume'] : [])]);
  const whole = join(campaign.folder, `${name}.csv`);
  const reference = await begin(whole, false).ended;
  if (reference.code !== 0) return campaign.violation(`${name}: the uninterrupted run failed`, ending(reference));
  const expected = readFileSync(whole);
  campaign.set(`${name} rows a second`, Math.round(campaign.number('rows') / reference.seconds));
  const check = async (output, what) => {
    const last = await begin(output).ended;
    if (last.code !== 0) campaign.violation(`${name}: ${what}: the last run failed`, ending(last));
    else if (!readFileSync(output).equals(expected)) campaign.violation(`${name}: ${what}: the output is another one`, output);
    if (existsSync(`${output}.lock`)) campaign.violation(`${name}: ${what}: a lock was left`);
    for (const left of [output, `${output}.job.json`, `${output}.rows.jsonl`]) rmSync(left, { force: true });
  };
  const output = join(campaign.folder, `${name}-killed.csv`);
  let killed = 0;
  for (let attempts = 0; killed < campaign.number('kills') && attempts < 4 * campaign.number('kills') && campaign.goesOn; attempts += 1) {
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
  if (killed < campaign.number('kills')) campaign.violation(`${name}: only ${killed} of ${campaign.number('kills')} runs were killed`);
  if (server === undefined) return;
  await serverGone(campaign, attach, server, model);
}

/** The server is killed while the query runs, which is one error; and again while the job works through what the query gave, which is none of the job's concern. */
async function serverGone(campaign, attach, server, model) {
  const output = join(campaign.folder, 'gone.jsonl');
  const query = `${attach(', read_only')}; select id, prompt from postgres_query('shop', 'select id, prompt, pg_sleep(0.0002) from reviews order by id')`;
  const begin = () => start(['generate', '--model', model, '--input', `sql:${query}`, '--output', output, '--max-new-tokens', '2', '--ignore-eos', '--progress', 'off', '--resume']);
  const ids = () => (existsSync(output) ? readFileSync(output, 'utf8').split('\n').slice(0, -1).map((line) => JSON.parse(line).id) : []);
  const first = begin();
  await sleep(2_500);
  await server.end('SIGKILL');
  const lost = await first.ended;
  if (lost.hung || lost.code !== 2 || !lost.stderr.includes('the query failed')) campaign.violation('the server went away while the query ran', ending(lost));
  campaign.set('server gone', `"${lost.stderr.trim().replaceAll('\n', ' ').slice(-300)}"`);
  const away = await begin().ended;
  if (away.hung || away.code !== 2) campaign.violation('the server was away from the beginning', ending(away));
  await server.begin();
  const { child, ended } = begin();
  while (child.exitCode === null && ids().length < 1000) await sleep(50);
  await server.end('SIGKILL');
  const all = await ended;
  const found = ids();
  if (all.code !== 0 || found.length !== campaign.number('rows') || found.some((id, at) => id !== at)) campaign.violation('the server went away behind the query', `${found.length} rows; ${ending(all)}`);
}
