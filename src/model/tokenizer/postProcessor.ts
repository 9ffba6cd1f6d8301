import { foundInFile } from '../../arguments/found.js';
import type { Fields, JsonObject } from '../files/Fields.js';
import { TOKENIZER_LIMITS } from '../files/limits.js';

/** Ids that a post-processor puts round every prompt. */
export interface Surroundings {
  readonly prefix: readonly number[];
  readonly suffix: readonly number[];
  /** The same of a pair of texts. Default: it is not said. */
  readonly pair?: PairSurroundings | undefined;
}

export interface PairSurroundings {
  readonly prefix: readonly number[];
  readonly middle: readonly number[];
  readonly suffix: readonly number[];
  /** So many tokens of the middle are of the first text's type; undefined where both texts are of one type. */
  readonly firstOfMiddle?: number | undefined;
}

const KNOWN = 'one of Sequence, TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing';

/** Reads tokenizer.json's `post_processor`, of single texts and of pairs. */
export function readPostProcessor(fields: Fields, value: unknown, field = 'post_processor', depth = 0): Surroundings {
  if (value === null || value === undefined) return { prefix: [], suffix: [] };
  const config = fields.object(field, value);
  fields.checkStep(field, 0, depth);
  switch (config.type) {
    case 'ByteLevel':
      return { prefix: [], suffix: [] };
    case 'Sequence': {
      let pair: PairSurroundings | undefined;
      let prefix: readonly number[] = [];
      let suffix: readonly number[] = [];
      fields.array(`${field}.processors`, config.processors).forEach((item, i) => {
        const outer = readPostProcessor(fields, item, `${field}.processors[${i}]`, depth + 1);
        // Each goes round what those before it have made; of those that join pairs real files have one.
        pair = outer.pair ?? pair;
        prefix = [...outer.prefix, ...prefix];
        suffix = [...suffix, ...outer.suffix];
        fields.atMost(field, prefix.length + suffix.length, TOKENIZER_LIMITS.surroundingTokens, 'tokens');
      });
      return { prefix, suffix, ...(pair && { pair }) };
    }
    case 'BertProcessing':
    case 'RobertaProcessing': {
      const prefix = [fields.tokenId(`${field}.cls`, fields.array(`${field}.cls`, config.cls)[1])];
      const suffix = [fields.tokenId(`${field}.sep`, fields.array(`${field}.sep`, config.sep)[1])];
      const pair =
        config.type === 'BertProcessing'
          ? { prefix, middle: suffix, suffix, firstOfMiddle: 1 }
          : { prefix, middle: [...suffix, ...suffix], suffix };
      return { prefix, suffix, pair };
    }
    case 'TemplateProcessing':
      return template(fields, field, config);
    default:
      return fields.refuse(`${field}.type`, foundInFile(config.type), KNOWN);
  }
}

function template(fields: Fields, field: string, config: JsonObject): Surroundings {
  const { prefix, suffix } = singleTemplate(fields, field, config.single, config.special_tokens);
  const pair = config.pair === undefined || config.pair === null ? undefined : pairTemplate(fields, field, config);
  return { prefix, suffix, ...(pair && { pair }) };
}

/** A piece that a template puts together: a text, by its name, or tokens; and the type that they have. */
type Piece =
  { readonly sequence: string; readonly type: number } | { readonly ids: readonly number[]; readonly type: number };

function piecesOf(fields: Fields, field: string, name: string, value: unknown, special: unknown): readonly Piece[] {
  let count = 0;
  return fields.array(`${field}.${name}`, value).map((item, i): Piece => {
    const at = `${field}.${name}[${i}]`;
    const entry = fields.object(at, item);
    if (entry.Sequence !== undefined) {
      const sequence = fields.object(at, entry.Sequence);
      return { sequence: fields.string(`${at}.Sequence.id`, sequence.id), type: typeOf(fields, at, sequence.type_id) };
    }
    const token = fields.object(at, entry.SpecialToken);
    const text = fields.string(`${at}.SpecialToken.id`, token.id);
    const specials = fields.object(`${field}.special_tokens`, special);
    const declared = Object.hasOwn(specials, text) ? specials[text] : undefined;
    const place = `${field}.special_tokens[${foundInFile(text)}]`;
    const ids = fields
      .array(`${place}.ids`, fields.object(place, declared).ids)
      .map((id) => fields.tokenId(`${place}.ids`, id));
    count += ids.length;
    fields.atMost(field, count, TOKENIZER_LIMITS.surroundingTokens, 'tokens');
    return { ids, type: typeOf(fields, at, token.type_id) };
  });
}

function typeOf(fields: Fields, at: string, value: unknown): number {
  if (value === undefined) return 0;
  return value === 0 || value === 1 ? value : fields.refuse(`${at}.type_id`, foundInFile(value), '0 or 1');
}

function singleTemplate(fields: Fields, field: string, value: unknown, special: unknown): Surroundings {
  const prefix: number[] = [];
  const suffix: number[] = [];
  let seen = false;
  piecesOf(fields, field, 'single', value, special).forEach((piece, i) => {
    if ('ids' in piece) {
      (seen ? suffix : prefix).push(...piece.ids);
      return;
    }
    if (seen || piece.sequence !== 'A')
      fields.refuse(`${field}.single[${i}]`, foundInFile(piece.sequence), 'the sequence A, once');
    seen = true;
  });
  if (!seen) fields.refuse(`${field}.single`, 'no sequence A', 'the sequence A, once');
  return { prefix, suffix };
}

/** A template of a pair; undefined for one that no encoder has: texts in another order, or types that come and go. */
function pairTemplate(fields: Fields, field: string, config: JsonObject): PairSurroundings | undefined {
  const parts: [number[], number[], number[]] = [[], [], []];
  const types: number[] = [];
  let at = 0;
  let middleOfFirst = 0;
  for (const piece of piecesOf(fields, field, 'pair', config.pair, config.special_tokens)) {
    if ('sequence' in piece) {
      if (piece.sequence !== 'AB'.charAt(at)) return undefined;
      at += 1;
    } else {
      parts[at as 0 | 1 | 2].push(...piece.ids);
      if (at === 1 && piece.type === 0) middleOfFirst += piece.ids.length;
    }
    types.push(piece.type);
  }
  const inOrder = types.every((type, i) => type >= (types[i - 1] ?? 0));
  if (at !== 2 || !inOrder) return undefined;
  const [prefix, middle, suffix] = parts;
  return { prefix, middle, suffix, ...(types.includes(1) && types[0] === 0 && { firstOfMiddle: middleOfFirst }) };
}
