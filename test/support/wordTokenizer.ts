import { RowError } from '../../src/errors/RowError.js';
import type { Tokenizer } from '../../src/model/Tokenizer.js';

/** A tokenizer of characters: 'a' is 0, 'b' is 1, …; 26 ends a row. For tests of what stands around a tokenizer. */
export function letterTokenizer(): Tokenizer {
  const decode = (tokens: readonly number[]): string =>
    tokens.map((token) => (token < 26 ? String.fromCharCode(97 + token) : '')).join('');
  const encode = (text: string): number[] => [...text].map((letter) => letter.charCodeAt(0) - 97);
  return {
    vocabularySize: 27,
    beginToken: undefined,
    endTokens: new Set([26]),
    hasChatTemplate: true,
    controlToken: () => undefined,
    encode,
    *encodeInParts(text, options) {
      yield;
      return this.encode(text, options);
    },
    decode,
    stream: () => ({ push: (token) => decode([token]), end: () => '' }),
    text: (token) => decode([token]),
    renderChat: (messages) => messages.map(({ content }) => content).join(''),
    encodeChat: (messages) => {
      if (messages.some(({ role }) => role === 'nobody')) throw new RowError('chat-template', 'no such role');
      return messages.flatMap(({ content }) => encode(typeof content === 'string' ? content : ''));
    },
    *encodeChatInParts(messages, options) {
      yield;
      return this.encodeChat(messages, options);
    },
  };
}
