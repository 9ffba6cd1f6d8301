// Rows of all sizes and shapes, from every format, through the command line in a memory cgroup: each gets exactly one
// result, none decides what the process takes, and none keeps the event loop.
import {
  closeSync,
  createReadStream,
  existsSync,
  mkdirSync,
  openSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { howItEnded } from '../../bench/lib/runProcess.mjs';
import { runCampaign } from './lib/Campaign.mjs';
import { BESIDE, cappedRun, judgeRun, MIB } from './lib/cappedRun.mjs';
import { drawnRow, FORMATS, writeInput } from './lib/drawnRows.mjs';
import { needBuild, tinyTextModel } from './lib/models.mjs';

const USAGE = `Draws rows (texts, lists, objects, keys, numbers, nesting, parameters; from a few bytes to more than a line may have), writes them in a format of input, and runs
\`generate\` over them under --cpu-memory, in a memory cgroup of that and 32 MiB (root, Linux; without one the peak of what is resident is looked at). Each process has to
end with 0 or 4, below its cap, with one result a row, and with no turn of the event loop of more than 100 ms of processor time.
  --rows N         in all (default 20000)
  --per-process N  (default 200)
  --cap SIZE       MiB of --cpu-memory (default 400)
  --formats A,B    (default ${FORMATS.join(',')})
  --kinds A,B      of large rows (default all)
  --replay N       the process of that number alone, its files kept`;

const LIMIT_SECONDS = 180;
/** Results of each row by its place, as far as they stand in the output. */
async function resultsOf(file) {
  const seen = new Map();
  let failed = 0;
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Infinity })) {
    const index = Number(/"index":(\d+)/.exec(line.slice(0, 300_000))?.[1] ?? /"index":(\d+)/.exec(line)?.[1]);
    seen.set(index, (seen.get(index) ?? 0) + 1);
    if (line.includes('"finishReason":"error"')) failed += 1;
  }
  return { seen, failed };
}

async function runOne(campaign, model, number) {
  const { random } = campaign;
  const folder = join(campaign.folder, `p${number}`);
  mkdirSync(folder, { recursive: true });
  const format = random.pick(campaign.values.formats.split(','));
  const count = campaign.number('per-process');
  const kinds = campaign.values.kinds?.split(',');
  const rows = Array.from({ length: count }, (_, at) => drawnRow(random, { at, format, kinds }));
  const input = join(folder, `in.${format === 'openai-batch' ? 'jsonl' : format === 'text' ? 'txt' : format}`);
  const [output, turns] = [join(folder, 'out.jsonl'), join(folder, 'turns.json')];
  const expected = await writeInput(input, format, rows);
  const flags = [
    ...(random.chance(0.5) ? ['--carry-fields'] : []),
    ...(random.chance(0.3) ? ['--logprobs', String(random.pick([0, 3, 20, 200]))] : []),
    ...(random.chance(0.2) ? ['--order', 'completion'] : []),
    ...(random.chance(0.2) ? ['--share-prefixes', 'off'] : []),
  ];
  if (campaign.values.replay !== undefined && Number(campaign.values.replay) !== number) {
    rmSync(folder, { recursive: true });
    return;
  }
  const cap = campaign.number('cap') * MIB;
  const result = await cappedRun(campaign, {
    args: [
      ...['generate', '--model', model, '--input', input, '--input-format', format],
      ...['--output', output, '--output-format', 'jsonl', '--cpu-memory', String(cap)],
      ...['--max-new-tokens', '3', '--learn', 'off', ...flags],
    ],
    turns,
    groupBytes: cap + BESIDE,
    timeLimitSeconds: LIMIT_SECONDS,
  });
  if (campaign.signal.aborted) return;
  campaign.count('rows', count);
  const before = campaign.violations;
  const what = `process ${number}, ${format}, ${flags.join(' ')}`;
  const wrong = (words) => {
    campaign.violation(`${what}: ${words}`, howItEnded(result, LIMIT_SECONDS));
  };
  campaign.set('peak MiB', Math.max(campaign.figure('peak MiB'), Math.ceil(result.peakResidentBytes / MIB)));
  judgeRun(result, { capBytes: cap, codes: [0, 4], campaign, wrong });
  const { seen, failed } = existsSync(output) ? await resultsOf(output) : { seen: new Map(), failed: 0 };
  campaign.count('rows with errors', failed);
  const missing = Array.from({ length: expected }, (_, index) => index).filter((index) => seen.get(index) !== 1);
  if (missing.length > 0 || seen.size !== expected)
    wrong(`${seen.size} of ${expected} rows have results; not exactly one: ${missing.slice(0, 5).join()}`);
  if (campaign.violations === before && campaign.values.replay === undefined) rmSync(folder, { recursive: true });
  else {
    const names = openSync(join(folder, 'rows.txt'), 'w');
    for (const { at, kind, bytes } of rows) writeSync(names, `${at} ${kind} ${bytes}\n`);
    closeSync(names);
    writeFileSync(join(folder, 'command.txt'), result.args.join(' '));
  }
}

const options = {
  rows: { type: 'string', default: '20000' },
  'per-process': { type: 'string', default: '200' },
  cap: { type: 'string', default: '400' },
  formats: { type: 'string', default: FORMATS.join(',') },
  kinds: { type: 'string' },
  replay: { type: 'string' },
};
await runCampaign({ usage: USAGE, options, minutes: 60, done: 'rows' }, async (campaign) => {
  needBuild();
  const model = await tinyTextModel(campaign);
  const processes = Math.ceil(campaign.number('rows') / campaign.number('per-process'));
  for (let number = 0; number < processes && campaign.goesOn; number += 1) {
    await runOne(campaign, model, number);
    if (number % 10 === 9)
      campaign.say(
        `${campaign.figure('rows')} rows, peak ${campaign.figure('peak MiB')} MiB, longest turn ${campaign.figure('longest turn ms')} ms, ${campaign.violations} violations`,
      );
  }
});
