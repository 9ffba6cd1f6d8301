import { createHash } from 'node:crypto';
import type { GrammarAddon, GrammarKind, NativeGrammar, NativeVocabulary } from '../../bindings/Grammars.js';
import { fromNativeError, isNativeError } from '../../bindings/nativeCall.js';
import { ResponseFormatError } from '../../errors/ResponseFormatError.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import { formatText } from './formatText.js';
import { keywordPath } from './keywordPath.js';
import type { ResponseFormat } from '../../rows/responseFormat.js';
import { tokenTexts } from './tokenTexts.js';

/** What an engine keeps of compiled grammars, beside those of rows that it has: their number, and bytes of their texts (a compiled one takes up to some fifty times its text). */
export const GRAMMARS_KEPT = { count: 256, bytes: 2 * 2 ** 20 } as const;

/** A model's grammars: each format is compiled once, beside JavaScript, and kept while it is among the last ones. */
export class Grammars {
  private vocabulary: Promise<NativeVocabulary> | undefined;
  /** By format, the least recently used first. */
  private readonly kept = new Map<string, { readonly grammar: Promise<NativeGrammar>; readonly bytes: number }>();
  private keptBytes = 0;

  constructor(
    private readonly addon: GrammarAddon,
    private readonly tokenizer: Tokenizer,
    private readonly vocabularySize: number,
    /** Whether other engines have layers of the model. */
    private readonly shared = false,
  ) {}

  /** @throws ResponseFormatError for a format that answers cannot be held to, and where the addon has no grammars */
  async of(format: ResponseFormat): Promise<NativeGrammar> {
    if (this.shared) throw new ResponseFormatError('responseFormat: found one, expected none where engines share the layers of a model: tokens are sampled by another engine, which is told no grammar');
    if (!this.addon.grammars) {
      throw new ResponseFormatError(
        'responseFormat: found an addon without constrained decoding, for cargo was not there when it was built: install Rust\'s cargo (1.87 or newer) and build it again with `node scripts/install.mjs`',
      );
    }
    const { kind, text } = formatText(format);
    const key = `${kind} ${createHash('sha256').update(text).digest('hex')}`;
    const bytes = Buffer.byteLength(text);
    const entry = this.kept.get(key) ?? { grammar: this.compile(kind, text, format), bytes };
    if (!this.kept.delete(key)) this.keptBytes += bytes;
    this.kept.set(key, entry);
    for (const [oldest, { bytes: less }] of this.kept) {
      if (oldest === key || (this.kept.size <= GRAMMARS_KEPT.count && this.keptBytes <= GRAMMARS_KEPT.bytes)) break;
      this.kept.delete(oldest);
      this.keptBytes -= less;
    }
    return entry.grammar;
  }

  private async compile(kind: GrammarKind, text: string, format: ResponseFormat): Promise<NativeGrammar> {
    this.vocabulary ??= Promise.resolve().then(() => this.addon.createVocabulary(tokenTexts(this.tokenizer, this.vocabularySize)));
    const vocabulary = await this.vocabulary;
    try {
      return await this.addon.compileGrammar(vocabulary, kind, text);
    } catch (error) {
      const known = fromNativeError(error);
      throw isNativeError(known, 'invalid-argument') ? refusal((known as Error).message, format) : known;
    }
  }
}

/** What the compiler says, with the place in the schema where it names a keyword. */
function refusal(message: string, format: ResponseFormat): ResponseFormatError {
  const place = format.type === 'json_schema' ? placeOf(message, format.schema) : undefined;
  const where = place ? ` at ${place.path === '' ? 'the root' : place.path} (${place.keyword})` : '';
  return new ResponseFormatError(`responseFormat: found a ${WORDS[format.type]} that answers cannot be held to${where}: ${message}`, place?.path, place?.keyword);
}

const WORDS: Readonly<Record<ResponseFormat['type'], string>> = { json_schema: 'JSON Schema', regex: 'regular expression', grammar: 'grammar', choices: 'list of choices' };

function placeOf(message: string, schema: unknown): { readonly path: string; readonly keyword: string } | undefined {
  const list = /Unimplemented keys: (\[[^\]]*\])/.exec(message)?.[1];
  if (list !== undefined) return keywordPath(schema, JSON.parse(list) as string[]);
  const format = /Unknown format: (.*)/.exec(message)?.[1];
  if (format !== undefined) return keywordPath(schema, ['format'], (value) => value === format);
  if (/^multipleOf: /.test(message)) return keywordPath(schema, ['multipleOf']);
  if (message.includes('regular expression')) return keywordPath(schema, ['pattern', 'patternProperties']);
  if (/[Rr]esource|[Pp]ointer|retriev/.test(message)) return keywordPath(schema, ['$ref']);
  return undefined;
}
