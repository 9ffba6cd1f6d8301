import { isObject } from '../arguments/isObject.js';
import type { Json, JsonObject } from './keywords.js';

/** A draft of JSON Schema: 2019 is 2019-09, 2020 is 2020-12. */
export type Draft = 4 | 6 | 7 | 2019 | 2020;

/** By what `$schema` says, without its scheme and its empty fragment. */
const NAMES: ReadonlyMap<string, Draft | undefined> = new Map<string, Draft | undefined>([
  ['json-schema.org/draft-04/schema', 4],
  ['json-schema.org/draft-06/schema', 6],
  ['json-schema.org/draft-07/schema', 7],
  ['json-schema.org/draft/2019-09/schema', 2019],
  ['json-schema.org/draft/2020-12/schema', 2020],
  // Whichever is the latest: the same as none.
  ['json-schema.org/schema', undefined],
]);

export const EXPECTED_DRAFTS =
  'http://json-schema.org/draft-04/schema, draft-06, draft-07, https://json-schema.org/draft/2019-09/schema or 2020-12';

/** The draft of a `$schema`; `false` for one that is not known. */
export function draftNamed(address: string): Draft | undefined | false {
  const name = address.replace(/^https?:\/\//, '').replace(/\/?#?$/, '');
  return NAMES.has(name) ? NAMES.get(name) : false;
}

/** The first draft that has a keyword, where it is not the fourth: to an earlier one it says nothing. */
const SINCE: ReadonlyMap<string, Draft> = new Map([
  ...(['$id', 'const', 'contains', 'propertyNames'] as const).map((keyword) => [keyword, 6] as const),
  ...(['if', 'then', 'else'] as const).map((keyword) => [keyword, 7] as const),
  ...(
    [
      '$defs',
      '$anchor',
      'dependentRequired',
      'dependentSchemas',
      'minContains',
      'maxContains',
      'unevaluatedItems',
      'unevaluatedProperties',
    ] as const
  ).map((keyword) => [keyword, 2019] as const),
  ...(['prefixItems', '$dynamicRef', '$dynamicAnchor'] as const).map((keyword) => [keyword, 2020] as const),
]);

/** The `$dynamicAnchor` that `$recursiveAnchor` stands for; no anchor is called so. */
export const RECURSIVE = ' recursive';

/** A schema of some draft in the words of 2020-12. */
export interface Reading {
  readonly schema: JsonObject;
  /** The names of keywords where they are written, if they differ. */
  readonly written: ReadonlyMap<string, string>;
}

/**
 * Puts what a schema says in the words of 2020-12. One of no draft is read as 2020-12 with the older forms that mean
 * nothing there: tuples in `items`, `additionalItems` beside them, `dependencies`, `exclusiveMinimum: true`.
 */
export function inWordsOf2020(given: JsonObject, draft: Draft | undefined): Reading {
  const age = draft ?? 2020;
  const schema = Object.create(null) as Record<string, Json | undefined>;
  const written = new Map<string, string>();
  const say = (keyword: string, value: Json | undefined, as: string): void => {
    schema[keyword] = value;
    if (keyword !== as) written.set(keyword, as);
  };
  const alone = age <= 7 && typeof given['$ref'] === 'string';
  for (const [keyword, value] of Object.entries(given)) {
    if (alone && keyword !== '$ref' && keyword !== 'definitions') continue;
    if (value === undefined || age < (SINCE.get(keyword) ?? 4)) continue;
    switch (keyword) {
      case 'id':
        if (draft === 4) named(value, keyword, age, say);
        break;
      case '$id':
        named(value, keyword, age, say);
        break;
      case 'items':
        if (draft === 2020 || !Array.isArray(value)) say(keyword, value, keyword);
        else if (value.length > 0) say('prefixItems', value, keyword);
        break;
      case 'additionalItems':
        if (draft !== 2020 && Array.isArray(given['items'])) say('items', value, keyword);
        break;
      case 'dependencies':
        dependent(value, say);
        break;
      case 'minimum':
      case 'maximum': {
        const exclusive = keyword === 'minimum' ? 'exclusiveMinimum' : 'exclusiveMaximum';
        const isOpen = (draft === undefined || draft === 4) && given[exclusive] === true;
        say(isOpen ? exclusive : keyword, value, keyword);
        break;
      }
      case 'exclusiveMinimum':
      case 'exclusiveMaximum':
        if (typeof value !== 'boolean' || (draft !== undefined && draft !== 4)) say(keyword, value, keyword);
        break;
      case '$recursiveRef':
        if (age === 2019) say('$dynamicRef', value, keyword);
        break;
      case '$recursiveAnchor':
        if (age === 2019 && value === true) say('$dynamicAnchor', RECURSIVE, keyword);
        break;
      default:
        say(keyword, value, keyword);
    }
  }
  return { schema, written };
}

type Say = (keyword: string, value: Json | undefined, as: string) => void;

/** Before 2019-09 anchors are names of which nothing but the fragment is there. */
function named(value: Json | undefined, as: string, draft: Draft, say: Say): void {
  const [, address, anchor] = draft <= 7 && typeof value === 'string' ? (/^([^#]*)#(.+)$/.exec(value) ?? []) : [];
  if (anchor !== undefined) say('$anchor', anchor, as);
  if (address !== '') say('$id', address ?? value, as);
}

function dependent(value: Json | undefined, say: Say): void {
  if (!isObject(value)) {
    say('dependentSchemas', value, 'dependencies');
    return;
  }
  for (const [keyword, isNames] of [
    ['dependentRequired', true],
    ['dependentSchemas', false],
  ] as const) {
    const chosen = Object.create(null) as Record<string, Json | undefined>;
    for (const [name, one] of Object.entries(value)) if (Array.isArray(one) === isNames) chosen[name] = one;
    if (Object.keys(chosen).length > 0) say(keyword, chosen, 'dependencies');
  }
}
