import { setImmediate } from 'node:timers/promises';
import type { Work } from '../../collections/drained.js';
import { RowError } from '../../errors/RowError.js';
import { SpillwayError } from '../../errors/SpillwayError.js';
import { TOKENIZER_LIMITS } from '../files/limits.js';
import type { ChatMessage, ReasoningMarks, TemplateInput } from '../Tokenizer.js';
import type { Guard } from './Guard.js';
import { TooLong } from './jinja/errors.js';
import { Template, type Given } from './jinja/Template.js';
import { ThreadRendering } from './ThreadRendering.js';

/** Members of a message that templates see. */
const MEMBERS = [
  'role',
  'content',
  'name',
  'tool_calls',
  'tool_call_id',
  'reasoning_content',
  'reasoning',
  'thinking',
] as const;

/** Names under which a message's reasoning comes, and that templates read; the first that is there counts. */
const REASONING = ['reasoning_content', 'thinking', 'reasoning'] as const;

/** A message as transformers hands it to templates: without what is null, and with its reasoning under all names. */
function prepared(message: ChatMessage): Readonly<Record<string, unknown>> {
  const known = Object.fromEntries(
    MEMBERS.flatMap((name) => {
      const value = message[name];
      return value === undefined || value === null ? [] : [[name, value] as const];
    }),
  );
  const reasoning = REASONING.map((name) => known[name]).find((value) => value !== undefined);
  return reasoning === undefined ? known : { thinking: reasoning, ...known, reasoning_content: reasoning };
}

interface Parsed {
  readonly source: string;
  readonly template: Template;
}

interface Begun extends Parsed {
  readonly given: Given;
}

/**
 * A model's chat template (Jinja), rendered within bounds: a template comes with the model's file and is not trusted.
 * A model may have several, of which `tool_use` is for rows with tools and `default` for the others.
 */
export class ChatTemplate {
  readonly #sources: ReadonlyMap<string, string>;
  readonly #variables: Readonly<Record<string, string>>;
  readonly #guard: Guard;
  readonly #parsed = new Map<string, Parsed | { readonly failure: unknown }>();

  /**
   * @param sources the template, or those that have names
   * @param variables texts that the template may use, such as `bos_token` and `eos_token`
   */
  constructor(
    sources: string | ReadonlyMap<string, string>,
    variables: Readonly<Record<string, string>>,
    guard: Guard,
  ) {
    this.#sources = typeof sources === 'string' ? new Map([[DEFAULT, sources]]) : sources;
    this.#variables = variables;
    this.#guard = guard;
  }

