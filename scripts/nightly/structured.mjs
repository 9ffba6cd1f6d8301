// JSON-Schema-Test-Suite of 2020-12: every schema is refused with its place or enforced; what models of all kinds say
// under the enforced ones is valid, and what is valid can be said.
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import addFormats from 'ajv-formats';
import Ajv from 'ajv/dist/2020.js';
import { runCampaign } from './lib/Campaign.mjs';
import { ROOT } from './lib/commandLine.mjs';
import { needBuild, realModel, tinyTextModel } from './lib/models.mjs';
import { writeRandomModel } from './lib/randomModel.mjs';

const USAGE = `Runs every schema of the suite through models at temperature 1: a tiny one with a token a byte, random ones with vocabularies of 32,768 and 131,072, and the small real one. Every value that comes
to its end has to be valid under ajv; at most a tenth of the rows may be cut off. With cargo there, also looks whether what the suite calls valid is let through.
  --samples N      rows a schema and a model (default 4)
  --tokens N       most new tokens of a row (default 400)
  --no-real        without the small real model`;

/** Formats say nothing to the suite, and are enforced here. */
const isAboutFormats = ({ description }) => description.includes('only an annotation');

function readSuite() {
  const folder = join(ROOT, 'test/fixtures/json-schema-test-suite');
  return readdirSync(folder)
    .filter((file) => file.endsWith('.json'))
    .flatMap((file) =>
      JSON.parse(readFileSync(join(folder, file), 'utf8')).map(({ description, schema, tests }) => ({
        name: `${file}: ${description}`,
        schema,
        valid: tests.filter((test) => test.valid && !isAboutFormats(test)).map(({ data }) => data),
        tests,
      })),
    );
}

/**
 * Ajv's judgement; undefined where it takes the suite's own instances for something else, as it does with some dynamic
 * references.
 */
function judgeOf({ schema, tests }) {
  const ajv = new Ajv({ strict: false, logger: false, multipleOfPrecision: 6 });
  addFormats(ajv);
  try {
    const judge = ajv.compile(schema);
    return tests.every((test) => isAboutFormats(test) || judge(test.data) === test.valid) ? judge : undefined;
  } catch {
    return undefined;
  }
}

/** The value with its keys in each order (of five and more, in its own alone): one of them is the schema's. */
function orders(value) {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || Object.keys(value).length > 4)
    return [JSON.stringify(value)];
  const permuted = (list) =>
    list.length < 2 ? [list] : list.flatMap((one, at) => permuted(list.toSpliced(at, 1)).map((rest) => [one, ...rest]));
  return permuted(Object.entries(value)).map((entries) => JSON.stringify(Object.fromEntries(entries)));
}

async function admission(campaign, cases) {
  const args = [
    'run',
    '--release',
    '--quiet',
    '--locked',
    '--target-dir',
    join(ROOT, 'native/build-grammar'),
    '--example',
    'admits',
  ];
  const child = spawn('cargo', args, { cwd: join(ROOT, 'native/grammar'), stdio: ['pipe', 'pipe', 'inherit'] });
  const failed = new Promise((resolve) => child.once('error', resolve));
  child.stdin.on('error', () => undefined);
  child.stdin.end(
    cases
      .map(({ enforced, valid }) => `${JSON.stringify({ grammar: enforced.grammar, texts: valid.flatMap(orders) })}\n`)
      .join(''),
  );
  const read = async () => {
    let at = 0;
    for await (const line of createInterface({ input: child.stdout })) {
      const { name, valid } = cases[at++];
      const answers = JSON.parse(line);
      if (!Array.isArray(answers)) campaign.violation(`${name}: the grammar is refused`, answers.error);
      else
        for (const value of valid) {
          const some = answers.splice(0, orders(value).length).some(Boolean);
          campaign.count(some ? 'valid values let through' : 'valid values kept back');
          if (!some) campaign.violation(`${name}: a valid value is kept back`, JSON.stringify(value));
        }
    }
    if (at !== cases.length) campaign.violation('admits ended early', `${at} of ${cases.length}`);
  };
  const error = await Promise.race([read(), failed]);
  if (error) campaign.say(`without cargo: ${error.message}`);
}

