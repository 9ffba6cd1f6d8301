// Ids of tokenizers of XLM-RoBERTa's kind beside those of Hugging Face's library, of drawn strings of all of Unicode.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { runCampaign } from './lib/Campaign.mjs';
import { ROOT } from './lib/commandLine.mjs';
import { needBuild } from './lib/models.mjs';

const USAGE = `Has SentencePiece train unigram tokenizers with its maps of characters, and tokenizers encode drawn strings: not one id may differ.
  --python FILE    interpreter that has tokenizers and sentencepiece (default python3)
  --strings N      strings (default 20000)`;

await runCampaign(
  {
    usage: USAGE,
    options: { python: { type: 'string', default: 'python3' }, strings: { type: 'string', default: '20000' } },
    done: 'strings compared',
  },
  async (campaign) => {
    needBuild();
    const { createTokenizer } = await import('../../dist/model/createTokenizer.js');
    const child = spawn(
      campaign.values.python,
      [
        join(ROOT, 'scripts/nightly/lib/tokenizeWithHuggingFace.py'),
        String(campaign.seed),
        String(campaign.number('strings')),
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    let tokenizer;
    let name = '';
    for await (const line of createInterface({ input: child.stdout })) {
      const made = JSON.parse(line);
      if (!Array.isArray(made)) {
        ({ name } = made);
        const source = {
          kind: 'tokenizer.json',
          file: 'tokenizer.json',
          tokenizer: made.tokenizer,
          config: {},
          endTokens: [],
        };
        tokenizer = createTokenizer(source, 2 ** 20);
        campaign.count('tokenizers');
        continue;
      }
      const [text, expected] = made;
      const found = [...tokenizer.encode(text)];
      if (JSON.stringify(found) !== JSON.stringify(expected))
        campaign.violation(
          `${name}: ${JSON.stringify(text)}`,
          `found    ${JSON.stringify(found)}\nexpected ${JSON.stringify(expected)}`,
        );
      campaign.count('strings compared');
    }
  },
);
