import { RowError } from '../errors/RowError.js';
import type { Row } from '../Row.js';
import { answerFields, type SettledQuestion } from './questions.js';
import { filledTemplate } from './promptTemplate.js';

/** Under it a row holds what goes after its own text: no field of a file is called so. */
const QUESTION = Symbol('question');

/** A row that is asked something. */
type AskedRow = Row & { readonly [QUESTION]?: string };

/** Fields of a row that its questions say, or that make its answer several. */
const QUESTIONS_OWN = ['samples', 'responseFormat', 'tools', 'toolChoice', 'parallelToolCalls'] as const;

/** Gives a row's question, if it has one: it goes after the row's own text. */
export function questionOf(row: AskedRow): string | undefined {
  return row[QUESTION];
}

/** The same question in a copy of a row. */
export function withQuestionOf(row: AskedRow, copy: Row): Row {
  const { [QUESTION]: question } = row;
  return question === undefined ? copy : withQuestion(copy, question);
}

function withQuestion(row: Row, question: string): Row {
  return Object.assign({ ...row }, { [QUESTION]: question });
}

/**
 * A row as it is asked one of the questions.
 * @param answers of earlier questions: their texts
 * @throws RowError where it cannot be asked
 */
export function askedRow(row: Row, question: SettledQuestion, answers: ReadonlyMap<string, string>): Row {
  const own = QUESTIONS_OWN.find((name) => (row[name] ?? undefined) !== undefined);
  if (own !== undefined)
    throw new RowError('invalid-parameter', `${own}: found it in a row that is asked questions, expected none`);
  const { format, maxNewTokens } = question;
  const text = textOf(question, answers);
  return withQuestion(
    {
      ...row,
      // A question that is held to nothing is not held to what the run says either.
      ...(format && { responseFormat: format }),
      ...(maxNewTokens !== undefined && { maxNewTokens }),
    },
    text,
  );
}

function textOf({ text, needs }: SettledQuestion, answers: ReadonlyMap<string, string>): string {
  try {
    return filledTemplate(text, answerFields(answers));
  } catch (error) {
    if (!(error instanceof RowError) || error.rowCode !== 'missing-field') throw error;
    const missing = needs.find((name) => !answers.has(name)) ?? '';
    throw new RowError(
      'missing-field',
      `its text asks for the answer to ${JSON.stringify(missing)}, which is an error: {{answers.${missing}?}} makes that empty text`,
      { cause: error },
    );
  }
}
