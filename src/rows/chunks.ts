import { checkText, checkWhole } from '../arguments/checks.js';
import { UsageError } from '../errors/UsageError.js';
import { checkPromptTemplate, fieldsOfTemplate } from './promptTemplate.js';

/** How a row's own text is parted that may be longer than the model's context. */
export interface ChunkOptions {
  /**
   * Most tokens of a part of the row's own text: its `prompt`, the longest field of the template, or the last user
   * message. What the template, instructions and other messages say stands whole in each part. Parts end between
   * characters; one that alone has more tokens is a part. Default: the text stays whole.
   */
  readonly chunkTokens?: number;
  /** Tokens at the end of a part that the next one begins with. Default 0. */
  readonly chunkOverlap?: number;
}

/** Where a part stands in a row's own text, in characters (Unicode code points), the end not among them. */
export interface ChunkPlace {
  readonly start: number;
  readonly end: number;
}

/** Parts that a row's answer was merged of. */
export interface MergedParts {
  /** Parts of the row's own text. */
  readonly count: number;
  /** How often answers were merged to fewer: 0 where there is one part. */
  readonly levels: number;
}

/** Where the answers to be merged go. */
const ANSWERS = 'answers';

/** Options of a run that make several answers of one, or tell of one, or cut what is parted. */
const NOT_BESIDE = [
  'questions',
  'samples',
  'tools',
  'toolChoice',
  'parallelToolCalls',
  'logprobs',
  'onDelta',
  'truncate',
] as const;

/** Checks the options that tell a run of parts. @throws UsageError for options that have no meaning together */
export function checkChunkOptions(options: object): void {
  const given = options as Readonly<Record<string, unknown>>;
  const { chunkTokens, chunkOverlap, merge } = given;
  const alone = Object.entries({ chunkOverlap, merge }).find(([, value]) => value !== undefined)?.[0];
  if (chunkTokens === undefined && alone !== undefined)
    throw new UsageError(`${alone}: found it without \`chunkTokens\`, expected both: it says more of a row's parts`);
  if (chunkTokens === undefined) return;
  checkWhole('chunkTokens', chunkTokens, 1);
  if (chunkOverlap !== undefined) checkWhole('chunkOverlap', chunkOverlap, 0, chunkTokens - 1);
  if (merge !== undefined) checkMerge('merge', merge);
  const other = NOT_BESIDE.find((name) => given[name] !== undefined && given[name] !== 'off');
  if (other !== undefined) throw new UsageError(`${other}: found it beside chunkTokens, expected one of them`);
}

/** @throws UsageError for what is no text, and for braces that name no field */
export function checkMerge(name: string, merge: unknown): asserts merge is string {
  checkText(name, merge, 'what the model is told of the answers that it merges');
  if (merge.trim() === '') throw new UsageError(`${name}: found an empty text, expected what is to be made of answers`);
  if (merge.includes('{{')) checkPromptTemplate(name, merge);
}

/** A merge's prompt as a template that asks for `answers`, which go last where it does not say where. */
export function mergeTemplate(merge: string): string {
  return fieldsOfTemplate(merge).includes(ANSWERS) ? merge : `${merge}\n\n{{${ANSWERS}}}`;
}

/** Answers as a merge's template asks for them. */
export function mergeFields(
  fields: Readonly<Record<string, unknown>>,
  answers: readonly string[],
): Readonly<Record<string, unknown>> {
  return { ...fields, [ANSWERS]: answers.join(ANSWERS_BETWEEN) };
}

/** The text between two answers. */
const ANSWERS_BETWEEN = '\n\n';

/** Tells whether results have a row for each part. */
export function hasChunkRows({
  chunkTokens,
  merge,
}: {
  readonly chunkTokens?: unknown;
  readonly merge?: unknown;
}): boolean {
  return chunkTokens !== undefined && merge === undefined;
}

/** Names what makes a row's answers several. */
export function severalAnswers(options: {
  readonly questions?: unknown;
  readonly chunkTokens?: unknown;
  readonly merge?: unknown;
}): 'questions' | 'chunkTokens' | undefined {
  if (options.questions !== undefined) return 'questions';
  return hasChunkRows(options) ? 'chunkTokens' : undefined;
}
