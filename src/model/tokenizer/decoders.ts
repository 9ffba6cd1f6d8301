import { fromByteLevel } from './byteLevel.js';
import { compilePattern } from './compilePattern.js';
import { foundInFile } from '../../arguments/found.js';
import type { Fields } from '../files/Fields.js';
import { replaceMatches } from './growth.js';
import type { Guard } from './Guard.js';
import { metaspaceCharacter, prependScheme } from './PreTokenizer.js';
import { TokenBytes, type Part } from './TokenBytes.js';

/** One step of a decoder, with the state of one stream of tokens. */
export interface DecodeStage {
  /** Takes a part and emits what is final. */
  push(part: Part, emit: (part: Part) => void): void;
  /** Emits what was held back. The stage is not used afterwards. */
  end(emit: (part: Part) => void): void;
}

const utf8 = new TextEncoder();
const KNOWN = 'one of Sequence, ByteLevel, WordPiece, Metaspace, Replace, ByteFallback, Fuse, Strip';

/** tokenizer.json's `decoder`. */
export interface Decoder {
  /** The stages of a new stream. */
  readonly stages: () => DecodeStage[];
  /**
   * The bytes that one token comes to, by itself, first of its stream or not; undefined where they depend on its
   * neighbours.
   */
  readonly bytes: ((part: Part, first: boolean) => Uint8Array) | undefined;
}

/** Reads tokenizer.json's `decoder`. */
export function createDecoder(guard: Guard, value: unknown): Decoder {
  // Without a decoder the tokens are joined by blanks.
  if (value === null || value === undefined) {
    return { stages: () => [separated()], bytes: ({ text }, first) => utf8.encode(first ? text : ` ${text}`) };
  }
  const factories: (() => DecodeStage)[] = [];
  const chain = new TokenBytes();
  collect(guard, 'decoder', value, factories, { fused: false, chain });
  return { stages: () => factories.map((create) => create()), bytes: chain.bytes };
}

function collect(
  guard: Guard,
  field: string,
  value: unknown,
  out: (() => DecodeStage)[],
  state: { fused: boolean; readonly chain: TokenBytes },
  depth = 0,
): void {
  const { fields } = guard;
  const config = fields.object(field, value);
  fields.checkStep(field, out.length, depth);
  const add = (create: () => DecodeStage): void => {
    out.push(create);
  };
  switch (config.type) {
    case 'Sequence':
      fields.array(`${field}.decoders`, config.decoders).forEach((item, i) => {
        collect(guard, `${field}.decoders[${i}]`, item, out, state, depth + 1);
      });
      return;
    case 'ByteLevel':
      add(byteLevel);
      state.chain.last((part) => (part.verbatim ? utf8.encode(part.text) : fromByteLevel(part.text)));
      return;
    case 'ByteFallback':
      add(byteFallback);
      state.chain.last(({ text }) => {
        const byte = byteOf(text);
        return byte === undefined ? utf8.encode(text) : Uint8Array.of(byte);
      });
      return;
    case 'WordPiece': {
      const prefix = fields.replacement(`${field}.prefix`, config.prefix ?? '##');
      const cleanup = fields.flag(`${field}.cleanup`, config.cleanup, true);
      const joined = (text: string, first: boolean): string => wordPiece(text, first, prefix, cleanup);
      add(() => joinedPieces(joined));
      state.chain.change(joined);
      return;
    }
    case 'Fuse':
      state.fused = true;
      return;
    case 'Metaspace': {
      const replacement = metaspaceCharacter(fields, field, config);
      const drop = prependScheme(fields, field, config) !== 'never';
      add(() => metaspace(replacement, drop));
      state.chain.change((text, first) => text.replaceAll(replacement, first && drop ? '' : ' '));
      return;
    }
    case 'Replace': {
      const pattern = compilePattern(fields, `${field}.pattern`, config.pattern);
      const content = fields.replacement(`${field}.content`, config.content);
      const replace = (text: string): string => {
        guard.field = pattern.field;
        guard.steps.take(text.length);
        return replaceMatches(text, pattern, content, guard.steps);
      };
      add(state.fused ? () => whole(replace) : () => each(replace));
      if (state.fused) state.chain.depends();
      else state.chain.change(replace);
      return;
    }
    case 'Strip': {
      const character = fields.replacement(`${field}.content`, config.content);
      const start = count(fields, `${field}.start`, config.start);
      const stop = count(fields, `${field}.stop`, config.stop);
      if (!state.fused) state.chain.change((text) => strip(text, character, start, stop));
      else if (stop > 0 || start > 1) state.chain.depends();
      else if (start > 0) state.chain.dropFirst(utf8.encode(character));
      if (!state.fused) add(() => each((text) => strip(text, character, start, stop)));
      else if (stop > 0) add(() => whole((text) => strip(text, character, start, stop)));
      else add(() => stripStart(character, start));
      return;
    }
    default:
      fields.refuse(`${field}.type`, foundInFile(config.type), KNOWN);
  }
}

