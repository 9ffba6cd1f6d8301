// A long job with answers that last: once in full, once with some rows changed, killed at random moments, and by two processes at once.
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCampaign } from './lib/Campaign.mjs';
import { ending, run, start } from './lib/commandLine.mjs';
import { needBuild, TINY } from './lib/models.mjs';

const USAGE = `Runs \`generate --reuse\` over many tiny rows on the tests' tiny model: again with one in a hundred changed, which alone may be computed; killed with SIGKILL
at random moments and begun anew, also by two processes on one file of answers; always against the output of a run without.
  --rows N    (default 100000)
  --kills N   (default 20)`;

const FLAGS = ['--max-new-tokens', '4', '--ignore-eos', '--logprobs', '0', '--policy', 'default'];

function writeRows(file, rows, changed) {
  const tokens = (at) => [1, 3 + (at % 250), 3 + (Math.floor(at / 250) % 250), changed(at) ? 7 : 9, 3 + (Math.floor(at / 62_500) % 250)];
  writeFileSync(file, Array.from({ length: rows }, (_, at) => `${JSON.stringify({ id: at, tokens: tokens(at) })}\n`).join(''));
  return file;
}

await runCampaign({ usage: USAGE, options: { rows: { type: 'string', default: '100000' }, kills: { type: 'string', default: '20' } }, minutes: 30, done: 'runs' }, async (campaign) => {
  needBuild();
  const { folder, number, random } = campaign;
  const rows = number('rows');
  const at = (name) => join(folder, name);
  const [input, changedInput] = [writeRows(at('in.jsonl'), rows, () => false), writeRows(at('changed.jsonl'), rows, (row) => row % 100 === 42)];
  const args = (from, output, kept) => ['generate', '--model', TINY, '--input', from, '--output', output, '--stats', `${output}.stats`, '--overwrite', ...FLAGS, ...(kept ? ['--reuse', kept] : [])];
  const reference = async (from, name) => {
    const result = await run(args(from, at(name)));
    if (result.code !== 0) throw new Error(ending(result));
    return readFileSync(at(name));
  };
  const [whole, wholeChanged] = [await reference(input, 'reference.jsonl'), await reference(changedInput, 'reference-changed.jsonl')];
  /** A run to its end, which has to say what one without the file said. @returns rows that were reused */
  const check = async (from, expected, kept, what) => {
    const output = at(`${what.replaceAll(' ', '-')}.jsonl`);
    const result = await run(args(from, output, kept));
    campaign.count('runs');
    if (result.code !== 0) campaign.violation(`${what}: it failed`, ending(result));
    else if (!readFileSync(output).equals(expected)) campaign.violation(`${what}: the output differs from a run without`, output);
    else rmSync(output);
    return result.code === 0 ? JSON.parse(readFileSync(`${output}.stats`, 'utf8')).sharing.rowsReused : 0;
  };

  const kept = at('kept');
  if ((await check(input, whole, kept, 'first')) !== 0) campaign.violation('first: something was reused');
  const expected = rows - Math.floor((rows + 57) / 100);
  const reused = await check(changedInput, wholeChanged, kept, 'one in a hundred changed');
  campaign.set('rows', rows);
  campaign.set('computed of the changed job', rows - reused);
  campaign.set('MiB of answers', (statSync(kept).size / 2 ** 20).toFixed(1));
  if (reused !== expected) campaign.violation(`one in a hundred changed: ${reused} rows were reused, expected ${expected}`);
  copyFileSync(kept, at('all-kept'));

  // Killed at random moments, with the file of answers from empty to full; every other time two at once.
  mkdirSync(at('killed'));
  const fresh = at('killed/kept');
  for (let kill = 0; kill < number('kills') && campaign.goesOn; kill++) {
    const both = [input, changedInput].slice(0, 1 + (kill % 2)).map((from, which) => start(args(from, at(`killed/out-${which}.jsonl`), fresh)));
    await sleep(300 + random.whole(0, 6000));
    for (const { child } of both) child.kill('SIGKILL');
    const ended = await Promise.all(both.map((each) => each.ended));
    campaign.count('killed', ended.filter(({ signal }) => signal === 'SIGKILL').length);
    campaign.say(`kill ${kill + 1}: ${existsSync(fresh) ? (statSync(fresh).size / 2 ** 20).toFixed(1) : 0} MiB of answers`);
  }
  const left = await check(input, whole, fresh, 'behind the kills');
  campaign.set('reused behind the kills', left);
  if (left === 0) campaign.violation('behind the kills: nothing was kept');

  const together = await Promise.all([check(input, whole, fresh, 'two at once a'), check(changedInput, wholeChanged, fresh, 'two at once b')]);
  if (together[0] !== rows) campaign.violation(`two at once: ${together[0]} rows were reused, expected all ${rows}`);
  if ((await check(changedInput, wholeChanged, fresh, 'behind the two')) !== rows) campaign.violation('behind the two: not all answers were kept');
});
