// Values that a model of random weights says, held to real schemas, checked by two other validators: none is invalid.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { runCampaign } from './lib/Campaign.mjs';
import { ROOT } from './lib/commandLine.mjs';
import { needBuild, tinyTextModel } from './lib/models.mjs';

const USAGE = `Generates whole values at temperature 1 for the schemas of a file, as far as they are enforced, and has ajv and python-jsonschema, of each schema's draft, look at them.
  --schemas FILE    lines of JSON with a member "schema" (MaskBench's, say)
  --values N        whole values (default 5000)
  --python FILE     interpreter that has jsonschema (default python3)`;
/** Rows of one run. */
const BATCH = 400;
/** Not a package of ours: where it is not there python-jsonschema alone looks at that draft. */
const Draft4 = await import('ajv-draft-04').then(
  ({ default: made }) => made.default ?? made,
  () => undefined,
);
const DRAFTS = [
  ['draft-04', Draft4],
  ['draft-06', Ajv],
  ['draft-07', Ajv],
  ['2019-09', Ajv2019],
  ['2020-12', Ajv2020],
];

/** The draft that a schema names; without a word it is the last. */
function draftOf({ $schema }) {
  return DRAFTS.find(([name]) => String($schema ?? '2020-12').includes(name)) ?? DRAFTS.at(-1);
}

/** Up to draft 7 what stands beside a `$ref` says nothing; ajv takes it at its word. */
function withoutSiblings(schema) {
  if (typeof schema !== 'object' || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map(withoutSiblings);
  if (typeof schema.$ref === 'string') {
    // References go there.
    const { $ref, definitions, $schema } = schema;
    return { $ref, ...($schema && { $schema }), ...(definitions && { definitions: withoutSiblings(definitions) }) };
  }
  return Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, withoutSiblings(value)]));
}

/** U+FEFF is white space of ECMA-262's patterns, as those of schemas are, and not of Python's. */
const forPython = (value) => JSON.parse(JSON.stringify(value).replaceAll('\ufeff', '\u00a0'));

/**
 * What ajv finds wrong; null for nothing, undefined where it cannot read the schema. A draft leaves open whether formats
 * say something: a value is wrong if it is so both ways.
 */
function ajvProblem(schema, value) {
  const problem = problemOf(schema, value, false);
  return problem && (problemOf(schema, value, true) ?? null) && problem;
}

function problemOf(schema, value, validateFormats) {
  const [name, Validator] = draftOf(schema);
  if (Validator === undefined) return undefined;
  const ajv = new Validator({ strict: false, validateFormats, logger: false, allErrors: false });
  if (validateFormats) addFormats(ajv);
  try {
    // Of an older draft that it does not know by name, the name says nothing more.
    const read = ['2019-09', '2020-12'].includes(name) ? schema : withoutSiblings(schema);
    const own = { ...read, $schema: undefined };
    const validate = ajv.compile(name === 'draft-06' ? own : read);
    return validate(value) ? null : ajv.errorsText(validate.errors);
  } catch {
    return undefined;
  }
}

function pythonProblems(python, lines) {
  return new Promise((resolve, reject) => {
    const child = execFile(
      python,
      [join(ROOT, 'scripts/nightly/lib/checkValues.py')],
      { maxBuffer: 2 ** 28 },
      (error, stdout) =>
        error
          ? reject(error)
          : resolve(
              stdout
                .trim()
                .split('\n')
                .map((line) => JSON.parse(line)),
            ),
    );
    child.stdin.end(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  });
}

await runCampaign(
  {
    usage: USAGE,
    options: {
      schemas: { type: 'string' },
      values: { type: 'string', default: '5000' },
      python: { type: 'string', default: 'python3' },
    },
    done: 'whole values',
  },
  async (campaign) => {
    needBuild();
    const { Engine } = await import('../../dist/index.js');
    const schemas = readFileSync(campaign.values.schemas, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).schema)
      .filter((schema) => typeof schema === 'object' && JSON.stringify(schema).length < 4000);
    const wanted = campaign.number('values', 1);
    const engine = await Engine.open({ model: await tinyTextModel(campaign), learn: false });
    let done = 0;
    for (let at = 0; done < wanted && campaign.goesOn; at += BATCH) {
      const rows = Array.from({ length: BATCH }, (_, nth) => {
        const schema = campaign.random.pick(schemas);
        return {
          prompt: 'a',
          seed: at + nth,
          carry: { schema },
          responseFormat: { type: 'json_schema', schema, maxStringLength: 12, maxArrayItems: 3 },
        };
      });
      const whole = [];
      const options = { temperature: 1, maxNewTokens: 700, order: 'completion' };
      for await (const { value, error, carry } of engine.generate(rows, options)) {
        if (error) campaign.count(error.code);
        else whole.push([carry.schema, value]);
      }
      const python = await pythonProblems(
        campaign.values.python,
        whole.map(([schema, value]) => [schema, forPython(value), draftOf(schema)[0]]),
      );
      whole.forEach(([schema, value], nth) => {
        const found = { ajv: ajvProblem(schema, value), 'python-jsonschema': python[nth] };
        for (const [name, problem] of Object.entries(found)) {
          if (problem === undefined || typeof problem?.unread === 'string') campaign.count(`unread by ${name}`);
          else if (problem !== null)
            campaign.violation(
              `invalid for ${name}: ${problem}`,
              `${JSON.stringify(schema)}\n${JSON.stringify(value)}`,
            );
        }
        done += 1;
        campaign.count('whole values');
      });
    }
    await engine.close();
  },
);
