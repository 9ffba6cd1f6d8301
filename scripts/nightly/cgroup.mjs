// Commands in memory cgroups, from too small to large enough: each ends with its work done or with a refusal that names
// a budget, never killed.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { MemoryCap } from '../../bench/lib/memoryCap.mjs';
import { howItEnded, runProcess } from '../../bench/lib/runProcess.mjs';
import { runCampaign } from './lib/Campaign.mjs';
import { MAIN } from './lib/commandLine.mjs';
import { needBuild, realModel, TINY, tinyTextModel, writeTextRows, writeTokenRows } from './lib/models.mjs';

const USAGE = `Runs \`generate\` and \`perplexity\` in memory cgroups (versions 1 and 2; needs root, Linux) from 150 MiB up, without swap: with the plan, the default and with
caps of their own. Each run has to end with 0, with 3 and a budget by name, or with 2 or 4 where a budget is no matter; never killed by the kernel, and never by running
out of JavaScript's heap. What a refusal advises has to work: a cap that is the advice is tried in the same group.
  --from MIB --to MIB --step MIB   of the groups' limits (default 150, 470, 16)
  --only NAME                      cases whose name has this in it`;

const MIB = 2 ** 20;
const LIMIT_SECONDS = 240;
const ADVICE = /--cpu-memory (\d+)/;

/** Each: what runs, given the limit of its group and a folder. */
async function cases(campaign) {
  const real = await realModel(campaign);
  const text = await tinyTextModel(campaign);
  const [rows, lines, prose] = [
    join(campaign.folder, 'rows.jsonl'),
    join(campaign.folder, 'lines.txt'),
    join(campaign.folder, 'prose.txt'),
  ];
  writeTokenRows(rows, 300);
  writeTextRows(lines, 24);
  writeFileSync(prose, 'What is so is so, and what is not is not. '.repeat(60));
  const generate = (model, input, more) => (limit, out) => [
    'generate',
    '--model',
    model,
    '--input',
    input,
    '--output',
    join(out, 'out.jsonl'),
    '--disk',
    join(campaign.folder, 'disk'),
    '--max-new-tokens',
    '12',
    ...more(limit),
  ];
  const memory = {
    auto: () => [],
    default: () => ['--policy', 'default'],
    'cap of the group': (limit) => ['--cpu-memory', String(limit)],
    'cap of 0.85': (limit) => ['--cpu-memory', String(Math.floor(limit * 0.85))],
    'one row': () => ['--batch-size', '1', '--batches', '1'],
    'many rows': () => ['--batch-size', '256', '--batches', '4'],
  };
  const scored = (model) => (_, __) => ['perplexity', '--model', model, '--text', prose, '--window', '64', '--json'];
  const all = [];
  for (const [kind, more] of Object.entries(memory)) {
    all.push({ name: `tiny ${kind}`, args: generate(TINY, rows, more) });
    if (real !== undefined)
      all.push({
        name: `real ${kind}`,
        args: generate(real, lines, (limit) => ['--input-format', 'text', ...more(limit)]),
      });
  }
  all.push(
    { name: 'tiny perplexity', args: scored(text) },
    { name: 'tiny text', args: generate(text, lines, () => ['--input-format', 'text']) },
  );
  if (real !== undefined) all.push({ name: 'real perplexity', args: scored(real) });
  return all.filter(({ name }) => name.includes(campaign.values.only ?? ''));
}

async function inGroup(campaign, limit, args) {
  const cap = new MemoryCap(limit);
  try {
    const result = await runProcess(process.execPath, [MAIN, ...args], {
      signal: campaign.signal,
      timeLimitSeconds: LIMIT_SECONDS,
      cgroup: cap.folder,
      env: { XDG_CACHE_HOME: join(campaign.folder, 'cache') },
    });
    return { ...result, ...cap.figures() };
  } finally {
    cap.close();
  }
}

/** @returns done, refused, or what must not be */
function judged({ code, signal, oomKills, timedOut, stderr }) {
  if (timedOut) return 'hung';
  if (oomKills > 0) return 'killed by the kernel for memory';
  if (signal !== null) return `ended by ${signal}`;
  if (code === 0) return 'done';
  // What the process takes before it knows its options is no budget of the user's: it may say so, too.
  if (code === 3 && ADVICE.test(stderr)) return 'refused';
  return `exit ${code}`;
}

async function tryOne(campaign, { name, args }, limit) {
  const out = join(campaign.folder, 'out');
  const fresh = () => {
    rmSync(out, { recursive: true, force: true });
    rmSync(join(campaign.folder, 'disk'), { recursive: true, force: true });
    return out;
  };
  const what = `${name} in ${limit / MIB} MiB`;
  const command = args(limit, prepared(fresh()));
  const result = await inGroup(campaign, limit, command);
  const verdict = judged(result);
  campaign.count('runs');
  if (!['done', 'refused'].includes(verdict))
    return campaign.violation(
      `${what}: ${verdict}`,
      `${howItEnded(result, LIMIT_SECONDS)}\npeak ${Math.round((result.peakBytes ?? 0) / MIB)} MiB, ${command.join(' ')}`,
    );
  campaign.count(verdict);
  const advised = Number(ADVICE.exec(result.stderr)?.[1]);
  if (verdict !== 'refused' || command.includes('--policy')) return undefined;
  return followAdvice(campaign, what, command, advised, fresh);
}

/**
 * A group with what was advised, and that cap: a refusal that gives a number must hold it. The group needs what a
 * process's page tables and the kernel take, too.
 */
async function followAdvice(campaign, what, command, advised, fresh) {
  const at = command.indexOf('--cpu-memory');
  const plain = at === -1 ? command : command.toSpliced(at, 2);
  prepared(fresh());
  const group = Math.ceil((advised * 1.1) / MIB) * MIB;
  const result = await inGroup(campaign, group, [...plain, '--cpu-memory', String(advised)]);
  const verdict = judged(result);
  campaign.count('advice followed');
  if (verdict !== 'done')
    campaign.violation(
      `${what}: was told that ${advised} bytes work, and in a group of ${group / MIB} MiB they do not: ${verdict}`,
      `${howItEnded(result, LIMIT_SECONDS)}\npeak ${Math.round((result.peakBytes ?? 0) / MIB)} MiB`,
    );
}

function prepared(folder) {
  mkdirSync(folder, { recursive: true });
  return folder;
}

await runCampaign(
  {
    usage: USAGE,
    options: {
      from: { type: 'string', default: '150' },
      to: { type: 'string', default: '470' },
      step: { type: 'string', default: '16' },
      only: { type: 'string' },
    },
    minutes: 60,
    done: 'runs',
  },
  async (campaign) => {
    needBuild();
    new MemoryCap(undefined).close();
    const all = await cases(campaign);
    for (let limit = campaign.number('from'); limit <= campaign.number('to'); limit += campaign.number('step')) {
      for (const one of all) {
        if (!campaign.goesOn) return;
        await tryOne(campaign, one, limit * MIB);
      }
      campaign.say(
        `${limit} MiB: ${campaign.figure('done')} done, ${campaign.figure('refused')} refused, ${campaign.violations} violations`,
      );
    }
  },
);
