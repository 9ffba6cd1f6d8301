import type { RunStats } from '../RunStats.js';
import { ATTRIBUTES, SPAN_NAMES, TRACER } from './names.js';
import { type Span, startSpan } from './spans.js';

/** The options of a call that a span tells of. */
interface SpanOptions {
  readonly maxNewTokens?: number;
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly seed?: number;
  readonly stop?: readonly string[];
  readonly presencePenalty?: number;
  readonly frequencyPenalty?: number;
  readonly samples?: number;
  readonly priority?: number;
}

/** The span of a call of an engine; undefined where nobody traces. */
export function callSpan(task: keyof typeof SPAN_NAMES.call, model: string, options: SpanOptions): Span | undefined {
  const operation = SPAN_NAMES.call[task];
  return startSpan(
    () => `${operation} ${model}`,
    () => ({
      [ATTRIBUTES.operation]: operation,
      [ATTRIBUTES.provider]: TRACER,
      [ATTRIBUTES.model]: model,
      [ATTRIBUTES.maxTokens]: options.maxNewTokens,
      [ATTRIBUTES.temperature]: options.temperature,
      [ATTRIBUTES.topP]: options.topP,
      [ATTRIBUTES.topK]: options.topK,
      [ATTRIBUTES.seed]: options.seed,
      [ATTRIBUTES.stop]: options.stop && [...options.stop],
      [ATTRIBUTES.presencePenalty]: options.presencePenalty,
      [ATTRIBUTES.frequencyPenalty]: options.frequencyPenalty,
      [ATTRIBUTES.choices]: options.samples,
      [ATTRIBUTES.priority]: options.priority,
    }),
  );
}

/** Gives the figures of a call as a span has them. */
export function figuresOf({ rows, tokens, sharing }: RunStats): Readonly<Record<string, number>> {
  return {
    [ATTRIBUTES.inputTokens]: tokens.prompt,
    [ATTRIBUTES.outputTokens]: tokens.generated,
    [ATTRIBUTES.cachedTokens]: sharing.promptTokensSaved,
    [ATTRIBUTES.rowsDone]: rows.done,
    [ATTRIBUTES.rowsFailed]: rows.failed,
    [ATTRIBUTES.rowsCut]: rows.cut,
  };
}
