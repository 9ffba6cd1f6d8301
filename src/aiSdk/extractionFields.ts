import type {
  Experimental_ExtractionModelV4Answer,
  Experimental_ExtractionModelV4CallOptions,
  Experimental_ExtractionModelV4Field,
  Experimental_ExtractionModelV4Source,
} from '@ai-sdk/provider';
import { inputText } from './state.js';

export type Field = Experimental_ExtractionModelV4Field;
type State = Experimental_ExtractionModelV4CallOptions['state'];

const DATE = '[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])';
const CLOCK = '([01][0-9]|2[0-3]):[0-5][0-9]';
const PATTERNS = {
  date: `^${DATE}$`,
  time: `^${CLOCK}(:[0-5][0-9])?$`,
  datetime: `^${DATE}T${CLOCK}(:[0-5][0-9])?(Z|[+-]${CLOCK})?$`,
} as const;

export const FIELD_TYPES = ['text', 'number', 'date', 'time', 'datetime', 'duration', 'list'] as const;

/** Makes the schema answers are held to: of each field its value, or null. */
export function fieldsSchema(fields: Readonly<Record<string, Field>>): object {
  return {
    type: 'object',
    properties: Object.fromEntries(
      Object.entries(fields).map(([id, field]) => {
        const description = wordsOf(field);
        return [id, { anyOf: [valueSchema(field), { type: 'null' }], ...(description !== '' && { description }) }];
      }),
    ),
    required: Object.keys(fields),
    additionalProperties: false,
  };
}

function valueSchema(field: Field): object {
  switch (field.type) {
    case 'text':
      return { type: 'string' };
    case 'number':
      return { type: field.integer === true ? 'integer' : 'number' };
    case 'duration':
      return { type: field.integer === true ? 'integer' : 'number', minimum: 0 };
    case 'list': {
      const { items, integer } = field;
      return {
        type: 'array',
        items: valueSchema(items === 'number' ? { type: items, integer: integer === true } : { type: items }),
      };
    }
    default:
      return { type: 'string', pattern: PATTERNS[field.type] };
  }
}

/** Says what the model is told of a field beside its name. */
function wordsOf(field: Field): string {
  const unit = field.type === 'duration' ? (field.unit ?? 'seconds') : field.type === 'number' ? field.unit : undefined;
  return [
    ...(field.instructions == null ? [] : [inputText(field.instructions)]),
    ...(unit === undefined ? [] : [`In ${unit}.`]),
  ].join(' ');
}

/**
 * A field's answer of the value that the model has given: null where that is no such value after all, such as the
 * thirtieth of February.
 */
export function fieldAnswer(
  field: Field,
  given: unknown,
  confidence: number | undefined,
  state: State,
): Experimental_ExtractionModelV4Answer {
  const sure = confidence === undefined ? {} : { confidence: Math.min(1, confidence) };
  if (field.type === 'list') {
    const values = Array.isArray(given) ? given.map((item) => itemOf(field, item)) : [undefined];
    if (values.some((value) => value === undefined)) return { type: 'list', value: null, ...sure };
    const items = values.map((value) => sourced(value, state));
    return { type: 'list', value: values as string[] | number[], items, ...sure };
  }
  const value = valueOf(field, given);
  return {
    type: field.type,
    value: value ?? null,
    ...sure,
    ...sourced(value, state),
  } as Experimental_ExtractionModelV4Answer;
}

function itemOf({ items, ...bounds }: Extract<Field, { type: 'list' }>, given: unknown): string | number | undefined {
  return valueOf(items === 'number' ? { ...bounds, type: items } : { type: items }, given);
}

function valueOf(field: Exclude<Field, { type: 'list' }>, given: unknown): string | number | undefined {
  if (field.type === 'number' || field.type === 'duration') {
    if (typeof given !== 'number' || !Number.isFinite(given)) return undefined;
    const { decimals } = field;
    return decimals === undefined ? given : Number(given.toFixed(decimals));
  }
  if (typeof given !== 'string') return undefined;
  const dated = field.type === 'date' || field.type === 'datetime';
  return dated && !isDate(given.slice(0, 10)) ? undefined : given;
}

function isDate(text: string): boolean {
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().slice(0, 10) === text;
}

/** Where a value stands word for word. */
function sourced(value: unknown, state: State): { readonly source?: Experimental_ExtractionModelV4Source } {
  if (typeof value !== 'string' || value === '') return {};
  for (const [part, each] of state.entries()) {
    const start = each.type === 'text' ? each.text.indexOf(value) : -1;
    if (start >= 0) return { source: { type: 'text', part, start, end: start + value.length } };
  }
  return {};
}
