import type { AddedToken } from './AddedTokens.js';
import type { ChatTemplate } from './ChatTemplate.js';
import type { Decoder } from './decoders.js';
import type { Guard } from './Guard.js';
import type { Normalizer } from './Normalizer.js';
import type { PreTokenizer } from './PreTokenizer.js';
import type { TokenModel } from './TokenModel.js';

/** What a tokenizer is put together from, whichever format it was read from. */
export interface TokenizerParts {
  /** What all that the files bring as pattern or program runs under. */
  readonly guard: Guard;
  /** Id to token; ids may have gaps. */
  readonly tokens: readonly (string | undefined)[];
  readonly addedTokens: readonly AddedToken[];
  readonly normalizer: Normalizer;
  readonly preTokenizer: PreTokenizer;
  readonly model: TokenModel;
  readonly decoder: Decoder;
  /** Ids put before and behind every prompt. */
  readonly prefix: readonly number[];
  readonly suffix: readonly number[];
  readonly beginToken: number | undefined;
  readonly endTokens: readonly number[];
  readonly chatTemplate: ChatTemplate | undefined;
}
