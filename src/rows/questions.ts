import { checkText, checkWhole } from '../arguments/checks.js';
import { found } from '../arguments/found.js';
import { didYouMean } from '../arguments/nearest.js';
import { isObject } from '../arguments/isObject.js';
import { RowError } from '../errors/RowError.js';
import { UsageError } from '../errors/UsageError.js';
import { fieldsOfTemplate, hasStrayBraces } from './promptTemplate.js';
import { responseFormatOf, type ResponseFormat } from './responseFormat.js';

/** One of the questions that are asked about each row; at most one of `choices`, `schema` and `pattern`. */
export interface Question {
  /** The name of the answer: no two alike. In tables it names a column. */
  readonly name: string;
  /**
   * The question's text. It goes after the row's own text. `{{answers.NAME}}` is the answer to an earlier question,
   * `{{answers.NAME?}}` empty text where that is an error, `{{answers.NAME:TEXT}}` that text; `{{{{` is the text `{{`.
   */
  readonly text: string;
  /** The answer is one of these. */
  readonly choices?: readonly string[];
  /** The answer is JSON that satisfies this JSON Schema. */
  readonly schema?: unknown;
  /** The answer matches this regular expression as a whole. */
  readonly pattern?: string;
  /** Most new tokens of the answer. Default: what the row says, else the run. */
  readonly maxNewTokens?: number;
}

/** A question that has been checked. */
export interface SettledQuestion extends Pick<Question, 'name' | 'text' | 'maxNewTokens'> {
  readonly format: ResponseFormat | undefined;
  /** The earlier questions whose answers its text names. */
  readonly needs: readonly string[];
}

export const QUESTION_LIMITS = {
  /** Questions about a row. */
  questions: 64,
  /** UTF-16 units of a name, and of a text. */
  nameUnits: 64,
  textUnits: 2 ** 16,
} as const;

/** Before the name of a question whose answer is meant. */
const ANSWERS = 'answers.';
const MEMBERS = ['name', 'text', 'choices', 'schema', 'pattern', 'maxNewTokens'] as const;
const FORMATS = ['choices', 'schema', 'pattern'] as const;

/**
 * Settles the questions about each row.
 * @param called what errors call the list
 * @throws UsageError naming the question, its member, what was found and what was expected
 */
export function settledQuestions(called: string, given: unknown): readonly SettledQuestion[] {
  const { questions: most } = QUESTION_LIMITS;
  if (!Array.isArray(given) || given.length === 0 || given.length > most)
    throw new UsageError(
      `${called}: found ${Array.isArray(given) && given.length > 0 ? `${given.length} questions` : found(given)}, expected a list of 1 to ${most} questions, such as {"name": "topic", "text": "What is it about?"}`,
    );
  const before: SettledQuestion[] = [];
  for (const [at, question] of (given as readonly unknown[]).entries())
    before.push(settled(`${called}[${at}]`, question, before));
  return before;
}

function settled(place: string, given: unknown, before: readonly SettledQuestion[]): SettledQuestion {
  if (!isObject(given)) throw new UsageError(`${place}: found ${found(given)}, expected an object with name and text`);
  const { name, text, maxNewTokens } = given;
  checkName(`${place}.name`, name, before);
  // From here on its name says which one it is.
  const called = `${place} (${found(name)})`;
  const unknown = Object.keys(given).find((key) => !MEMBERS.some((member) => member === key));
  if (unknown !== undefined)
    throw new UsageError(
      `${called}: found the unknown ${found(unknown)}, expected any of ${MEMBERS.join(', ')}${didYouMean(unknown, MEMBERS)}`,
    );
  checkText(`${called}.text`, text, 'what is asked');
  if (text.trim() === '' || text.length > QUESTION_LIMITS.textUnits)
    throw new UsageError(
      `${called}.text: found ${text.trim() === '' ? 'an empty text' : `${text.length} UTF-16 units`}, expected a text of at most ${QUESTION_LIMITS.textUnits} units`,
    );
  const needs = neededBy(`${called}.text`, text, before);
  if (maxNewTokens !== undefined) checkWhole(`${called}.maxNewTokens`, maxNewTokens, 1, 2 ** 31 - 1);
  const format = formatOf(called, given);
  return { name, text, format, needs, ...(maxNewTokens !== undefined && { maxNewTokens }) };
}

