// JSON-Schema-Test-Suite of drafts 4, 6, 7, 2019-09 and 2020-12: every schema is refused with its place or enforced; what
// models of all kinds say under the enforced ones is valid, and what is valid can be said.
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import addFormats from 'ajv-formats';
import Ajv7 from 'ajv';
import Ajv2019 from 'ajv/dist/2019.js';
import Ajv2020 from 'ajv/dist/2020.js';
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

/** The suite's folders: the draft that their schemas leave out, and who judges values of it. */
const DRAFTS = {
  '': { judge: Ajv2020 },
  'draft2019-09': { uri: 'https://json-schema.org/draft/2019-09/schema', judge: Ajv2019 },
  draft7: { uri: 'http://json-schema.org/draft-07/schema#', judge: Ajv7 },
  // Of these the interpreter alone.
  draft6: { uri: 'http://json-schema.org/draft-06/schema#' },
  draft4: { uri: 'http://json-schema.org/draft-04/schema#' },
};

function readSuite() {
  return Object.entries(DRAFTS).flatMap(([draft, { uri }]) => {
    const folder = join(ROOT, 'test/fixtures/json-schema-test-suite', draft);
    return readdirSync(folder)
      .filter((file) => file.endsWith('.json'))
      .flatMap((file) =>
        JSON.parse(readFileSync(join(folder, file), 'utf8')).map(({ description, schema, tests }) => ({
          name: `${draft} ${file}: ${description}`,
          draft,
          schema: uri && typeof schema === 'object' ? { $schema: uri, ...schema } : schema,
          valid: tests.filter((test) => test.valid && !isAboutFormats(test)).map(({ data }) => data),
          tests,
        })),
      );
  });
}

/**
 * Ajv's judgement; undefined where it takes the suite's own instances for something else, as it does with some dynamic
 * references.
 */
function judgeOf({ draft, schema, tests }) {
  const { judge: Judge } = DRAFTS[draft];
  if (Judge === undefined) return undefined;
  const ajv = new Judge({ strict: false, logger: false, multipleOfPrecision: 6 });
  addFormats(ajv);
  try {
    const judge = ajv.compile(schema);
    return tests.every((test) => isAboutFormats(test) || judge(test.data) === test.valid) ? judge : undefined;
  } catch {
    return undefined;
  }
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
    cases.map(({ enforced, valid }) => `${JSON.stringify({ grammar: enforced.grammar, values: valid })}\n`).join(''),
  );
  const read = async () => {
    let at = 0;
    for await (const line of createInterface({ input: child.stdout })) {
      const { name, valid } = cases[at++];
      const answers = JSON.parse(line);
      if (!Array.isArray(answers)) campaign.violation(`${name}: the grammar is refused`, answers.error);
      else
        for (const value of valid) {
          const some = answers.shift();
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
      const { name, judge, enforced } = cases[Math.floor(index / samples)];
      if (error?.code === 'schema' && error.message.includes('cut off')) cut += 1;
      // What a mask does not say the look at the value has found.
      else if (error?.code === 'schema' && enforced.left.length > 0) campaign.count('values that the look has refused');
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
      readFileSync(join(ROOT, 'docs/structured-output.md'), 'utf8').matchAll(/^\| (`[^|]*) \|/gm),
      ([, cell]) => Array.from(cell.matchAll(/`([^`]+)`/g), ([, name]) => name),
    ).flat(),
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
  campaign.set('by masks alone', cases.filter(({ enforced }) => enforced.left.length === 0).length);
  if (cases.length < 0.9 * all.length) campaign.violation('fewer than nine tenths are enforced', cases.length);
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
