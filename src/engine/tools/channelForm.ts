import type { Tokenizer } from '../../model/Tokenizer.js';
import { knownForm } from './heldTools.js';
import type { CalledTools } from './withCalls.js';

/** Tokens at the end of a prompt in which the assistant's turn is opened. */
const LAST_TOKENS = 32;

/** How answers are read that say what is reasoning by channels alone, as those of gpt-oss: without tools, too. */
export type Channels = Omit<CalledTools, 'required' | 'reasoning'>;

/** By tokenizer, found out once. */
const found = new WeakMap<Tokenizer, Channels | undefined>();

/** Undefined where a prompt asks for no answer on channels, or the model has none. */
export function channelForm(prompt: readonly number[], tokenizer: Tokenizer): Channels | undefined {
  if (!found.has(tokenizer)) found.set(tokenizer, channelsOf(tokenizer));
  const channels = found.get(tokenizer);
  if (channels?.form.opens === undefined) return undefined;
  const end = tokenizer.decode(prompt.slice(-LAST_TOKENS), { skipSpecial: false });
  return end.endsWith(channels.form.opens) ? channels : undefined;
}

function channelsOf(tokenizer: Tokenizer): Channels | undefined {
  const form = knownForm(tokenizer);
  if (form?.opens === undefined) return undefined;
  const markers = new Set(form.markers.filter((text) => tokenizer.controlToken(text) !== undefined));
  return { form, tools: new Map(), reasoned: { marks: undefined, open: false }, markers };
}
