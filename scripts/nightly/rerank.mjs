// Queries with many documents each, by a tiny cross-encoder and by a tiny model that is asked: scores are those of one
// document at a time, and what is asked before a document is computed once a query.
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runCampaign } from './lib/Campaign.mjs';
import { ROOT } from './lib/commandLine.mjs';
import { needBuild } from './lib/models.mjs';

const USAGE = `Reranks queries with many documents each, and then each document by itself: scores are equal, number by number.
  --queries N      (default 1000)
  --documents N    of each (default 30)
  --model FOLDER   a cross-encoder or Qwen3-Reranker in the place of the tiny ones`;

const WORDS =
  'who wrote faust goethe did it rained was written in weimar the weather is cold and how are you fine'.split(' ');
const CONTROL = ['<|im_start|>', '<|im_end|>', '<think>', '</think>'];
/** Words of what Qwen3-Reranker is told. */
const TOLD =
  'system Judge whether the Document meets requirements based on Query and Instruct provided Note that answer can only be yes or no user assistant Given a web search query retrieve relevant passages';

/** A tiny Qwen3 to which each word is a token, so that it can be asked. */
function tinyReranker(folder) {
  const path = join(folder, 'qwen3');
  cpSync(join(ROOT, 'test/fixtures/models/qwen3'), path, { recursive: true });
  const words = [...new Set([...TOLD.split(' '), ...WORDS, ...'<>:".,?'])];
  const tokens = ['[UNK]', ...CONTROL, ...words].slice(0, 250);
  writeFileSync(
    join(path, 'tokenizer.json'),
    JSON.stringify({
      added_tokens: CONTROL.map((content, at) => ({ id: at + 1, content, special: true, normalized: false })),
      pre_tokenizer: { type: 'Whitespace' },
      model: {
        type: 'WordLevel',
        vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
        unk_token: '[UNK]',
      },
    }),
  );
  return path;
}

async function scoresOf(engine, rows) {
  const results = engine.rerank(rows);
  const scores = [];
  for await (const { error, scores: own } of results) {
    if (error) throw new Error(error.message);
    scores.push(...own);
  }
  return { scores, stats: await results.stats };
}

await runCampaign(
  {
    usage: USAGE,
    options: {
      queries: { type: 'string', default: '1000' },
      documents: { type: 'string', default: '30' },
      model: { type: 'string' },
    },
    done: 'pairs scored',
  },
  async (campaign) => {
    needBuild();
    const { Engine } = await import('../../dist/index.js');
    const text = (least, most) =>
      Array.from({ length: campaign.random.whole(least, most) }, () => campaign.random.pick(WORDS)).join(' ');
    const rows = Array.from({ length: campaign.number('queries') }, (_, at) => ({
      // No two queries are alike: what they had in common would be shared, too.
      query: `${WORDS[at % WORDS.length]} ${WORDS[Math.floor(at / WORDS.length) % WORDS.length]} ${text(3, 8)}`,
      documents: Array.from({ length: campaign.number('documents') }, () => text(2, 12)),
    }));
    const alone = rows.flatMap(({ query, documents }) => documents.map((document) => ({ query, document })));
    const models = campaign.values.model
      ? { model: campaign.values.model }
      : {
          'cross-encoder': join(ROOT, 'test/fixtures/encoders/bert-pairs'),
          asked: tinyReranker(campaign.folder),
        };
    for (const [name, model] of Object.entries(models)) {
      const engine = await Engine.open({ model });
      try {
        const together = await scoresOf(engine, rows);
        const one = await scoresOf(engine, alone);
        const other = together.scores.findIndex(
          ({ score, logit }, at) => score !== one.scores[at]?.score || logit !== one.scores[at].logit,
        );
        if (together.scores.length !== alone.length || other >= 0)
          campaign.violation(
            `${name}: pair ${other} of ${alone.length}`,
            JSON.stringify([together.scores[other], one.scores[other]]),
          );
        campaign.count('pairs scored', together.scores.length);
        const { tokens, sharing, seconds } = together.stats;
        const computed = tokens.prompt - sharing.promptTokensSaved;
        campaign.set(`${name}: tokens`, tokens.prompt);
        campaign.set(`${name}: computed`, `${computed} (${((100 * computed) / tokens.prompt).toFixed(1)}%)`);
        campaign.set(`${name}: seconds`, seconds.wall.toFixed(1));
        const documents = alone.reduce((sum, { document }) => sum + document.split(' ').length, 0);
        // A query's tokens and all before them, once each, and of each document its own and what comes after it.
        if (name === 'asked') campaign.set('asked: tokens of documents', documents);
      } finally {
        await engine.close();
      }
    }
  },
);
