import type { AnyResult, RowGenerator, RowInput } from './library.js';

/** Errors that are shown in words. */
const SHOWN_ERRORS = 3;
const SHOWN_UNITS = 300;
/** More answers than this share that are empty are worth a word. */
const MANY_EMPTY = 0.2;

/**
 * The things that a person should hear of a run beside its figures: what was wrong with rows, and that a chat model got
 * raw text.
 */
export class RunWatch {
  readonly #errors: string[] = [];
  #failed = 0;
  #answers = 0;
  #empty = 0;
  #raw = 0;

  /**
   * @param rawText whether a row's `prompt`, or what a template makes of its fields, goes to the model as it is, unless
   * the row says otherwise
   * @param onResult told of each result
   */
  constructor(
    private readonly rawText: boolean,
    private readonly onResult: (result: AnyResult) => void = () => undefined,
  ) {}

  /** The engine, with all rows and results looked at on their way. */
  engine({ generate, classify, score, rerank, embed, ...engine }: Partial<RowGenerator>): RowGenerator {
    const watched =
      <Options, Result extends AnyResult>(answer: Answer<Options, Result>): Answer<Options, Result> =>
      (rows, options) =>
        this.results(answer(this.rows(rows), options));
    return {
      ...engine,
      generate: watched(generate ?? nothing),
      ...(classify && { classify: watched(classify) }),
      ...(score && { score: watched(score) }),
      ...(rerank && { rerank: watched(rerank) }),
      ...(embed && { embed: watched(embed) }),
    };
  }

  async *rows(rows: AsyncIterable<RowInput>): AsyncGenerator<RowInput, void, undefined> {
    for await (const row of rows) {
      if (
        this.rawText &&
        !('error' in row) &&
        (row.prompt !== undefined || row.fields !== undefined) &&
        row.chat === undefined
      )
        this.#raw += 1;
      yield row;
    }
  }

  async *results<Result extends AnyResult>(results: AsyncIterable<Result>): AsyncGenerator<Result, void, undefined> {
    for await (const result of results) {
      const { id, error, text, toolCalls } = result;
      this.onResult(result);
      if (error === undefined) {
        this.#answers += 1;
        if (text?.trim() === '' && toolCalls === undefined) this.#empty += 1;
      } else {
        this.#failed += 1;
        const words = `${error.code}: ${error.message}`;
        if (this.#errors.length < SHOWN_ERRORS)
          this.#errors.push(
            `row ${JSON.stringify(id)}: ${words.length > SHOWN_UNITS ? `${words.slice(0, SHOWN_UNITS)}…` : words}`,
          );
      }
      yield result;
    }
  }

  /**
   * Lines to say at the end. @param hasChatTemplate of the model @param hasTokenizer without one, no answer has a text
   */
  words(hasChatTemplate: boolean, hasTokenizer: boolean): string[] {
    const more = this.#failed - this.#errors.length;
    const errors = [...this.#errors, ...(more > 0 ? [`and ${more} more with an error`] : [])];
    if (hasChatTemplate && this.#raw > 0) {
      return [
        ...errors,
        `hint: ${this.#raw} ${this.#raw === 1 ? 'prompt' : 'prompts'} went to a chat model as raw text; --chat on sends them as a user's messages (--chat off: so it is meant)`,
      ];
    }
    if (hasTokenizer && this.#empty > MANY_EMPTY * this.#answers) {
      return [
        ...errors,
        `hint: ${this.#empty} of ${this.#answers} answers are empty: the model ended them at once; see --ignore-eos, --stop and --chat`,
      ];
    }
    return errors;
  }
}

type Answer<Options, Result> = (rows: AsyncIterable<RowInput>, options?: Options) => AsyncIterable<Result>;

/** For jobs that do something else. */
async function* nothing(): AsyncGenerator<never, void, undefined> {
  // No row has a result.
}