async function generate(campaign, { Engine }, label, model, cases, samples, maxNewTokens) {
  const engine = await Engine.open({ model, signal: campaign.signal });
  const rows = cases.flatMap(({ name, schema }) =>
    Array.from({ length: samples }, (_, sample) => ({
      id: `${name} ${sample}`,
      prompt: `${name}\n`,
      seed: campaign.seed * 1000 + sample,
      responseFormat: { type: 'json_schema', schema },
    })),
  );
  let [whole, cut] = [0, 0];
  try {
    for await (const { index, value, error, text } of engine.generate(rows, {
      temperature: 1,
      maxNewTokens,
      sharePrefixes: false,
      order: 'completion',
      signal: campaign.signal,
    })) {
      const { name, judge } = cases[Math.floor(index / samples)];
      if (error?.code === 'schema' && error.message.includes('cut off')) cut += 1;
      else if (error) campaign.violation(`${label}, ${name}: ${error.code}`, `${error.message}\n${text}`);
      else {
        whole += 1;
        if (judge === undefined) campaign.count('values that only the interpreter judged');
        else if (!judge(value))
          campaign.violation(
            `${label}, ${name}: a value that is not valid`,
            `${JSON.stringify(value)}\n${JSON.stringify(judge.errors)}`,
          );
      }
      if (!campaign.goesOn) break;
    }
  } finally {
    await engine.close();
  }
  campaign.count('values', whole);
  campaign.count('cut off', cut);
  campaign.say(`${label}: ${whole} values, ${cut} cut off`);
}

const options = {
  samples: { type: 'string', default: '4' },
  tokens: { type: 'string', default: '400' },
  'no-real': { type: 'boolean', default: false },
};
await runCampaign({ usage: USAGE, options, minutes: 60, done: 'values' }, async (campaign) => {
  needBuild();
  const library = { ...(await import('../../dist/index.js')), ...(await import('../../dist/api/jobs.js')) };
  const documented = new Set(
    Array.from(
      readFileSync(join(ROOT, 'docs/structured-output.md'), 'utf8').matchAll(/^\| `([^`]+)`/gm),
      ([, name]) => name,
    ),
  );
  const all = readSuite();
  const cases = all.flatMap((one) => {
    try {
      return [{ ...one, enforced: new library.EnforcedSchema(one.schema), judge: judgeOf(one) }];
    } catch (error) {
      if (error.path === undefined || (error.keyword !== undefined && !documented.has(error.keyword)))
        campaign.violation(`${one.name}: refused without a documented keyword`, error.stack);
      return [];
    }
  });
  campaign.set('schemas', all.length);
  campaign.set('enforced', cases.length);
  if (cases.length < 0.75 * all.length) campaign.violation('fewer than three quarters are enforced', cases.length);
  await admission(campaign, cases);
  const [samples, tokens] = [campaign.number('samples'), campaign.number('tokens')];
  const run = (label, model) => generate(campaign, library, label, model, cases, samples, tokens);
  await run('a token a byte', await tinyTextModel(campaign));
  for (const vocabulary of [2 ** 15, 2 ** 17])
    if (campaign.goesOn)
      await run(
        `a vocabulary of ${vocabulary}`,
        writeRandomModel(join(campaign.folder, String(vocabulary)), campaign.random.next, vocabulary),
      );
  const real = campaign.values['no-real'] || !campaign.goesOn ? undefined : await realModel(campaign);
  if (real) await run('SmolLM2', real);
  const [whole, cut] = [campaign.figure('values'), campaign.figure('cut off')];
  if (cut > 0.1 * (whole + cut))
    campaign.violation('more than a tenth of the rows were cut off', `${cut} of ${whole + cut}`);
  if (whole < 3000) campaign.violation('fewer than 3000 values came to their end', whole);
});
