// Answers as a stage of Apache Spark and of Ray Data, under kills: what comes out is one machine's table.
import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCampaign } from './lib/Campaign.mjs';
import { ending, MAIN, ROOT, run } from './lib/commandLine.mjs';
import { needBuild, tinyTextModel, writeStreamingPolicy } from './lib/models.mjs';

const USAGE = `Runs examples/cluster/spark.py (local-cluster: two executors, each a JVM) and examples/cluster/ray_data.py (two actors) over drawn tables with a tiny model, and draws kills (-9): of a process of
spillway, of the Python worker or actor that it belongs to, of Spark's executor. What comes out has to be the rows of one machine, each once, columns and errors included, in order where that was asked for; each
partition, or actor, has to have opened the model once; what a killed worker leaves has to end; of weights that stream there has to be one repacked store. Exit code 77 where Java or the packages are missing.
  --python PATH   Python that has pyspark and pyarrow, or ray[data] and pyarrow, or all (default python3)
  --scenarios N   so many (default 12)
  --rows N        of a table (default 240)
  --only NAME     spark or ray`;

const EXAMPLES = join(ROOT, 'examples/cluster');
const TABLES = join(ROOT, 'scripts/nightly/lib/clusterTable.py');
const WORKERS = 2;
const HANG_SECONDS = 600;
/** What a worker that was killed leaves may take so long to end, on a machine that is busy. */
const ORPHAN_SECONDS = 10;
const SPARK = ['ui.enabled=false', 'executor.memory=512m', 'driver.host=127.0.0.1', 'driver.bindAddress=127.0.0.1'];
const VICTIMS = { spark: ['spillway', 'worker', 'executor'], ray: ['spillway', 'worker'] };

const ENGINES = {
  spark: {
    needs: 'import pyspark, pyarrow',
    /** @returns program, arguments and environment */
    begin(campaign, python, { partitions, order, halves }, paths, command) {
      return {
        program: join(sparkHome(campaign, python), 'bin/spark-submit'),
        args: [
          ...['--master', `local-cluster[${WORKERS},1,512]`],
          // Spark's own snappy is not on every machine.
          ...[...SPARK, 'sql.parquet.compression.codec=uncompressed'].flatMap((each) => ['--conf', `spark.${each}`]),
          ...['--py-files', join(EXAMPLES, 'spillway_rows.py'), join(EXAMPLES, 'spark.py')],
          ...['--input', paths.input, '--output', paths.output, '--send', 'question'],
          ...['--partitions', String(partitions)],
          ...(halves ? ['--order-by', 'half'] : order ? ['--order-by', 'nr'] : []),
          ...['--', ...command],
        ],
        env: { SPARK_HOME: sparkHome(campaign, python), PYSPARK_PYTHON: python, PYSPARK_DRIVER_PYTHON: python },
      };
    },
    // Of two values two of all partitions have rows.
    opened: ({ partitions, halves }) => (halves ? Math.min(2, partitions) : partitions),
  },
  ray: {
    needs: 'import ray.data, pyarrow',
    begin(campaign, python, { order, batchSize }, paths, command) {
      return {
        program: python,
        args: [
          join(EXAMPLES, 'ray_data.py'),
          ...['--input', paths.input, '--output', paths.output, '--send', 'question'],
          // Half a processor each: where there are two, one is left to read with.
          ...['--actors', String(WORKERS), '--cpus', '0.5', '--batch-size', String(batchSize)],
          ...(order ? ['--preserve-order'] : []),
          ...['--', ...command],
        ],
        env: { RAY_USAGE_STATS_ENABLED: '0' },
      };
    },
    opened: () => WORKERS,
  },
};

/** Spark as it is installed, but for the folder that its workers write into. */
function sparkHome(campaign, python) {
  const home = join(campaign.folder, 'spark');
  if (existsSync(home)) return home;
  const { stdout } = spawnSync(python, ['-c', 'import pyspark; print(pyspark.__path__[0])'], { encoding: 'utf8' });
  mkdirSync(home);
  for (const name of readdirSync(stdout.trim()))
    if (name !== 'work') symlinkSync(join(stdout.trim(), name), join(home, name));
  return home;
}

/** Drawn beforehand, so that scenarios are the same however long each takes. */
function draw({ random }, number, names) {
  const name = names[number % names.length];
  const first = number < names.length;
  const kills = first ? 0 : random.whole(1, 2);
  return {
    number,
    name,
    order: random.chance(0.5),
    streamed: random.chance(0.4),
    reuse: !first && random.chance(0.3),
    // Where nothing is killed it shows how often the model is opened, and that partitions without rows do not.
    halves: name === 'spark' && (first || random.chance(0.2)),
    partitions: first ? 4 : random.whole(2, 5),
    batchSize: random.pick([10, 30, 64]),
    kills: Array.from({ length: kills }, () => ({
      wait: random.whole(50, 2500),
      which: random.next(),
      victim: random.pick(VICTIMS[name]),
    })),
  };
}

