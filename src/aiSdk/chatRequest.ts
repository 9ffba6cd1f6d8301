import type { LanguageModelV4CallOptions, SharedV4Warning } from '@ai-sdk/provider';
import { found } from '../arguments/found.js';
import { isObject } from '../arguments/isObject.js';
import { wrongArgument } from './errors.js';
import { messagesOf } from './messages.js';
import { ownOptions, type SpillwayLanguageOptions } from './providerOptions.js';

/** A call's request, as OpenAI writes it and as lines of batch files and bodies of the server have it. */
export interface ChatRequest {
  readonly body: Readonly<Record<string, unknown>>;
  /** The part of `providerOptions` that is about the call rather than its row. */
  readonly call: Pick<SpillwayLanguageOptions, 'logprobs' | 'priority' | 'truncate' | 'schemaInPrompt'>;
  readonly warnings: SharedV4Warning[];
}

export type ChatOptions = Pick<
  LanguageModelV4CallOptions,
  | 'prompt'
  | 'maxOutputTokens'
  | 'temperature'
  | 'stopSequences'
  | 'topP'
  | 'topK'
  | 'presencePenalty'
  | 'frequencyPenalty'
  | 'responseFormat'
  | 'seed'
  | 'tools'
  | 'toolChoice'
  | 'reasoning'
  | 'providerOptions'
>;

/** Efforts that chat templates do not know, and the nearest that they do. */
const NEAREST_EFFORT: Readonly<Record<string, string>> = { minimal: 'low', xhigh: 'high', max: 'high' };

/**
 * The request that a call's options are.
 * @throws InvalidPromptError, InvalidArgumentError and UnsupportedFunctionalityError; what is wrong with a value is
 * found out where rows are
 */
export function chatRequest(options: ChatOptions): ChatRequest {
  const {
    minP,
    repetitionPenalty,
    minNewTokens,
    logitBias,
    stopTokenIds,
    badWords,
    parallelToolCalls,
    templateArgs,
    ...call
  } = ownOptions('language', options);
  const warnings: SharedV4Warning[] = [];
  const tools = toolsOf(options.tools, warnings);
  const { reasoning } = options;
  if (reasoning !== undefined && Object.hasOwn(NEAREST_EFFORT, reasoning))
    warnings.push({
      type: 'compatibility',
      feature: 'reasoning',
      details: `${reasoning} is ${NEAREST_EFFORT[reasoning]} to chat templates`,
    });
  const body = {
    messages: messagesOf(options.prompt),
    max_tokens: options.maxOutputTokens,
    temperature: options.temperature,
    stop: options.stopSequences,
    top_p: options.topP,
    top_k: options.topK,
    presence_penalty: options.presencePenalty,
    frequency_penalty: options.frequencyPenalty,
    seed: options.seed,
    response_format: formatOf(options.responseFormat),
    ...(tools.length > 0 && {
      tools,
      tool_choice: choiceOf(options.toolChoice),
      parallel_tool_calls: parallelToolCalls,
    }),
    min_p: minP,
    repetition_penalty: repetitionPenalty,
    min_tokens: minNewTokens,
    logit_bias: logitBias,
    stop_token_ids: stopTokenIds,
    bad_words: badWords,
    reasoning_effort: reasoning === 'provider-default' ? undefined : reasoning,
    chat_template_kwargs: templateArgs,
  };
  return { body: Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined)), call, warnings };
}

function toolsOf(given: LanguageModelV4CallOptions['tools'], warnings: SharedV4Warning[]): readonly object[] {
  if (given !== undefined && !Array.isArray(given))
    throw wrongArgument('tools', `tools: found ${found(given)}, expected an array`);
  return (given ?? []).flatMap((tool, at) => {
    if (!isObject(tool)) throw wrongArgument('tools', `tools[${at}]: found ${found(tool)}, expected a tool`);
    if (tool.type === 'provider') {
      warnings.push({ type: 'unsupported', feature: `provider-defined tool ${tool.id}` });
      return [];
    }
    const { type, name, description, inputSchema: parameters, inputExamples } = tool;
    if (type !== 'function')
      throw wrongArgument('tools', `tools[${at}].type: found ${found(type)}, expected function or provider`);
    if (inputExamples !== undefined)
      warnings.push({
        type: 'unsupported',
        feature: 'inputExamples',
        details: `of the tool ${name}: chat templates have no place for them`,
      });
    return [{ type, function: { name, ...(description !== undefined && { description }), parameters } }];
  });
}

function choiceOf(choice: LanguageModelV4CallOptions['toolChoice']): unknown {
  switch (choice?.type) {
    case undefined:
      return undefined;
    case 'auto':
    case 'none':
    case 'required':
      return choice.type;
    case 'tool':
      return { type: 'function', function: { name: choice.toolName } };
    default:
      throw wrongArgument('toolChoice', `toolChoice: found ${found(choice)}, expected auto, none, required or a tool`);
  }
}

/** JSON without a schema is any object. */
function formatOf(format: LanguageModelV4CallOptions['responseFormat']): unknown {
  if (format === undefined || format.type === 'text') return undefined;
  if (format.type !== 'json')
    throw wrongArgument('responseFormat', `responseFormat: found ${found(format)}, expected type text or json`);
  const { schema, name, description } = format;
  if (schema === undefined) return { type: 'json_object' };
  return {
    type: 'json_schema',
    json_schema: { name: name ?? 'answer', schema, ...(description !== undefined && { description }), strict: true },
  };
}
