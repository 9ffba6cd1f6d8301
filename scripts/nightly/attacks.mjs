// What single rows and tables can do to a process, each in one of its own, under caps from the smallest on: none ends
// it, takes it over its cap, or keeps the event loop; and the rows beside it are answered.
import { createReadStream, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { howItEnded } from '../../bench/lib/runProcess.mjs';
import { ATTACKS } from './lib/attacks.mjs';
import { runCampaign } from './lib/Campaign.mjs';
import { BESIDE, cappedRun, judgeRun, MIB } from './lib/cappedRun.mjs';
import { needBuild, tinyTextModel } from './lib/models.mjs';

const USAGE = `Runs \`generate\` over each attack of scripts/nightly/lib/attacks.mjs in a memory cgroup of --cpu-memory and 32 MiB (root, Linux; without one the peak of what is resident is looked
at), from the smallest budget that a refusal names to 2 GiB: it has to end with 0 or 4 (of a table with too many columns, or an output that nobody of ours wrote, with 2), below its cap, every
honest row answered, and with no turn of the event loop of more than 100 ms of processor time.
  --caps A,B    MiB beside the smallest (default 400,1024,2048)
  --only WORDS  attacks whose name has these in it
  --table       prints a line an attack and cap`;

const LIMIT_SECONDS = 300;
const ADVICE = /--cpu-memory (\d+)/;

async function modelOf(campaign, { parts, config, template }) {
  const model = await tinyTextModel(campaign);
  const change = (name, changes) => {
    const file = join(model, name);
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), ...changes }));
  };
  if (parts) change('tokenizer.json', parts);
  if (config) change('config.json', config);
  if (template) change('tokenizer_config.json', { chat_template: template });
  return model;
}

/** Honest rows that have been answered. */
async function answered(file) {
  let count = 0;
  if (!existsSync(file)) return 0;
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Infinity }))
    if (line.slice(0, 300).includes('"honest-') && !line.includes('"finishReason":"error"')) count += 1;
  return count;
}

async function runOnce(campaign, attack, model, input, capBytes) {
  const [output, turns] = [join(campaign.folder, 'out.jsonl'), join(campaign.folder, 'turns.json')];
  const run = (more) =>
    cappedRun(campaign, {
      args: [
        ...['generate', '--model', model, '--input', input, '--output', output],
        ...['--cpu-memory', String(capBytes), '--learn', 'off'],
        ...(attack.flags?.includes('--max-new-tokens') ? [] : ['--max-new-tokens', '3']),
        ...(attack.flags ?? []),
        ...more,
      ],
      turns,
      // Below what the program itself takes there is nothing but the refusal to hear.
      groupBytes: capBytes === MIB ? undefined : capBytes + BESIDE,
      timeLimitSeconds: LIMIT_SECONDS,
    });
  for (const file of [output, `${output}.job.json`, turns]) rmSync(file, { recursive: true, force: true });
  let result = await run(['--overwrite']);
  if (attack.resume && result.code === 0) {
    writeFileSync(output, attack.resume());
    result = await run(['--resume']);
  }
  return { ...result, honest: await answered(output) };
}

async function underCaps(campaign, attack) {
  const folder = join(campaign.folder, 'input');
  mkdirSync(folder);
  const model = await modelOf(campaign, attack);
  const input = await attack.write(folder);
  let cap = MIB;
  const others = campaign.values.caps.split(',').map((mib) => Number(mib) * MIB);
  for (let tries = 0; campaign.goesOn; tries += 1) {
    const result = await runOnce(campaign, attack, model, input, cap);
    if (campaign.signal.aborted) break;
    const advised = Number(ADVICE.exec(result.stderr)?.[1] ?? 0);
    if (result.code === 3 && advised > cap && tries < 5) {
      // Up to what a refusal names, which has to do.
      cap = advised;
      continue;
    }
    // What is refused for itself is so without a budget.
    if (cap > MIB) judge(campaign, attack, cap, result);
    const next = others.find((bytes) => bytes > cap);
    if (next === undefined) break;
    cap = next;
  }
  rmSync(folder, { recursive: true });
  rmSync(model, { recursive: true });
}

function judge(campaign, attack, cap, result) {
  const peak = Math.ceil(result.peakResidentBytes / MIB);
  const what = `${attack.name}, ${Math.ceil(cap / MIB)} MiB`;
  const wrong = (words) =>
    campaign.violation(
      `${what}: ${words}`,
      `${howItEnded(result, LIMIT_SECONDS)}\n${result.args.join(' ').slice(0, 600)}`,
    );
  campaign.set(
    'nearest to a cap, MiB',
    Math.min(campaign.figure('nearest to a cap, MiB') || 9999, Math.round(cap / MIB) - peak),
  );
  if (campaign.values.table)
    process.stdout.write(
      `${what}: ended with ${result.signal ?? result.code}, ${peak} MiB, ${result.longestTurn.longestTurnMs} ms, ${result.honest} of ${attack.honest}, ${result.wallSeconds.toFixed(1)} s\n`,
    );
  judgeRun(result, { capBytes: cap, codes: [0, 4, ...(attack.codes ?? [])], campaign, wrong });
  if (result.honest < attack.honest) wrong(`${result.honest} of ${attack.honest} honest rows are answered`);
}

const options = {
  caps: { type: 'string', default: '400,1024,2048' },
  only: { type: 'string', default: '' },
  table: { type: 'boolean', default: false },
};
await runCampaign({ usage: USAGE, options, minutes: 120, done: 'processes' }, async (campaign) => {
  needBuild();
  for (const attack of ATTACKS) {
    if (!attack.name.includes(campaign.values.only)) continue;
    if (!campaign.goesOn) return;
    await underCaps(campaign, attack);
    campaign.count('attacks');
    campaign.say(`${attack.name}: ${campaign.violations} violations`);
  }
});