const words = (file) => readFileSync(file, 'utf8');
const lines = (file) => (existsSync(file) ? words(file).split('\n').filter(Boolean) : []);

/** The state of a process and its parent; undefined for one that is gone or only waits to be taken note of. */
function processOf(pid) {
  try {
    const [, state, parent] = /^\d+ \(.*\) (\S) (\d+)/s.exec(words(`/proc/${pid}/stat`)) ?? [];
    return state === 'Z' ? undefined : { parent: Number(parent) };
  } catch {
    return undefined;
  }
}

/** Whether a number still is that of a process of spillway, which all say in which folder they work. */
const isAtWork = (pid, folder) => processOf(pid) !== undefined && commandOf(pid).includes(join(folder, 'disk'));

function commandOf(pid) {
  try {
    return words(`/proc/${pid}/cmdline`);
  } catch {
    return '';
  }
}

/** The process that a victim's name means, seen from one of spillway. */
function pidOf(victim, spillway) {
  if (victim === 'spillway') return spillway;
  const worker = processOf(spillway)?.parent;
  if (victim === 'worker') return worker;
  for (let pid = worker; pid !== undefined && pid > 1; pid = processOf(pid)?.parent)
    if (commandOf(pid).includes('CoarseGrainedExecutorBackend')) return pid;
  return undefined;
}