  /** The marks that it puts round reasoning; undefined where it names none of the marks that are known. */
  get reasoningMarks(): ReasoningMarks | undefined {
    return reasoningMarksIn(this.#sources.get(DEFAULT) ?? [...this.#sources.values()].join('\n'));
  }

  /** The one that is for rows with tools, as it is written. */
  get toolTemplate(): string | undefined {
    return this.#sources.get(TOOL_USE) ?? this.#sources.get(DEFAULT);
  }

  /** @throws RowError 'chat-template' if the template cannot be parsed, refuses the messages, or goes beyond a limit */
  render(messages: readonly ChatMessage[], input: TemplateInput = {}): string {
    return this.#orRefused(() => {
      const { template, given } = this.#begun(messages, input);
      return template.render(given);
    });
  }

  /** `render`, which does on a thread what would keep others from their turn. @throws RowError 'chat-template' */
  *renderInParts(messages: readonly ChatMessage[], input: TemplateInput = {}): Work<string> {
    const begun = this.#orRefused(() => this.#begun(messages, input));
    // In a turn of the event loop of its own, as it may take all of one. Who ends the run ends it here.
    if (begun.given.size > OWN_TURN_UNITS) yield setImmediate();
    const text = this.#orRefused(() => {
      try {
        return begun.template.render(begun.given, true);
      } catch (error) {
        if (error instanceof TooLong) return undefined;
        throw error;
      }
    });
    if (text !== undefined) return text;
    const rendering = new ThreadRendering(begun.source, begun.given);
    try {
      yield rendering.over;
    } finally {
      rendering.end();
    }
    const { rendered } = rendering;
    if (rendered && 'text' in rendered) return rendered.text;
    throw refusal(rendered?.failure);
  }

  /** @throws RowError 'chat-template' */
  #orRefused<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw refusal(error);
    }
  }

  #begun(messages: readonly ChatMessage[], input: TemplateInput): Begun {
    this.#guard.field = 'chat_template';
    const { tools, templateArgs, now = new Date() } = input;
    const own = { messages: messages.map(prepared), add_generation_prompt: true, tools: tools ?? null };
    return {
      ...this.#template(tools === undefined ? [DEFAULT] : [TOOL_USE, DEFAULT]),
      given: {
        variables: { ...this.#variables, documents: null, ...templateArgs, ...own },
        now: now === null ? undefined : new Date(now),
        messages: messages.length,
        size: unitsOfChat(messages, input),
      },
    };
  }

  /**
   * The first of these that the model has. Parsed when it is first needed, since rows without messages do not need it;
   * once, also where it fails: that may take its time.
   */
  #template(names: readonly string[]): Parsed {
    const name = names.find((each) => this.#sources.has(each));
    if (name === undefined)
      throw new Error(
        `found the templates ${[...this.#sources.keys()].map((each) => JSON.stringify(each)).join(', ')}, expected one named ${names.join(' or ')}`,
      );
    let parsed = this.#parsed.get(name);
    if (parsed === undefined) {
      parsed = parse(this.#sources.get(name) ?? '');
      this.#parsed.set(name, parsed);
    }
    if ('failure' in parsed) throw parsed.failure;
    return parsed;
  }
}

/** A chat of fewer units is rendered in some milliseconds, unless its template goes through it again and again. */
const OWN_TURN_UNITS = 2 ** 16;

/** The error of a row for what a rendering ended with. */
function refusal(error: unknown): SpillwayError {
  if (error instanceof SpillwayError) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new RowError('chat-template', `the model's chat template failed on these messages: ${reason.slice(0, 500)}`, {
    cause: error,
  });
}

const DEFAULT = 'default';
const TOOL_USE = 'tool_use';

function parse(source: string): Parsed | { readonly failure: unknown } {
  const { length } = source;
  const most = TOKENIZER_LIMITS.templateUnits;
  if (length > most)
    return { failure: new Error(`chat_template: found ${length} UTF-16 units, expected at most ${most}`) };
  try {
    return { source, template: new Template(source) };
  } catch (failure) {
    return { failure };
  }
}

/** Marks of the families whose models reason. */
const KNOWN: readonly ReasoningMarks[] = [
  { start: '<think>', end: '</think>' }, // Qwen 3, DeepSeek R1, SmolLM 3
  { start: '[THINK]', end: '[/THINK]' }, // Magistral
  { start: '<seed:think>', end: '</seed:think>' }, // Seed-OSS
  { start: '<|START_THINKING|>', end: '<|END_THINKING|>' }, // Command A Reasoning
];

/** The marks that a chat template names; undefined if none. */
export function reasoningMarksIn(template: string): ReasoningMarks | undefined {
  return KNOWN.find(({ end }) => template.includes(end));
}

/**
 * UTF-16 units of all that a chat template is given: of messages their texts, of what is plain data how it is written
 * as JSON.
 */
export function unitsOfChat(messages: readonly ChatMessage[], { tools, templateArgs }: TemplateInput = {}): number {
  let units = tools || templateArgs ? JSON.stringify([tools, templateArgs]).length : 0;
  for (const { role, content, ...more } of messages) {
    units += role.length;
    for (const value of [content, ...Object.values(more)])
      units += typeof value === 'string' ? value.length : (JSON.stringify(value) ?? '').length;
  }
  return units;
}
