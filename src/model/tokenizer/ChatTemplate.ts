import { RowError } from '../../errors/RowError.js';
import { SpillwayError } from '../../errors/SpillwayError.js';
import type { ChatMessage } from '../Tokenizer.js';
import { BoundedInterpreter } from './BoundedInterpreter.js';
import { Environment, Template, type JinjaNode } from './jinja.js';
import { registerGlobals } from './templateGlobals.js';
import { Watchdog } from './Watchdog.js';

const LONGEST_TEMPLATE = 1_000_000;

/** A model's chat template (Jinja), rendered within bounds: a template comes with the model's file and is not trusted. */
export class ChatTemplate {
  readonly #source: string;
  readonly #variables: Readonly<Record<string, string>>;
  #parsed: JinjaNode | undefined;
  readonly #watchdog = new Watchdog();

  /** @param variables texts that the template may use, such as `bos_token` and `eos_token` */
  constructor(source: string, variables: Readonly<Record<string, string>>) {
    this.#source = source;
    this.#variables = variables;
  }

  /** @throws RowError 'chat-template' if the template cannot be parsed, refuses the messages, or does not come to an end */
  render(messages: readonly ChatMessage[]): string {
    try {
      const program = (this.#parsed ??= parse(this.#source));
      const environment = new Environment();
      registerGlobals(environment);
      for (const [name, value] of Object.entries(this.#variables)) environment.set(name, value);
      environment.set('messages', messages.map(({ role, content }) => ({ role, content })));
      environment.set('add_generation_prompt', true);
      environment.set('tools', null);
      environment.set('documents', null);
      const size = messages.reduce((sum, { role, content }) => sum + role.length + content.length, 0);
      return this.#watchdog.run(() => new BoundedInterpreter(environment, messages.length, size).render(program));
    } catch (error) {
      if (error instanceof SpillwayError) throw error;
      const reason = error instanceof Error ? error.message : String(error);
      throw new RowError('chat-template', `the model's chat template failed on these messages: ${reason.slice(0, 500)}`, { cause: error });
    }
  }
}

function parse(source: string): JinjaNode {
  if (source.length > LONGEST_TEMPLATE) throw new Error(`found a template of ${source.length} characters, expected at most ${LONGEST_TEMPLATE}`);
  return new Template(source).parsed;
}