function checkName(place: string, name: unknown, before: readonly SettledQuestion[]): asserts name is string {
  checkText(place, name, 'what the answer is called');
  // A name stands in templates and heads columns.
  if (name.trim() !== name || name.length === 0 || name.length > QUESTION_LIMITS.nameUnits || /[{}:?\p{C}]/u.test(name))
    throw new UsageError(
      `${place}: found ${found(name)}, expected a text of 1 to ${QUESTION_LIMITS.nameUnits} UTF-16 units without braces, colons, question marks and control characters, and no blank at its ends`,
    );
  if (before.some((other) => other.name === name))
    throw new UsageError(
      `${place}: found ${found(name)}, which an earlier question is called, expected each name once`,
    );
}

/** The earlier questions that a text names. @throws UsageError */
function neededBy(place: string, text: string, before: readonly SettledQuestion[]): readonly string[] {
  const names = before.map(({ name }) => name);
  const expected =
    names.length === 0
      ? 'no braces: the first question has no answer before it'
      : `{{${ANSWERS}NAME}} with the name of an earlier question: ${names.join(', ')}`;
  if (hasStrayBraces(text))
    throw new UsageError(`${place}: found braces that name no answer, expected ${expected} ({{{{ is the text {{)`);
  const needs = fieldsOfTemplate(text).map((field) => {
    const name = field.startsWith(ANSWERS) ? field.slice(ANSWERS.length) : undefined;
    if (name === undefined || !names.includes(name))
      throw new UsageError(
        `${place}: found {{${field}}}, expected ${expected}; what of a row goes before all questions its prompt template says`,
      );
    return name;
  });
  return [...new Set(needs)];
}

function formatOf(called: string, given: Readonly<Record<string, unknown>>): ResponseFormat | undefined {
  const [one, other] = FORMATS.filter((name) => given[name] !== undefined);
  if (one === undefined) return undefined;
  if (other !== undefined)
    throw new UsageError(`${called}: found ${one} and ${other}, expected one of them: an answer is held to one format`);
  const format = {
    choices: { type: 'choices', choices: given['choices'] },
    schema: { type: 'json_schema', schema: given['schema'] },
    pattern: { type: 'regex', regex: given['pattern'] },
  }[one];
  try {
    return responseFormatOf(format);
  } catch (error) {
    if (!(error instanceof RowError)) throw error;
    const message = error.message.replace(/^responseFormat\.(regex|schema)/, `.${one}`).replace(/^responseFormat/, '');
    throw new UsageError(`${called}${message}`, { cause: error });
  }
}

/** Tells whether there are questions that are asked once others are answered. */
export function areInTurn(questions: readonly SettledQuestion[]): boolean {
  return questions.some(({ needs }) => needs.length > 0);
}

/** The answers as a question's text asks for them. */
export function answerFields(
  answers: Iterable<readonly [name: string, text: string]>,
): Readonly<Record<string, string>> {
  return Object.fromEntries([...answers].map(([name, text]) => [`${ANSWERS}${name}`, text]));
}

/** Options of a run that say what each question says for itself, or make several answers of one, or tell of one. */
const NOT_BESIDE = ['samples', 'responseFormat', 'schema', 'tools', 'toolChoice', 'logprobs', 'onDelta'] as const;

/** @throws UsageError for options that have no meaning beside `questions` */
export function checkAskedOptions(options: object): void {
  const given = options as Readonly<Record<string, unknown>>;
  if (given['questions'] === undefined) return;
  const other = NOT_BESIDE.find((name) => given[name] !== undefined);
  if (other !== undefined) throw new UsageError(`${other}: found it beside questions, expected one of them`);
}
