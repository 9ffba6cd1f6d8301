// The cases of peers' own tests of Jinja, out of their sources, rendered here: as the peer expects, or as jinja2 has it.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runCampaign } from './lib/Campaign.mjs';
import { ROOT } from './lib/commandLine.mjs';
import { cppCases } from './lib/cppCases.mjs';
import { huggingFaceCases } from './lib/huggingFaceCases.mjs';
import { referenceTexts } from './lib/jinjaReference.mjs';
import { needBuild } from './lib/models.mjs';

const USAGE = `Renders the cases of llama.cpp's test-jinja, and of @huggingface/jinja's tests. What comes out otherwise is held against jinja2, as transformers sets it up: what differs from that, or is refused by us alone, is a violation.
  --llama FILE      llama.cpp's tests/test-jinja.cpp
  --huggingface DIR huggingface.js's packages/jinja/test
  --python FILE     interpreter that has transformers and jinja2 (default python3)`;

await runCampaign(
  {
    usage: USAGE,
    options: {
      llama: { type: 'string' },
      huggingface: { type: 'string' },
      python: { type: 'string', default: 'python3' },
    },
    done: 'as the peer expects',
  },
  async (campaign) => {
    needBuild();
    process.env.TZ = 'UTC';
    const load = (file) => import(join(ROOT, 'dist', file));
    const { Template } = await load('model/tokenizer/jinja/Template.js');
    const { readWithSpelling } = await load('arguments/jsonNumbers.js');
    // The day of huggingface.js's tests.
    const now = new Date('2025-07-10T12:00:00.000Z');

    const judge = async (peer, cases) => {
      const others = [];
      for (const each of cases) {
        const { name, template, variables, expected } = each;
        campaign.count(`cases of ${peer}`);
        if (each.needsFunctions) campaign.count('given functions, so left out');
        else if (each.unread !== undefined) campaign.violation(`${name} cannot be read: ${each.unread}`);
        else {
          let got;
          let error;
          try {
            const size = template.length + variables.length;
            got = new Template(template).render({ variables: readWithSpelling(variables), now, messages: 9, size });
          } catch (thrown) {
            error = thrown.message;
          }
          if (got !== undefined && got === expected) campaign.count('as the peer expects');
          else others.push({ ...each, got, error });
        }
      }
      const references = await referenceTexts(
        campaign.values.python,
        now.getTime() / 1000,
        others.map(({ template, variables }) => `{"template":${JSON.stringify(template)},"variables":${variables}}`),
      );
      others.forEach(({ name, template, expected, got, error }, nth) => {
        const reference = references[nth];
        const written = (text) => JSON.stringify(text)?.slice(0, 400);
        const said = `${peer}, ${name}: ${written(template)}\n  here ${written(got) ?? error}\n  ${peer} ${written(expected)}\n  jinja2 ${written(reference.text) ?? reference.error}`;
        if (got === reference.text) {
          campaign.count(got === undefined ? 'refused, as jinja2 does' : 'as jinja2 has it, not the peer');
          campaign.say(said);
        } else campaign.violation(said);
      });
    };

    const { llama, huggingface } = campaign.values;
    if (llama !== undefined) await judge('llama.cpp', cppCases(readFileSync(llama, 'utf8')));
    if (huggingface !== undefined) await judge('huggingface.js', huggingFaceCases(huggingface));
  },
);
