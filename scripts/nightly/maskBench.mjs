// Real schemas with instances that are known to be valid or not: how many are enforced, by masks or by masks and the look
// at the whole value, and whether what is valid can be said.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { runCampaign } from './lib/Campaign.mjs';
import { ROOT } from './lib/commandLine.mjs';
import { needBuild } from './lib/models.mjs';

const USAGE = `Reads schemas, makes their masks within the limits that rows have, and sends the instances that come with them through masks and look. Needs cargo.
  --schemas FILE      lines of JSON: "schema", and where there are some "tests": [{"valid", "data"}] (MaskBench's, say)
  --sample N          so many of the schemas, drawn (default: all)
  --part K/N          every N-th of them, from the K-th (from 0)
  --enforced P        percent of the schemas that have to be enforced (default 95)
  --admitted P        percent of the valid instances that have to be let through (default 99.5)
  --admits FILE       native/grammar's example "admits", built; else cargo builds it`;

/** Names of properties, in the order in which a grammar has them: wherever it has an object. */
function orders(grammar, found = []) {
  if (typeof grammar !== 'object' || grammar === null) return found;
  const { properties } = grammar;
  if (typeof properties === 'object') found.push(new Map(Object.keys(properties).map((name, at) => [name, at])));
  for (const part of Object.values(grammar)) orders(part, found);
  return found;
}

/** The value with its keys as the object of the grammar has them that knows most of them: where the search for an order begins. */
function arranged(value, known) {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => arranged(item, known));
  const names = Object.keys(value);
  let [best, most] = [new Map(), 0];
  for (const order of known) {
    const count = names.filter((name) => order.has(name)).length;
    if (count > most) [best, most] = [order, count];
  }
  const place = (name) => best.get(name) ?? Infinity;
  names.sort((one, other) => (place(one) === place(other) ? 0 : place(one) - place(other)));
  return Object.fromEntries(names.map((name) => [name, arranged(value[name], known)]));
}

function admissionOf(file) {
  if (file !== undefined) return spawn(file, [], { stdio: ['pipe', 'pipe', 'inherit'] });
  const target = ['--target-dir', join(ROOT, 'native/build-grammar')];
  return spawn('cargo', ['run', '--release', '--quiet', '--locked', ...target, '--example', 'admits'], {
    cwd: join(ROOT, 'native/grammar'),
    stdio: ['pipe', 'pipe', 'inherit'],
  });
}

function* drawn(campaign, all, count) {
  const left = [...all];
  for (; count > 0 && left.length > 0; count -= 1) {
    const at = Math.floor(campaign.random.next() * left.length);
    yield left[at];
    left[at] = left.at(-1);
    left.pop();
  }
}

await runCampaign(
  {
    usage: USAGE,
    options: {
      schemas: { type: 'string' },
      sample: { type: 'string' },
      part: { type: 'string', default: '0/1' },
      enforced: { type: 'string', default: '95' },
      admitted: { type: 'string', default: '99.5' },
      admits: { type: 'string' },
    },
    done: 'schemas',
  },
  async (campaign) => {
    needBuild();
    const { EnforcedSchema } = await import('../../dist/api/jobs.js');
    const [part, parts] = campaign.values.part.split('/').map(Number);
    const all = readFileSync(campaign.values.schemas, 'utf8')
      .trim()
      .split('\n')
      .filter((_, at) => at % parts === part);
    const lines = campaign.values.sample ? [...drawn(campaign, all, campaign.number('sample', 1))] : all;
    const child = admissionOf(campaign.values.admits);
    const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const ask = async (question) => {
      child.stdin.write(`${JSON.stringify(question)}\n`);
      const { value, done } = await answers.next();
      if (done) throw new Error('admits ended early');
      return JSON.parse(value);
    };
    for (const line of lines) {
      if (!campaign.goesOn) break;
      const { id, schema, tests = [] } = JSON.parse(line);
      campaign.count('schemas');
      let own;
      try {
        own = new EnforcedSchema(schema);
      } catch (error) {
        campaign.count('refused');
        campaign.say(`refused: ${id}: ${error.message}`);
        continue;
      }
      const known = orders(own.grammar);
      const valid = tests.filter((test) => test.valid).map(({ data }) => data);
      const let_ = await ask({ grammar: own.grammar, values: valid.map((value) => arranged(value, known)) });
      if (!Array.isArray(let_)) {
        campaign.count('refused');
        campaign.say(`refused by the masks' library: ${id}: ${let_.error.slice(0, 300)}`);
        continue;
      }
      campaign.count(own.left.length === 0 ? 'enforced by masks alone' : 'enforced by masks and the look');
      valid.forEach((value, at) => {
        campaign.count('valid instances');
        const problem = own.problem(value);
        if (problem !== undefined)
          campaign.violation(`${id}: the look refuses what is valid: ${problem}`, JSON.stringify(value));
        if (let_[at] === true && problem === undefined) campaign.count('of the valid let through');
        else
          campaign.say(
            `kept back${let_[at] === null ? ' (as far as was tried)' : ''}: ${id}: ${JSON.stringify(value).slice(0, 600)}`,
          );
      });
      for (const { data } of tests.filter((test) => !test.valid)) {
        campaign.count('invalid instances');
        // Among them are instances that are called both, and such as no double can be told from a valid one.
        if (own.problem(data) !== undefined) continue;
        campaign.count('of the invalid let through');
        campaign.say(`let through: ${id}: ${JSON.stringify(data)}`);
      }
    }
    child.stdin.end();
    const share = (part, whole) => (100 * part) / Math.max(1, whole);
    const enforced = share(campaign.figure('schemas') - campaign.figure('refused'), campaign.figure('schemas'));
    const admitted = share(campaign.figure('of the valid let through'), campaign.figure('valid instances'));
    campaign.say(`enforced ${enforced.toFixed(2)}%, valid instances let through ${admitted.toFixed(2)}%`);
    if (enforced < campaign.number('enforced', 0))
      campaign.violation(`too few schemas are enforced: ${enforced.toFixed(2)}%`);
    if (campaign.figure('valid instances') > 0 && admitted < Number(campaign.values.admitted))
      campaign.violation(`too few valid instances are let through: ${admitted.toFixed(2)}%`);
  },
);
