type Fields = Readonly<Record<string, unknown>>;

export interface KeywordPlace {
  /** JSON pointer to the schema that has it. */
  readonly path: string;
  readonly keyword: string;
}

/** Keywords whose value is a schema, or a list of schemas. */
const SCHEMAS = [
  'items', 'additionalItems', 'prefixItems', 'contains', 'additionalProperties', 'propertyNames', 'unevaluatedItems', 'unevaluatedProperties',
  'allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else', 'contentSchema',
];
/** Those whose value has schemas under names of its own. */
const NAMED = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependencies'];
/** Nothing deeper is looked at. */
const MOST_DEPTH = 200;

/** Where in a schema one of some keywords stands first, of those whose value `matches`. Pure. */
export function keywordPath(schema: unknown, keywords: readonly string[], matches: (value: unknown) => boolean = () => true): KeywordPlace | undefined {
  return searchSchema(schema, '', 0);

  function searchSchema(value: unknown, path: string, depth: number): KeywordPlace | undefined {
    if (depth > MOST_DEPTH || typeof value !== 'object' || value === null) return undefined;
    if (Array.isArray(value)) return searchAll(Object.entries(value), path, depth);
    const fields = value as Fields;
    const keyword = keywords.find((name) => Object.hasOwn(fields, name) && matches(fields[name]));
    if (keyword !== undefined) return { path, keyword };
    for (const [name, within] of Object.entries(fields)) {
      const deeper = `${path}/${name}`;
      const place = NAMED.includes(name) && isFields(within) ? searchAll(Object.entries(within), deeper, depth) : SCHEMAS.includes(name) ? searchSchema(within, deeper, depth + 1) : undefined;
      if (place) return place;
    }
    return undefined;
  }

  function searchAll(schemas: readonly (readonly [string, unknown])[], path: string, depth: number): KeywordPlace | undefined {
    for (const [name, value] of schemas) {
      const place = searchSchema(value, `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`, depth + 1);
      if (place) return place;
    }
    return undefined;
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
