// One long job of tiny rows through the command line: its resident memory may grow by what the ids take, and by nothing
// else.
import { once } from 'node:events';
import { createWriteStream, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { runCampaign } from './lib/Campaign.mjs';
import { ending, start } from './lib/commandLine.mjs';
import { needBuild, TINY } from './lib/models.mjs';

const USAGE = `Runs \`generate\` over so many rows of two tokens, each with an id of its own, on the tests' tiny model, and looks at the resident memory meanwhile (Linux): it
may grow by what ids take, and by no more.
  --rows N      (default 3000000: five minutes on two processors)
  --no-ids      rows without ids, of which nothing has to be remembered`;

const MIB = 2 ** 20;
/** What an id takes at most, while the table of ids grows, too. */
const ID_BYTES = 30;
/** What the heap may come and go by. */
const SLACK_BYTES = 32 * MIB;
const LOOK_MILLISECONDS = 250;

async function writeRows(path, rows, ids) {
  const file = createWriteStream(path);
  for (let row = 0; row < rows; row += 1) {
    const more = file.write(`{${ids ? `"id":"row-${row}",` : ''}"tokens":[1,${3 + (row % 250)}]}\n`);
    if (!more) await once(file, 'drain');
  }
  await once(file.end(), 'close');
}

/**
 * What a process has resident and how much of its output is there; undefined before that has begun, and once it is
 * over.
 */
function lookAt(pid, output) {
  const kib = /^VmRSS:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  const written = statSync(output, { throwIfNoEntry: false })?.size;
  return kib === undefined || written === undefined ? undefined : { resident: Number(kib) * 1024, written };
}

const options = { rows: { type: 'string', default: '3000000' }, 'no-ids': { type: 'boolean', default: false } };
await runCampaign({ usage: USAGE, options, minutes: 90, done: 'rows' }, async (campaign) => {
  needBuild();
  const [rows, ids] = [campaign.number('rows'), !campaign.values['no-ids']];
  const [input, output] = [join(campaign.folder, 'in.jsonl'), join(campaign.folder, 'out.jsonl')];
  await writeRows(input, rows, ids);
  const args = [
    'generate',
    '--model',
    TINY,
    '--input',
    input,
    '--output',
    output,
    '--max-new-tokens',
    '1',
    '--ignore-eos',
  ];
  const { child, ended } = start(args, { hangSeconds: campaign.number('minutes') * 60 });
  campaign.signal.addEventListener('abort', () => child.kill());
  const looks = [];
  const timer = setInterval(() => {
    const look = child.exitCode === null ? lookAt(child.pid, output) : undefined;
    if (look !== undefined) looks.push(look);
  }, LOOK_MILLISECONDS);
  const result = await ended;
  clearInterval(timer);
  if (result.code !== 0) return campaign.violation('the job did not end well', ending(result));
  const size = statSync(output).size;
  const most = (from, to) =>
    Math.max(
      0,
      ...looks.filter(({ written }) => written >= from * size && written <= to * size).map(({ resident }) => resident),
    );
  const tenths = Array.from({ length: 10 }, (_, tenth) => most(tenth / 10, (tenth + 1) / 10));
  if (tenths[0] === 0) return campaign.violation('too few rows to look at', `${looks.length} looks`);
  const [growth, allowed] = [Math.max(...tenths) - tenths[0], SLACK_BYTES + (ids ? rows * ID_BYTES : 0)];
  const mib = (bytes) => (bytes / MIB).toFixed(0);
  campaign.set('rows', rows);
  campaign.set('MiB resident in each tenth', tenths.map(mib).join(' '));
  campaign.set('MiB of growth', `${mib(growth)} of ${mib(allowed)}`);
  if (growth > allowed)
    campaign.violation(`resident memory grew by ${mib(growth)} MiB, expected at most ${mib(allowed)}`);
});
