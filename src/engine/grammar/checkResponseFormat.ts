import { loadAddon } from '../../bindings/loadAddon.js';
import type { ResponseFormat } from '../../rows/responseFormat.js';
import { Grammars, type GrammarTokenizer } from './Grammars.js';

/** The 256 bytes, and an end. */
const BYTES = 256;
const ANY_TOKENIZER: GrammarTokenizer = {
  answerBytes: (token: number): Uint8Array => (token < BYTES ? Uint8Array.of(token) : new Uint8Array()),
  endTokens: new Set([BYTES]),
  controlToken: () => undefined,
  encodeInParts: (text) => [...Buffer.from(text)],
};

/**
 * Looks whether answers can be held to a format at all, whatever the model: before one is fetched or read. What its own
 * tokens cannot say is told where it is open.
 * @throws ResponseFormatError
 */
export async function checkResponseFormat(format: ResponseFormat): Promise<void> {
  if (format.type !== 'text') await new Grammars(loadAddon(), ANY_TOKENIZER, BYTES + 1).of(format);
}
