// Jobs into tables of Postgres, DuckDB and SQLite: killed at drawn moments, with a server that goes away, and a full disk.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCampaign } from './lib/Campaign.mjs';
import { ending, start } from './lib/commandLine.mjs';
import { needBuild, tinyTextModel } from './lib/models.mjs';

const USAGE = `Runs \`generate --output sql:TABLE\` over rows of CSV into Postgres (a server of its own), DuckDB and SQLite (where this Node has it): killed with SIGKILL at drawn moments and resumed, run to its end; the
table then has each row once, with the answer of a run that nobody killed. Then the server is away for a minute in mid-run, and the job ends well; and its disk is full (a small tmpfs; root): the run ends with 2, the
table is whole, and with room again --resume ends it.
  --postgres DIR  where initdb and postgres are (default: the newest of /usr/lib/postgresql/*/bin; skipped, and said so, where there is none)
  --kills N       of each database (default 100)
  --rows N        (default 10000)
  --away SECONDS  that the server is away (default 60)
  --only NAME     one of the databases (Postgres, DuckDB, SQLite)`;
const options = {
  postgres: { type: 'string' },
  kills: { type: 'string', default: '100' },
  rows: { type: 'string', default: '10000' },
  away: { type: 'string', default: '60' },
  only: { type: 'string' },
};

