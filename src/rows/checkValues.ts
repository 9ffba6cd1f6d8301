import { RowError } from '../errors/RowError.js';
import { orRowError } from './readableRow.js';

/** Fields whose values are gone through one by one, several times over, to make a prompt of them. */
const FIELDS = ['messages', 'tools', 'toolChoice', 'tool_choice', 'templateArgs'] as const;

/**
 * Refuses a row whose conversation has more values than any has, before something is made of each of them.
 * @param most `ROW_LIMITS.conversationValues`
 * @throws RowError `limit`
 */
export function checkValues(row: Conversation, most: number): void {
  let exceeds: boolean;
  try {
    // Most rows have none of them.
    exceeds = FIELDS.some((name) => name in row) && hasTooManyValues(row, most);
  } catch (error) {
    throw orRowError(error);
  }
  if (exceeds)
    throw new RowError(
      'limit',
      `${FIELDS.filter((name) => isNested(row[name])).join(', ')}: found more than ${most} values in messages, tools and templateArgs together, expected at most so many`,
    );
}

type Conversation = Readonly<Partial<Record<(typeof FIELDS)[number], unknown>>>;

/** Tells whether a row is refused for too many values. What it throws its getters have thrown. */
export function hasTooManyValues(row: Conversation, most: number): boolean {
  const left: unknown[] = FIELDS.map((name) => row[name]).filter(isNested);
  let values = 0;
  for (let next = left.pop(); next !== undefined && values <= most; next = left.pop()) {
    // Members of one object are listed at once: a line of JSON holds a million at most.
    const members: readonly unknown[] = Array.isArray(next) ? next : Object.values(next as object);
    values += members.length;
    if (values <= most) for (const member of members) if (isNested(member)) left.push(member);
  }
  return values > most;
}

function isNested(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}
