// Templates drawn at random, and those of a folder with conversations of all shapes, rendered beside jinja2 as
// transformers sets it up: the same text or an error, never another text.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runCampaign } from './lib/Campaign.mjs';
import { ROOT } from './lib/commandLine.mjs';
import { CONVERSATIONS } from './lib/conversations.mjs';
import { huggingFaceTemplates } from './lib/huggingFaceCases.mjs';
import { referenceTexts } from './lib/jinjaReference.mjs';
import { needBuild } from './lib/models.mjs';
import { TemplateDrawer, VARIABLES } from './lib/randomTemplate.mjs';

const USAGE = `Draws Jinja templates, and has transformers' jinja2 render the same: where that renders, the text must be the same or refused, where it refuses, refused.
  --python FILE     interpreter that has transformers and jinja2 (default python3)
  --cases N         drawn templates (default 10000)
  --templates DIR   chat templates (*.jinja) to render the conversations of lib/conversations.mjs with, too
  --huggingface DIR huggingface.js's packages/jinja/test, for the chat templates in it, likewise
  --keep FILE       gets some of the drawn templates with what jinja2 made of them, for the tests`;
/** Templates that one interpreter gets, which takes seconds to begin. */
const BATCH = 2500;
/** What Python writes of functions and generators has their place in memory in it: no two runs say the same. */
const ADDRESS = / at 0x[0-9a-f]{6,}/;
const NOW = 1_795_000_000;

await runCampaign(
  {
    usage: USAGE,
    options: {
      python: { type: 'string', default: 'python3' },
      cases: { type: 'string', default: '10000' },
      templates: { type: 'string' },
      huggingface: { type: 'string' },
      keep: { type: 'string' },
    },
    done: 'the same',
  },
  async (campaign) => {
    needBuild();
    process.env.TZ = 'UTC';
    const load = (file) => import(join(ROOT, 'dist', file));
    const { Template } = await load('model/tokenizer/jinja/Template.js');
    const { ChatTemplate } = await load('model/tokenizer/ChatTemplate.js');
    const { readWithSpelling } = await load('arguments/jsonNumbers.js');
    const now = new Date(NOW * 1000);
    const kept = [];

    const compare = (what, expected, render) => {
      let got;
      let error;
      try {
        got = render();
      } catch (thrown) {
        error = thrown;
      }
      if (expected.text !== undefined && ADDRESS.test(expected.text)) {
        if (got === undefined) return campaign.count('addresses, refused');
        return campaign.violation('rendered an address', `${what}\n${got}`);
      }
      const shown = (text) => JSON.stringify(text).slice(0, 400);
      if (expected.text === undefined) {
        if (got === undefined) campaign.count('refused by both');
        else campaign.violation('rendered what the reference refuses', `${what}\n${expected.error}\n${shown(got)}`);
      } else if (got === undefined) {
        campaign.count('refused by us alone');
        campaign.say(`refused: ${error.message}: ${what.slice(0, 300)}`);
      } else if (got === expected.text) campaign.count('the same');
      else campaign.violation('another text', `${what}\n${shown(expected.text)}\n${shown(got)}`);
      return got !== undefined && got === expected.text;
    };

    const drawer = new TemplateDrawer(campaign.random);
    for (let left = campaign.number('cases', 0); left > 0 && campaign.goesOn; left -= BATCH) {
      const templates = Array.from({ length: Math.min(BATCH, left) }, () => drawer.template());
      const expected = await referenceTexts(
        campaign.values.python,
        NOW,
        templates.map((template) => `{"template":${JSON.stringify(template)},"variables":${VARIABLES}}`),
      );
      templates.forEach((template, i) => {
        const variables = readWithSpelling(VARIABLES);
        const same = compare(template, expected[i], () =>
          new Template(template).render({ variables, now, messages: 1, size: VARIABLES.length }),
        );
        if (same && template.length < 300) kept.push([template, expected[i].text]);
      });
    }
    if (campaign.values.keep)
      writeFileSync(
        campaign.values.keep,
        `${JSON.stringify({ variables: VARIABLES, now: NOW, rendered: kept.slice(0, 400) }, undefined, 1)}\n`,
      );

    const { templates: folder, huggingface } = campaign.values;
    const files = folder === undefined ? [] : readdirSync(folder).filter((name) => name.endsWith('.jinja'));
    const named = [
      ...files.map((name) => ({ name, source: readFileSync(join(folder, name), 'utf8') })),
      ...(huggingface === undefined ? [] : huggingFaceTemplates(huggingface)),
    ];
    const chats = CONVERSATIONS.map((chat) =>
      Object.entries(chat)
        .map(([field, value]) => `"${field}":${value}`)
        .join(','),
    );
    const cases = named.flatMap(({ source }) =>
      chats.map((chat) => `{"template":${JSON.stringify(source)},"chat":{${chat}}}`),
    );
    const expected = [];
    for (let at = 0; at < cases.length; at += BATCH)
      expected.push(...(await referenceTexts(campaign.values.python, NOW, cases.slice(at, at + BATCH))));
    named.forEach(({ name, source }, nth) => {
      const template = new ChatTemplate(source, { bos_token: '<s>', eos_token: '</s>' }, {});
      CONVERSATIONS.forEach((chat, i) => {
        const read = (field) => (chat[field] === undefined ? undefined : readWithSpelling(chat[field]));
        const documents = read('documents');
        compare(`${name}, conversation ${i}`, expected[nth * CONVERSATIONS.length + i], () =>
          template.render(read('messages'), {
            tools: read('tools'),
            templateArgs: { ...read('args'), ...(documents && { documents }) },
            now,
          }),
        );
      });
      campaign.count('templates of peers');
    });
  },
);