/** Starts an engine in a group of its own, so that all of it can be ended. */
function startEngine({ program, args, env }, log) {
  const child = spawn(program, args, {
    detached: true,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = [];
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => output.push(text));
  const end = () => {
    try {
      process.kill(-child.pid, 'SIGKILL');
    } catch {
      // All of it has ended.
    }
  };
  const hang = setTimeout(end, HANG_SECONDS * 1000);
  const ended = new Promise((resolve) => {
    child.once('error', (error) => output.push(error.message));
    child.once('close', (code, signal) => {
      clearTimeout(hang);
      writeFileSync(log, output.join(''));
      resolve({ code, signal, stderr: output.join('') });
    });
  });
  return { ended, end };
}

/** @returns which of them are still there when they have had time to end */
async function outliving(pids, folder) {
  const until = performance.now() + ORPHAN_SECONDS * 1000;
  while (pids.some((pid) => isAtWork(pid, folder)) && performance.now() < until) await sleep(50);
  return pids.filter((pid) => isAtWork(pid, folder));
}

/** Kills what was drawn, while the engine is at work. */
async function killAll(campaign, name, { kills }, { folder, starts }, isOver, tied) {
  for (const { wait, which, victim } of kills) {
    // The first one, and the one that came in the place of whatever was killed.
    while (!isOver() && !lines(starts).some((pid) => isAtWork(pid, folder))) await sleep(20);
    await sleep(wait);
    const alive = lines(starts)
      .map(Number)
      .filter((each) => isAtWork(each, folder));
    const spillway = alive[Math.floor(which * alive.length)];
    const pid = spillway === undefined || isOver() ? undefined : pidOf(victim, spillway);
    if (pid === undefined) {
      campaign.count('kills too late');
      continue;
    }
    process.kill(pid, 'SIGKILL');
    campaign.count(`${victim} killed`);
    const left = await outliving([spillway], folder);
    if (tied && left.length > 0)
      campaign.violation(`${name}: spillway (${left}) outlived its ${victim}, which was killed`);
  }
}

async function scenarioRun(campaign, scenario, python, model, tied) {
  const { number, name: engineName, order, streamed, reuse, halves, kills } = scenario;
  const engine = ENGINES[engineName];
  const victims = kills.map(({ victim }) => victim).join('+') || 'no kill';
  const settings = Object.entries({ streamed, reuse, order, halves }).flatMap(([each, is]) =>
    is ? [`, ${each}`] : [],
  );
  const name = `${number} (${engineName}, ${victims}${settings.join('')})`;
  const folder = join(campaign.folder, String(number));
  const paths = { input: join(folder, 'in'), output: join(folder, 'out') };
  const [whole, starts, program] = ['whole.parquet', 'starts', 'spillway'].map((file) => join(folder, file));
  mkdirSync(paths.input, { recursive: true });
  const made = spawnSync(python, [TABLES, 'make', paths.input, campaign.values.rows, String(campaign.seed + number)]);
  if (made.status !== 0) return campaign.violation(`${name}: the table`, made.stderr);
  // Tells which process it is: node takes the place of the shell.
  writeFileSync(program, `#!/bin/sh\necho $$ >> '${starts}'\nexec '${process.execPath}' '${MAIN}' "$@"\n`);
  chmodSync(program, 0o755);
  const disk = join(folder, 'disk');
  const flags = [
    ...[
      '--model',
      model,
      '--columns',
      'prompt=question',
      '--max-new-tokens',
      '60',
      '--ignore-eos',
      '--seed',
      String(number),
    ],
    // Of two workers on a machine each is told what it may take.
    ...['--temperature', '0.8', '--cpu-memory', '400MiB', '--threads', '1', '--batch-size', '1', '--disk', disk],
    ...(streamed ? ['--policy', writeStreamingPolicy(join(folder, 'policy.json'), { batchSize: 1 })] : []),
  ];
  const reference = await run(['generate', ...flags, '--input', join(paths.input, '*.parquet'), '--output', whole]);
  if (reference.code !== 4) return campaign.violation(`${name}: the reference`, ending(reference));
  // Two workers that want the store at once are to make one.
  if (streamed) rmSync(disk, { recursive: true });

  const command = [program, 'generate', ...flags, ...(reuse ? ['--reuse', join(folder, 'answers.reuse')] : [])];
  const log = join(folder, 'log');
  const running = startEngine(engine.begin(campaign, python, scenario, paths, command), log);
  let result;
  void running.ended.then((ended) => (result = ended));
  const abort = () => running.end();
  campaign.signal.addEventListener('abort', abort);
  try {
    await killAll(campaign, name, scenario, { folder, starts }, () => result !== undefined, tied);
    await running.ended;
  } finally {
    campaign.signal.removeEventListener('abort', abort);
    running.end();
  }
  if (campaign.signal.aborted) return undefined;
  if (result.code !== 0) return campaign.violation(`${name}: the engine (${log})`, ending({ ...result, hung: false }));
  const ordered = order && !halves ? 'ordered' : 'any';
  const compared = spawnSync(python, [TABLES, 'compare', whole, paths.output, ordered], { encoding: 'utf8' });
  if (compared.status !== 0) return campaign.violation(`${name}: comparing`, compared.stderr);
  const { rows, errors, different } = JSON.parse(compared.stdout);
  if (different.length > 0) campaign.violation(`${name}: not one machine's rows`, different.join('\n'));
  const opened = lines(starts).length;
  if (kills.length === 0 && opened !== engine.opened(scenario))
    campaign.violation(`${name}: the model was opened ${opened} times, expected ${engine.opened(scenario)}`);
  const left = await outliving(lines(starts).map(Number), folder);
  if (left.length > 0) campaign.violation(`${name}: processes of spillway are left: ${left}`);
  const stores = streamed ? readdirSync(disk).filter((file) => file.endsWith('.weights')).length : 1;
  if (stores !== 1) campaign.violation(`${name}: ${stores} repacked stores, expected 1`, disk);
  campaign.count('scenarios');
  campaign.count(engineName);
  campaign.count('rows', rows);
  campaign.count('rows with an error', errors);
  campaign.count('processes', opened);
  campaign.say(`${name}: ${rows} rows, ${opened} processes, ${campaign.violations} violations`);
  if (campaign.violations === 0) rmSync(folder, { recursive: true, force: true });
  return undefined;
}

const options = {
  python: { type: 'string', default: 'python3' },
  scenarios: { type: 'string', default: '12' },
  rows: { type: 'string', default: '240' },
  only: { type: 'string' },
};
await runCampaign({ usage: USAGE, options, minutes: 60, done: 'scenarios' }, async (campaign) => {
  needBuild();
  const there = (program, ...args) => spawnSync(program, args).status === 0;
  // As the program that it is, since engines start it elsewhere.
  const { python: asked, only = '' } = campaign.values;
  const { stdout } = spawnSync(asked, ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' });
  const python = stdout?.trim() || asked;
  const names = Object.keys(ENGINES).filter((name) => {
    const missing = !there(python, '-c', ENGINES[name].needs)
      ? `${ENGINES[name].needs} fails with ${asked}`
      : name === 'spark' && !there('java', '-version')
        ? 'no Java'
        : undefined;
    if (missing !== undefined) campaign.set(name, `skipped: ${missing}`);
    return missing === undefined && name.includes(only);
  });
  if (names.length === 0) {
    process.exitCode = 77;
    return;
  }
  const tied = there('setpriv', '--version');
  const model = await tinyTextModel(campaign);
  const scenarios = Array.from({ length: campaign.number('scenarios') }, (_, at) => draw(campaign, at, names));
  for (const scenario of scenarios) {
    if (!campaign.goesOn) break;
    await scenarioRun(campaign, scenario, python, model, tied);
  }
});
