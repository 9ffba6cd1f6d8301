import { RowError } from '../../errors/RowError.js';
import type { QuestionAnswer, Row, RowFailure, RowInput, RowResult } from '../../Row.js';
import { askedRow } from '../../rows/askedRow.js';
import { failedResult } from '../../rows/failedResult.js';
import type { SettledQuestion } from '../../rows/questions.js';
import type { RowIdentity } from '../../rows/identified.js';
import type { SplitPart, SplitRow } from './SplitRows.js';

/**
 * A row that is asked several questions, as rows of one question each, whose prompts begin with the row's own text. A
 * question that names earlier answers comes when these are there.
 */
export class AskedRow implements SplitRow<RowResult> {
  private readonly answers = new Map<string, RowResult>();
  /** Answers of questions that have one: what others ask for. */
  private readonly texts = new Map<string, string>();
  private readonly toAsk: Set<SettledQuestion>;

  constructor(
    private readonly row: Row,
    private readonly questions: readonly SettledQuestion[],
  ) {
    this.toAsk = new Set(questions);
  }

  next(): SplitPart<RowResult> | undefined {
    const question = [...this.toAsk].find(({ needs }) => needs.every((name) => this.answers.has(name)));
    if (!question) return undefined;
    this.toAsk.delete(question);
    return { row: this.asked(question), taken: (result) => this.answered(question, result) };
  }

  isDone(): boolean {
    return this.answers.size === this.questions.length;
  }

  result(identity: RowIdentity): RowResult {
    const results = this.questions.map(
      ({ name }) => [name, this.answers.get(name) ?? failedResult(identity, NEVER)] as const,
    );
    const wrong = results.find(([, { error }]) => error);
    const sum = (of: (usage: RowResult['usage']) => number): number =>
      results.reduce((total, [, { usage }]) => total + of(usage), 0);
    const truncated = results.flatMap(([, each]) => (each.truncated === undefined ? [] : [each.truncated]));
    const confidences = results.flatMap(([, { confidence }]) => (confidence === undefined ? [] : [confidence]));
    return {
      ...identity,
      text: '',
      answers: Object.fromEntries(results.map(([name, result]) => [name, answerOf(result)])),
      tokens: [],
      finishReason: wrong ? 'error' : results.some(([, each]) => each.finishReason === 'length') ? 'length' : 'stop',
      usage: {
        promptTokens: sum(({ promptTokens }) => promptTokens),
        completionTokens: sum(({ completionTokens }) => completionTokens),
      },
      ...(truncated.length > 0 && { truncated: Math.max(...truncated) }),
      ...(confidences.length > 0 && !wrong && { confidence: Math.min(...confidences) }),
      ...(wrong && { error: errorOf(wrong[0], wrong[1].error) }),
    };
  }

  private asked(question: SettledQuestion): RowInput {
    try {
      return askedRow(this.row, question, this.texts);
    } catch (error) {
      if (!(error instanceof RowError)) throw error;
      return { error: { code: error.rowCode, message: error.message } };
    }
  }

  private answered({ name }: SettledQuestion, result: RowResult): void {
    this.answers.set(name, result);
    if (!result.error) this.texts.set(name, result.text);
  }
}

const NEVER: RowFailure = { code: 'invalid-row', message: 'it was not asked' };

/** Makes the error of a row, which is that of the first of its questions that failed. */
function errorOf(name: string, { code, message }: RowFailure = NEVER): RowFailure {
  return { code, message: `question ${JSON.stringify(name)}: ${message}` };
}

function answerOf({
  text,
  value,
  reasoning,
  finishReason,
  attempts,
  confidence,
  leastConfidence,
  fieldConfidence,
  error,
}: RowResult): QuestionAnswer {
  return {
    text,
    ...(value !== undefined && { value }),
    ...(reasoning !== undefined && { reasoning }),
    finishReason,
    ...(attempts !== undefined && { attempts }),
    ...(confidence !== undefined && { confidence }),
    ...(leastConfidence !== undefined && { leastConfidence }),
    ...(fieldConfidence && { fieldConfidence }),
    ...(error && { error }),
  };
}
