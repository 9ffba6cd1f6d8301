import { checkText } from '../arguments/checks.js';
import { found } from '../arguments/found.js';
import { UsageError } from '../errors/UsageError.js';
import { LIMITS } from './architectures/Fields.js';
import { isEncoder, type DecoderSpec } from './DecoderSpec.js';
import type { ModelSource } from './ModelSource.js';

export type KeyEviction = NonNullable<DecoderSpec['attention']['eviction']>;

const WORDS = 'none, or sinks:S,window:N with tokens from 0 and from 1';

/** Which keys and values a row keeps, as an option says it; undefined where it keeps all. @throws UsageError */
export function parseKeyEviction(name: string, value: string): KeyEviction | undefined {
  if (value === 'none') return undefined;
  const [, sinks, window] = /^sinks:(\d{1,8}),window:(\d{1,8})$/.exec(value) ?? [];
  const eviction = { sinks: Number(sinks), window: Number(window) };
  const { max } = LIMITS.context;
  if (!(eviction.sinks <= max && eviction.window >= 1 && eviction.window <= max))
    throw new UsageError(`${name}: found ${found(value)}, expected ${WORDS}`);
  return eviction;
}

export function checkKeyEviction(name: string, value: unknown): void {
  checkText(name, value, WORDS);
  parseKeyEviction(name, value);
}

/**
 * A model of which layers that would see all positions see a row's first ones and the last. Pure.
 * @throws UsageError for models that this is not computed of
 */
export function evictKeys(source: ModelSource, eviction: KeyEviction): ModelSource {
  const { decoder } = source;
  const refuse = (what: string, expected: string): never => {
    throw new UsageError(`kvEviction: found ${what}, expected ${expected}`);
  };
  if (isEncoder(decoder)) refuse('an encoder, which computes rows whole', 'none');
  if (decoder.position.kind === 'alibi') refuse('a model whose scores fall with distance (ALiBi)', 'none');
  return { ...source, decoder: { ...decoder, attention: { ...decoder.attention, eviction } } };
}