function count(fields: Fields, field: string, value: unknown): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > 1000)
    fields.refuse(field, foundInFile(value), 'a count up to 1000');
  return value;
}

function plain(text: string): Part {
  return { text, verbatim: false };
}

/** Each token by itself. */
function each(change: (text: string) => string): DecodeStage {
  return { push: (part, emit) => emit({ text: change(part.text), verbatim: part.verbatim }), end: () => undefined };
}

/** All tokens as one text; nothing is final before the end. */
function whole(change: (text: string) => string): DecodeStage {
  const texts: string[] = [];
  return { push: (part) => void texts.push(part.text), end: (emit) => emit(plain(change(texts.join('')))) };
}

function separated(): DecodeStage {
  let first = true;
  return {
    push: (part, emit) => {
      emit({ text: first ? part.text : ` ${part.text}`, verbatim: part.verbatim });
      first = false;
    },
    end: () => undefined,
  };
}

/** Blanks that written text has not, as the library takes them away token by token. */
const CLEANUPS: readonly (readonly [string, string])[] = [
  [' .', '.'],
  [' ?', '?'],
  [' !', '!'],
  [' ,', ','],
  [" ' ", "'"],
  [" n't", "n't"],
  [" 'm", "'m"],
  [' do not', " don't"],
  [" 's", "'s"],
  [" 've", "'ve"],
  [" 're", "'re"],
];

/** The beginning of each of them. */
const CLEANED_UP = / [.?!,'nd]/;

function wordPiece(token: string, first: boolean, prefix: string, cleanup: boolean): string {
  const goesOn = !first && prefix !== '' && token.startsWith(prefix);
  const text = first ? token : goesOn ? token.slice(prefix.length) : ` ${token}`;
  if (!cleanup || !CLEANED_UP.test(text)) return text;
  return CLEANUPS.reduce((made, [from, to]) => made.replaceAll(from, to), text);
}

function joinedPieces(joined: (text: string, first: boolean) => string): DecodeStage {
  let first = true;
  return {
    push: (part, emit) => {
      emit({ text: joined(part.text, first), verbatim: part.verbatim });
      first = false;
    },
    end: () => undefined,
  };
}

/** Bytes in GPT-2's alphabet; a character's bytes may come from several tokens. */
function byteLevel(): DecodeStage {
  const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });
  return {
    push: (part, emit) => {
      if (!part.verbatim) emit(plain(utf8.decode(fromByteLevel(part.text), { stream: true })));
      else emit(plain(utf8.decode() + part.text));
    },
    end: (emit) => emit(plain(utf8.decode())),
  };
}

const BYTE_TOKEN = /^<0x([0-9A-Fa-f]{2})>$/;

function byteOf(token: string): number | undefined {
  const byte = BYTE_TOKEN.exec(token)?.[1];
  return byte === undefined ? undefined : parseInt(byte, 16);
}

/**
 * Runs of byte tokens such as `<0xE2>`. As the reference has it, a run that is not UTF-8 as a whole becomes one U+FFFD
 * per byte, so nothing of a run is final before it ends.
 */
function byteFallback(): DecodeStage {
  const strict = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true });
  let bytes: number[] = [];
  const flush = (emit: (part: Part) => void): void => {
    if (bytes.length === 0) return;
    let text: string;
    try {
      text = strict.decode(Uint8Array.from(bytes));
    } catch {
      text = '\ufffd'.repeat(bytes.length);
    }
    bytes = [];
    emit(plain(text));
  };
  return {
    push: (part, emit) => {
      const byte = byteOf(part.text);
      if (byte !== undefined) {
        bytes.push(byte);
        return;
      }
      flush(emit);
      emit(part);
    },
    end: flush,
  };
}

function metaspace(replacement: string, dropFirst: boolean): DecodeStage {
  let first = true;
  return {
    push: (part, emit) => {
      emit(plain(part.text.replaceAll(replacement, first && dropFirst ? '' : ' ')));
      first = false;
    },
    end: () => undefined,
  };
}

/** Drops up to `most` of `character` at the start of the whole text. */
function stripStart(character: string, most: number): DecodeStage {
  let left = most;
  return {
    push: (part, emit) => {
      let { text } = part;
      while (left > 0 && text !== '') {
        if (text.startsWith(character)) {
          text = text.slice(character.length);
          left--;
        } else left = 0;
      }
      emit({ text, verbatim: part.verbatim });
    },
    end: () => undefined,
  };
}

function strip(text: string, character: string, start: number, stop: number): string {
  let from = 0;
  let to = text.length;
  for (let i = 0; i < start && from < to && text.startsWith(character, from); i++) from += character.length;
  for (let i = 0; i < stop && to > from && text.slice(from, to).endsWith(character); i++) to -= character.length;
  return text.slice(from, to);
}
