import type { TokenLogprob } from '../../KeptAnswer.js';
import type { RowResult } from '../../Row.js';
import type { ServedEngine } from '../ServeOptions.js';

type Tokenizer = ServedEngine['tokenizer'];

/** The log-probabilities of an answer as OpenAI writes them, each of its routes in its own way; null without any. */
export function logprobsOf({ logprobs }: RowResult, text: boolean, tokenizer: Tokenizer): object | null {
  if (!logprobs) return null;
  if (!text) {
    const content = logprobs.map((each, at) => ({
      ...tokenOf(each, at === 0, tokenizer),
      top_logprobs: each.top.map((other) => tokenOf(other, at === 0, tokenizer)),
    }));
    return { content, refusal: null };
  }
  const tokens = logprobs.map(({ token }) => textOf(token, tokenizer));
  let offset = 0;
  return {
    tokens,
    token_logprobs: logprobs.map(({ logprob }) => logprob),
    top_logprobs: logprobs.map(({ top }) =>
      Object.fromEntries(top.map(({ token, logprob }) => [textOf(token, tokenizer), logprob])),
    ),
    text_offset: tokens.map((token) => {
      const at = offset;
      offset += token.length;
      return at;
    }),
  };
}

function tokenOf({ token, logprob }: TokenLogprob, first: boolean, tokenizer: Tokenizer): object {
  const bytes = tokenizer?.answerBytes?.(token, first);
  return { token: textOf(token, tokenizer), logprob, bytes: bytes ? [...bytes] : null };
}

/** Models without a tokenizer have tokens all the same. */
function textOf(token: number, tokenizer: Tokenizer): string {
  return tokenizer?.text(token) ?? `token_id:${token}`;
}
