import type { LanguageModelV4CallOptions } from '@ai-sdk/provider';
import type { Engines } from './Engines.js';
import { PROVIDER } from './errors.js';

/** A model of a provider, whatever it does: the engine that answers is opened when a call asks for it. */
export abstract class ProvidedModel {
  readonly specificationVersion = 'v4';
  readonly provider = PROVIDER;

  constructor(
    readonly modelId: string,
    protected readonly engines: () => Engines,
  ) {}
}

/** Tells whether a call asks for reasoning, of its own accord. */
export function wantsReasoning(reasoning: LanguageModelV4CallOptions['reasoning']): boolean {
  return reasoning !== undefined && reasoning !== 'provider-default' && reasoning !== 'none';
}
