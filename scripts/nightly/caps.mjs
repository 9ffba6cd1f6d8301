// Caps on memory: the rows that are answered only grow with the cap, their answers are the same under each, and no
// policy takes a process over its cap.
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { MemoryCap } from '../../bench/lib/memoryCap.mjs';
import { howItEnded, runProcess } from '../../bench/lib/runProcess.mjs';
import { runCampaign } from './lib/Campaign.mjs';
import { MAIN } from './lib/commandLine.mjs';
import { needBuild, realModel, TINY } from './lib/models.mjs';

const USAGE = `Two parts, over a tiny model and the small real one (versions 1 and 2 of cgroups; needs root, Linux). In the first, the same rows, short and long, run under rising
values of \`--cpu-memory\`, from one that is refused: every row that a smaller cap answers has the same answer under each larger one. In the second, policies, jobs and
caps are drawn, and each runs in a cgroup of its cap: refused with a budget, or done with no more resident than the cap, never killed.
  --step MIB      between caps of the first part (default 5)
  --to MIB        last cap of the first part (default 400)
  --rows N        of the first part (default 60)
  --draws N       runs of the second part (default 200)
  --only PART     rows or policies`;

const MIB = 2 ** 20;
const LIMIT_SECONDS = 600;
const ADVICE = /--cpu-memory (\d+)/;
/** A group is charged what its processes' page tables and sockets take in the kernel, too, which is resident nowhere. */
const KERNEL_BYTES = 8 * MIB;

function writeRows(file, random, rows, lengths) {
  const line = (_, id) =>
    JSON.stringify({
      id,
      tokens: Array.from({ length: random.whole(...random.pick(lengths)) }, () => random.whole(3, 250)),
    });
  writeFileSync(file, `${Array.from({ length: rows }, line).join('\n')}\n`);
  return file;
}

async function generate(campaign, model, input, capBytes, more, group) {
  const [output, stats] = [join(campaign.folder, 'out.jsonl'), join(campaign.folder, 'stats.json')];
  for (const file of [output, `${output}.spillway`, stats]) rmSync(file, { recursive: true, force: true });
  const args = ['generate', '--model', model, '--input', input, '--output', output, '--overwrite', '--stats', stats];
  const command = [...args, '--disk', join(campaign.folder, 'disk'), '--cpu-memory', String(capBytes), ...more];
  const result = await runProcess(process.execPath, [MAIN, ...command], {
    signal: campaign.signal,
    timeLimitSeconds: LIMIT_SECONDS,
    cgroup: group?.folder,
    env: { XDG_CACHE_HOME: join(campaign.folder, 'cache') },
  });
  const read = (file) => {
    try {
      return readFileSync(file, 'utf8');
    } catch {
      return '';
    }
  };
  const statistics = read(stats);
  return {
    ...result,
    command,
    rows: read(output)
      .split('\n')
      .filter(Boolean)
      .map((text) => JSON.parse(text)),
    residentBytes: statistics === '' ? undefined : JSON.parse(statistics).residentPeakBytes,
  };
}

/** Caps from the smallest that is not refused. */
async function risingCaps(campaign, model, lengths, more) {
  const input = writeRows(join(campaign.folder, 'rows.jsonl'), campaign.random, campaign.number('rows'), lengths);
  const answered = new Map();
  let begins = false;
  for (let cap = 100; cap <= campaign.number('to'); cap += campaign.number('step')) {
    if (!campaign.goesOn) return;
    const result = await generate(campaign, model, input, cap * MIB, ['--max-new-tokens', '2', ...more]);
    const what = `${more.join(' ') || 'auto'}, ${cap} MiB`;
    campaign.count('runs');
    if (result.code === 3 && !begins && ADVICE.test(result.stderr)) {
      campaign.count('refused');
      // Up to shortly below what is advised nothing else can be heard.
      const advised = Number(ADVICE.exec(result.stderr)[1]) / MIB;
      cap += Math.max(0, Math.floor((advised - cap) / campaign.number('step')) - 2) * campaign.number('step');
      continue;
    }
    begins = true;
    if (result.code !== 0 && result.code !== 4) {
      campaign.violation(`${what}: ${howItEnded(result, LIMIT_SECONDS)}`, result.stderr);
      continue;
    }
    const now = new Map(result.rows.filter(({ error }) => !error).map(({ id, tokens }) => [id, String(tokens)]));
    const lost = [...answered.keys()].filter((id) => !now.has(id));
    if (lost.length > 0) campaign.violation(`${what}: ${lost.length} rows that a smaller cap answers are errors`);
    const other = [...now].filter(([id, tokens]) => (answered.get(id) ?? tokens) !== tokens);
    if (other.length > 0)
      campaign.violation(`${what}: ${other.length} rows have other answers than under a smaller cap`);
    if (result.residentBytes > cap * MIB)
      campaign.violation(`${what}: ${(result.residentBytes / MIB).toFixed(1)} MiB were resident`);
    for (const [id, tokens] of now) answered.set(id, tokens);
    campaign.say(`${what}: ${now.size} of ${result.rows.length} rows, ${(result.residentBytes / MIB).toFixed(0)} MiB`);
  }
}