await runCampaign({ usage: USAGE, options, done: 'killed' }, async (campaign) => {
  needBuild();
  const model = await tinyTextModel(campaign);
  const input = join(campaign.folder, 'in.csv');
  const write = (prompts) =>
    writeFileSync(input, `id,prompt,note\n${prompts.map((prompt, at) => `${at},${prompt},"n ""${at}"""\n`).join('')}`);
  const all = Array.from({ length: campaign.number('rows') }, (_, at) => `review ${at}${' and so on'.repeat(at % 7)}`);
  write(all);
  const job = (output, more) =>
    start([
      ...['generate', '--model', model, '--input', input, '--max-new-tokens', '2', '--ignore-eos', '--progress', 'off'],
      ...['--output', ...output, ...more],
    ]);
  const reference = await job([join(campaign.folder, 'whole.jsonl')], []).ended;
  if (reference.code !== 0) return campaign.violation('the uninterrupted run failed', ending(reference));
  const answered = readFileSync(join(campaign.folder, 'whole.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line, at) => ({ prompt: all[at], text: JSON.parse(line).text }));
  // Postgres has no text with a NUL, and SQLite's client cuts there.
  const kept = answered.filter(({ text }) => !text.includes('\0'));
  const answers = kept.map(({ text }) => text);
  const rows = kept.length;
  write(kept.map(({ prompt }) => prompt));
  const check = async (opened, table, what) => {
    const found = await opened.ask(`select "index", "text", "note" from "${table}" order by "index"`);
    const lost = rows - new Set(found.map(([index]) => Number(index))).size;
    if (lost !== 0 || found.length !== rows)
      campaign.violation(`${what}: ${lost} rows are lost, ${found.length - rows + lost} stand twice`);
    const other = found.find(([index, text, note]) => text !== answers[index] || note !== `n "${index}"`);
    if (other) campaign.violation(`${what}: another answer`, JSON.stringify(other));
  };
  const { DATABASES } = await import('../../test/jobs/database/support.ts');
  for (const kind of DATABASES) {
    if (kind.name !== (campaign.values.only ?? kind.name)) continue;
    if (kind.missing !== undefined) {
      campaign.set(kind.name, `skipped: ${kind.missing}`);
      continue;
    }
    const opened = await kind.open((name) => join(campaign.folder, name));
    const into = (table) => [
      `sql:${table}`,
      ...['--output-database', opened.database, '--output-journal', join(campaign.folder, `${kind.name}-${table}`)],
    ];
    try {
      await kill(
        campaign,
        kind.name,
        (how) => job(into('killed'), [how]),
        (what) => check(opened, 'killed', `${kind.name}: ${what}`),
      );
      if (opened.server)
        await goAway(
          campaign,
          opened,
          (how) => job(into('away'), [how]),
          (what) => check(opened, 'away', what),
        );
    } finally {
      await opened[Symbol.asyncDispose]();
    }
    await fullDisk(campaign, job, check, kind);
  }
});

/** A job is killed as often as it takes to its end; then it is begun anew, until there were enough kills. */
async function kill(campaign, name, begin, check) {
  const kills = campaign.number('kills');
  const began = performance.now();
  const whole = await begin('--overwrite').ended;
  const milliseconds = performance.now() - began;
  campaign.say(`${name}: a run takes ${Math.round(milliseconds)} ms`);
  if (whole.code !== 0) return campaign.violation(`${name}: the first run failed`, ending(whole));
  await check('a run that nobody killed');
  let killed = 0;
  let jobs = 1;
  let how = '--overwrite';
  while (killed < kills && campaign.goesOn) {
    const { child, ended } = begin(how);
    how = '--resume';
    await sleep(campaign.random.whole(0, Math.round(milliseconds)));
    child.kill('SIGKILL');
    const result = await ended;
    if (result.signal === 'SIGKILL') {
      killed += 1;
      campaign.count('killed');
      continue;
    }
    campaign.say(`${name}: ${killed} kills, ${jobs} jobs at their end`);
    if (result.code !== 0) campaign.violation(`${name}: a run failed before it was killed`, ending(result));
    await check(`a run that ended after ${killed} kills`);
    jobs += 1;
    how = '--overwrite';
  }
  const last = await begin('--resume').ended;
  if (last.code !== 0) campaign.violation(`${name}: the last run failed`, ending(last));
  await check('at the end');
  campaign.set(name, `${killed} kills, ${jobs} jobs, ${Math.round(milliseconds)} ms a run`);
}

/** The server is killed in mid-run, and is back later: the job waits, says so, and ends well. */
async function goAway(campaign, { server, ask }, begin, check) {
  const { child, ended } = begin('--overwrite');
  const written = () => ask('select count(*) from "away"').then(([[count]]) => Number(count));
  // One that is away as a job begins is not waited for as long.
  while (child.exitCode === null && !((await written().catch(() => 0)) > 0)) await sleep(200);
  await server.end('SIGKILL');
  await sleep(campaign.number('away') * 1000);
  await server.begin();
  const result = await ended;
  if (result.code !== 0 || !/tried again for up to 300 s[\s\S]*is back/.test(result.stderr))
    campaign.violation('the server was away', ending(result));
  await check('the server was away');
  campaign.set('away', `${campaign.number('away')} s, exit ${result.code}`);
}

/** The disk of the database is full in mid-run: exit 2; with room again the job goes on. */
async function fullDisk(campaign, job, check, kind) {
  // A part of what the rows need; DuckDB's blocks are large.
  const room = campaign.number('rows') * 100;
  const size = { Postgres: '100m', DuckDB: '1m' }[kind.name] ?? room;
  // Not in the campaign's folder, which is its user's alone: the server is another's.
  const folder = mkdtempSync(join(tmpdir(), 'spillway-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size},mode=1777`, 'none', folder]);
  } catch {
    rmdirSync(folder);
    return campaign.set(`full disk: ${kind.name}`, 'skipped: nothing can be mounted');
  }
  const usual = process.env.TMPDIR;
  try {
    process.env.TMPDIR = folder;
    const opened = await kind.open((name) => join(folder, name));
    try {
      const ballast = join(folder, 'ballast');
      // What a server has left is taken up to a part of what the table needs.
      if (opened.server) {
        // A server's first session writes files of its own.
        await opened.ask('select 1');
        const { bavail, bsize } = statfsSync(folder);
        writeFileSync(ballast, Buffer.alloc(Math.max(0, bavail * bsize - room)));
      }
      const into = [
        'sql:full',
        '--output-database',
        opened.database,
        '--output-journal',
        join(campaign.folder, `${kind.name}-full`),
      ];
      const full = await job(into, ['--resume', '--database-wait', '5']).ended;
      if (full.code !== 2) campaign.violation(`${kind.name}: the disk was full`, ending(full));
      if (opened.server) rmSync(ballast);
      else execFileSync('mount', ['-o', 'remount,size=100m', folder]);
      await opened.server?.begin();
      const before = await opened.ask('select count(*), count(distinct "index") from "full"').catch(() => [[0, 0]]);
      if (Number(before[0][0]) !== Number(before[0][1]))
        campaign.violation(`${kind.name}: rows stand twice on a full disk`);
      const again = await job(into, ['--resume']).ended;
      if (again.code !== 0) campaign.violation(`${kind.name}: it did not go on with room`, ending(again));
      await check(opened, 'full', 'after a full disk');
      campaign.set(
        `full disk: ${kind.name}`,
        `exit ${full.code} with ${before[0][0]} rows, "${full.stderr.trim().split('\n').at(-1).slice(-160)}"; then exit ${again.code}`,
      );
    } finally {
      await opened[Symbol.asyncDispose]();
    }
  } finally {
    if (usual === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = usual;
    execFileSync('umount', ['-l', folder]);
    rmdirSync(folder);
  }
}
