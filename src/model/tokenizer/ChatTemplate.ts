import { RowError } from '../../errors/RowError.js';
import { SpillwayError } from '../../errors/SpillwayError.js';
import { TOKENIZER_LIMITS } from '../files/limits.js';
import type { ChatMessage, ReasoningMarks, TemplateInput } from '../Tokenizer.js';
import { BoundedInterpreter } from './BoundedInterpreter.js';
import type { Guard } from './Guard.js';
import { Environment, type JinjaNode, Template } from './huggingFace.js';
import { registerGlobals } from './templateGlobals.js';

/** UTF-16 units whose time a message has on top of its own: templates do some things once a message. */
const UNITS_PER_MESSAGE = 100;

/** Members of a message that templates see. */
const MEMBERS = ['role', 'content', 'name', 'tool_calls', 'tool_call_id', 'reasoning_content'] as const;

function known(message: ChatMessage): Readonly<Record<string, unknown>> {
  return Object.fromEntries(MEMBERS.filter((name) => message[name] !== undefined).map((name) => [name, message[name]]));
}

/**
 * A model's chat template (Jinja), rendered within bounds: a template comes with the model's file and is not trusted.
 */
export class ChatTemplate {
  readonly #source: string;
  readonly #variables: Readonly<Record<string, string>>;
  readonly #guard: Guard;
  /** How parsing went, once it has been tried. */
  #parsed: { readonly program: JinjaNode } | { readonly failure: unknown } | undefined;

  /** @param variables texts that the template may use, such as `bos_token` and `eos_token` */
  constructor(source: string, variables: Readonly<Record<string, string>>, guard: Guard) {
    this.#source = source;
    this.#variables = variables;
    this.#guard = guard;
  }

  /** What it puts round reasoning; undefined where it names none of the marks that are known. */
  get reasoningMarks(): ReasoningMarks | undefined {
    return reasoningMarksIn(this.#source);
  }

  /** @throws RowError 'chat-template' if the template cannot be parsed, refuses the messages, or goes beyond a limit */
  render(messages: readonly ChatMessage[], { tools, templateArgs }: TemplateInput = {}): string {
    this.#guard.field = 'chat_template';
    try {
      const program = this.#program();
      const size = unitsOfChat(messages, { tools, templateArgs });
      return this.#guard.run(size + UNITS_PER_MESSAGE * messages.length, () => {
        const environment = new Environment();
        registerGlobals(environment);
        const own = { messages: messages.map(known), add_generation_prompt: true, tools: tools ?? null };
        const variables: Readonly<Record<string, unknown>> = {
          ...this.#variables,
          documents: null,
          ...templateArgs,
          ...own,
        };
        for (const [name, value] of Object.entries(variables)) environment.set(name, value);
        return new BoundedInterpreter(environment, messages.length, size).render(program);
      });
    } catch (error) {
      if (error instanceof SpillwayError) throw error;
      const reason = error instanceof Error ? error.message : String(error);
      throw new RowError(
        'chat-template',
        `the model's chat template failed on these messages: ${reason.slice(0, 500)}`,
        { cause: error },
      );
    }
  }

  /**
   * Parsed when it is first needed, since rows without messages do not need it; once, also where it fails: that may
   * take its time.
   */
  #program(): JinjaNode {
    this.#parsed ??= this.#parse();
    if ('failure' in this.#parsed) throw this.#parsed.failure;
    return this.#parsed.program;
  }

  #parse(): { readonly program: JinjaNode } | { readonly failure: unknown } {
    const { length } = this.#source;
    const most = TOKENIZER_LIMITS.templateUnits;
    if (length > most)
      return { failure: new Error(`chat_template: found ${length} UTF-16 units, expected at most ${most}`) };
    try {
      return { program: this.#guard.run(0, () => new Template(this.#source).parsed) };
    } catch (failure) {
      return { failure };
    }
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
function reasoningMarksIn(template: string): ReasoningMarks | undefined {
  return KNOWN.find(({ end }) => template.includes(end));
}

/**
 * UTF-16 units of all that a chat template is given: of messages their texts, of what is plain data how it is written
 * as JSON.
 */
export function unitsOfChat(messages: readonly ChatMessage[], { tools, templateArgs }: TemplateInput = {}): number {
  let units = tools || templateArgs ? JSON.stringify([tools, templateArgs]).length : 0;
  for (const { role, content, ...more } of messages) {
    units += role.length + (content?.length ?? 0);
    for (const value of Object.values(more))
      units += typeof value === 'string' ? value.length : (JSON.stringify(value) ?? '').length;
  }
  return units;
}
