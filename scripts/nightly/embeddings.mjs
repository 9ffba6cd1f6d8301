// Embeddings of the small real model in float32, under each pooling, beside those of transformers from the same file.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { runCampaign } from './lib/Campaign.mjs';
import { ROOT } from './lib/commandLine.mjs';
import { needBuild, realModel } from './lib/models.mjs';

const USAGE = `Embeds drawn texts with the small real model in float32, and has transformers do the same from the same file: no member may differ by more than 1e-3.
  --python FILE    interpreter that has torch, transformers and gguf (default python3)
  --rows N         texts (default 24)`;

/** Of a member of a vector of length 1. */
const MOST = 1e-3;
const WORDS = 'the a capital river of France boat three sons Ünïcödé 日本語 — 42 , . queue flows into sea slowly'.split(
  ' ',
);

function transformers(python, model, rows) {
  return new Promise((resolve, reject) => {
    const child = execFile(
      python,
      [join(ROOT, 'scripts/nightly/lib/embedWithTransformers.py'), model],
      { maxBuffer: 2 ** 29 },
      (error, stdout) => {
        if (error) reject(error);
        else resolve(JSON.parse(stdout.trim().split('\n').at(-1)));
      },
    );
    child.stdin.end(JSON.stringify(rows));
  });
}

await runCampaign(
  {
    usage: USAGE,
    options: { python: { type: 'string', default: 'python3' }, rows: { type: 'string', default: '24' } },
    done: 'embeddings compared',
  },
  async (campaign) => {
    needBuild();
    const model = await realModel(campaign);
    if (model === undefined) return;
    const { Engine } = await import('../../dist/index.js');
    const engine = await Engine.open({ model, precision: 'float32' });
    try {
      const rows = Array.from({ length: campaign.number('rows') }, () => {
        const words = Array.from({ length: campaign.random.whole(1, 200) }, () => campaign.random.pick(WORDS));
        return [...engine.tokenizer.encode(words.join(' '))];
      });
      const expected = await transformers(campaign.values.python, model, rows);
      let largest = 0;
      for (const pooling of ['last', 'mean', 'cls']) {
        for await (const { index, embedding, error } of engine.embed(
          rows.map((tokens) => ({ tokens })),
          { pooling, normalize: true },
        )) {
          const difference = error
            ? Infinity
            : Math.max(...expected[index][pooling].map((member, at) => Math.abs(member - embedding[at])));
          if (!(difference <= MOST))
            campaign.violation(
              `${pooling}, row ${index} of ${rows[index].length} tokens: ${error?.message ?? `differs by ${difference}`}`,
            );
          largest = Math.max(largest, difference);
          campaign.count('embeddings compared');
        }
      }
      campaign.set('largest difference', largest.toExponential(1));
    } finally {
      await engine.close();
    }
  },
);