function drawnPolicy(random) {
  const shares = () => {
    const disk = random.pick([0, 0, 0, 0.25, 0.5, 1]);
    return { cpu: 1 - disk, disk };
  };
  return {
    schedule: random.pick(['row', 'zigzag', 'diagonal']),
    batchSize: random.pick([1, 2, 7, 16, 32, 64, 100, 256]),
    batches: random.pick([1, 1, 2, 4, 6, 12]),
    weights: shares(),
    cache: shares(),
    activations: shares(),
    compressCache: random.pick(['none', 'none', '8bit', '4bit']),
    ...(random.chance(0.3) && { threads: random.pick([1, 2, 8, 32]) }),
    ...(random.chance(0.3) && { tokensPerSquare: random.pick([256, 512, 1024]) }),
  };
}

async function drawnRun(campaign, models) {
  const { random } = campaign;
  const { model, least, lengths } = random.pick(models);
  const policy = join(campaign.folder, 'policy.json');
  const drawn = drawnPolicy(random);
  writeFileSync(policy, JSON.stringify(drawn));
  const input = writeRows(join(campaign.folder, 'drawn.jsonl'), random, random.pick([8, 40, 96]), [
    random.pick(lengths),
  ]);
  const capBytes = random.whole(least, least + 120) * MIB;
  const group = new MemoryCap(capBytes + KERNEL_BYTES);
  try {
    const more = ['--policy', policy, '--max-new-tokens', String(random.pick([1, 16, 64]))];
    const result = await generate(campaign, model, input, capBytes, more, group);
    const { oomKills } = group.figures();
    campaign.count('policies');
    const what = `${JSON.stringify(drawn)} under ${capBytes / MIB} MiB`;
    if (result.code === 3 && ADVICE.test(result.stderr)) return campaign.count('policies refused');
    if (oomKills > 0 || (result.code !== 0 && result.code !== 4))
      return campaign.violation(
        `${what}: ${oomKills} kills, ${howItEnded(result, LIMIT_SECONDS)}`,
        result.command.join(' '),
      );
    const over = result.residentBytes - capBytes;
    campaign.set(
      'nearest to a cap, MiB',
      Math.round(Math.min(campaign.figure('nearest to a cap, MiB') || 999, -over / MIB)),
    );
    if (over > 0)
      campaign.violation(
        `${what}: ${(over / MIB).toFixed(1)} MiB more than the cap were resident`,
        result.command.join(' '),
      );
    return campaign.count('policies done');
  } finally {
    group.close();
  }
}

await runCampaign(
  {
    usage: USAGE,
    options: {
      step: { type: 'string', default: '5' },
      to: { type: 'string', default: '400' },
      rows: { type: 'string', default: '60' },
      draws: { type: 'string', default: '200' },
      only: { type: 'string' },
    },
    minutes: 90,
    done: 'looked at',
  },
  async (campaign) => {
    needBuild();
    const real = await realModel(campaign);
    const { only } = campaign.values;
    const models = [
      {
        model: TINY,
        least: 150,
        lengths: [
          [1, 40],
          [20, 100],
        ],
      },
      ...(real === undefined
        ? []
        : [
            {
              model: real,
              least: 240,
              lengths: [
                [5, 60],
                [50, 300],
                [300, 700],
              ],
            },
          ]),
    ];
    if (only !== 'rows') {
      new MemoryCap(undefined).close();
      for (let draw = 0; draw < campaign.number('draws') && campaign.goesOn; draw++) {
        await drawnRun(campaign, models);
        campaign.count('looked at');
        if (draw % 20 === 19) campaign.say(`${draw + 1} policies, ${campaign.violations} violations`);
      }
    }
    if (only === 'policies') return;
    for (const { model } of models) {
      for (const more of [[], ['--policy', 'default'], ['--batch-size', '16']]) {
        const lengths =
          model === TINY
            ? [
                [1, 60],
                [100, 126],
              ]
            : [
                [50, 300],
                [500, 2000],
              ];
        await risingCaps(campaign, model, lengths, more);
        campaign.count('looked at');
      }
    }
  },
);
