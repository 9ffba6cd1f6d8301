import { cancellable } from '../../collections/cancellable.js';
import { IdSet } from '../../collections/IdSet.js';
import { RowError } from '../../errors/RowError.js';
import type { QuestionAnswer, Row, RowFailure, RowInput, RowResult } from '../../Row.js';
import { askedRow } from '../../rows/askedRow.js';
import { duplicateId, failedResult } from '../../rows/failedResult.js';
import { heldBytes } from '../../rows/heldBytes.js';
import type { SettledQuestion } from '../../rows/questions.js';
import { readableRow } from '../../rows/readableRow.js';

/** How many rows may be open at once, and how much they may take. */
export interface OpenLimits {
  readonly rows: number;
  readonly bytes: number;
  /** Rows that are answered and wait for an earlier one. */
  readonly waiting: number;
}

/** A row that has answers to come. */
interface OpenRow {
  readonly row: Row;
  readonly identity: Pick<RowResult, 'id' | 'index'>;
  readonly carry: RowResult['carry'];
  /** In the order of the input. */
  readonly place: number;
  readonly bytes: number;
  readonly answers: Map<string, RowResult>;
  /** Answers of questions that have one: what others ask for. */
  readonly texts: Map<string, string>;
  /** Questions that have not been asked. */
  readonly toAsk: Set<SettledQuestion>;
}

/** A question of a row that is under way; undefined for a row that was bad before it was asked anything. */
interface Asking {
  readonly open: OpenRow;
  readonly question: SettledQuestion | undefined;
}

/**
 * Rows that are asked several questions, as rows of one question each: those of one row follow one another, so that
 * what their prompts begin with, the row's own text, is computed once. A question that names earlier answers comes when
 * these are there, and before new rows. The results of a row's questions become its one result.
 */
export class AskedRows {
  private readonly asking = new Map<number, Asking>();
  private readonly toCome: RowInput[] = [];
  private readonly finished = new Map<number, RowResult>();
  private readonly ids = new IdSet();
  private openRows = 0;
  private openBytes = 0;
  private rows = 0;
  private asked = 0;
  /** The place whose result comes next. */
  private next = 0;
  private closed = false;
  private changed: () => void = () => undefined;
  readonly counts = { done: 0, failed: 0, cut: 0 };

  constructor(
    private readonly questions: readonly SettledQuestion[],
    private readonly limits: OpenLimits,
    private readonly inOrder: boolean,
  ) {}

  /** The rows that the engine is given. */
  async *feed(input: AsyncIterable<RowInput> | Iterable<RowInput>): AsyncGenerator<RowInput, void, undefined> {
    const reader = cancellable(input);
    let reading: Promise<IteratorResult<RowInput, void>> | undefined;
    let ended = false;
    try {
      for (;;) {
        const asked = this.toCome.shift();
        if (asked) {
          yield asked;
          continue;
        }
        if (this.closed || (ended && this.openRows === 0)) return;
        const change = new Promise<undefined>((resolve) => {
          this.changed = () => {
            resolve(undefined);
          };
        });
        if (!ended && this.hasRoom) reading ??= reader.next();
        // An answer on which a question waits must not wait for a source that takes its time.
        const step = await (reading && this.hasRoom ? Promise.race([reading, change]) : change);
        if (step === undefined) continue;
        reading = undefined;
        if (step.done === true) ended = true;
        else this.take(readableRow(step.value));
      }
    } finally {
      reading?.catch(() => undefined);
      reader.abort();
    }
  }

  /** Takes the result of a question; the results of rows that may go out with it. */
  receive(result: RowResult): readonly RowResult[] {
    const asking = this.asking.get(result.index);
    if (!asking) return [];
    this.asking.delete(result.index);
    const { open, question } = asking;
    if (question === undefined) return this.finish(open, { ...result, ...open.identity, ...carried(open) });
    this.answered(open, question, result);
    return this.goOn(open);
  }

  /** Results that wait for earlier rows, where no more will come. */
  rest(): readonly RowResult[] {
    const rest = [...this.finished].sort(([a], [b]) => a - b).map(([, result]) => result);
    this.finished.clear();
    return rest;
  }

  /** Nobody wants more. */
  close(): void {
    this.closed = true;
    this.changed();
  }

  private get hasRoom(): boolean {
    const { rows, bytes, waiting } = this.limits;
    return this.openRows === 0 || (this.openRows < rows && this.openBytes < bytes && this.finished.size < waiting);
  }

  private take(input: RowInput): void {
    const number = this.rows++;
    const index = input.index ?? number;
    const identity = { id: input.id ?? index + 1, index };
    const bytes = heldBytes(input, this.limits.bytes);
    const duplicate = input.duplicate ?? (input.id !== undefined && !this.ids.add(input.id));
    const open: OpenRow = {
      row: input as Row,
      identity,
      carry: input.carry,
      place: number,
      bytes,
      answers: new Map(),
      texts: new Map(),
      toAsk: new Set(this.questions),
    };
    this.openRows++;
    this.openBytes += bytes;
    if ('error' in input) this.send(open, undefined, { error: input.error });
    else if (duplicate) this.send(open, undefined, { error: duplicateId(identity.id) });
    else for (const question of this.questions) if (question.needs.length === 0) this.ask(open, question);
  }

  private ask(open: OpenRow, question: SettledQuestion): void {
    open.toAsk.delete(question);
    let row: RowInput;
    try {
      const { carry: _carry, id: _id, ...asked } = askedRow(open.row, question, open.texts);
      row = asked;
    } catch (error) {
      if (!(error instanceof RowError)) throw error;
      row = { error: { code: error.rowCode, message: error.message } };
    }
    this.send(open, question, row);
  }

  private send(open: OpenRow, question: SettledQuestion | undefined, row: RowInput): void {
    const number = this.asked++;
    this.asking.set(number, { open, question });
    // A copy that keeps what a row is asked, which is under a symbol.
    this.toCome.push({ ...row, id: number, index: number, duplicate: false });
  }

  private answered({ answers, texts }: OpenRow, { name }: SettledQuestion, result: RowResult): void {
    answers.set(name, result);
    if (!result.error) texts.set(name, result.text);
  }

  private goOn(open: OpenRow): readonly RowResult[] {
    const { answers, toAsk } = open;
    for (const question of [...toAsk]) if (question.needs.every((name) => answers.has(name))) this.ask(open, question);
    this.changed();
    return answers.size < this.questions.length ? [] : this.finish(open, this.resultOf(open));
  }

  private finish({ place, bytes }: OpenRow, result: RowResult): readonly RowResult[] {
    this.openRows--;
    this.openBytes -= bytes;
    if (result.error) this.counts.failed++;
    else this.counts.done++;
    if (result.finishReason === 'length') this.counts.cut++;
    this.changed();
    if (!this.inOrder) return [result];
    this.finished.set(place, result);
    const ready: RowResult[] = [];
    for (;;) {
      const first = this.finished.get(this.next);
      if (!first) return ready;
      this.finished.delete(this.next++);
      ready.push(first);
    }
  }

  private resultOf(open: OpenRow): RowResult {
    const { identity, answers } = open;
    const results = this.questions.map(
      ({ name }) => [name, answers.get(name) ?? failedResult(identity, NEVER)] as const,
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
      ...carried(open),
    };
  }
}

const NEVER: RowFailure = { code: 'invalid-row', message: 'it was not asked' };

function carried({ carry }: OpenRow): Pick<RowResult, 'carry'> {
  return carry === undefined ? {} : { carry };
}

/** What is wrong with a row is what is wrong with the first of its questions that failed. */
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
