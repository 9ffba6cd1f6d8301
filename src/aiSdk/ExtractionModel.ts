import {
  type Experimental_ExtractionModelV4,
  type Experimental_ExtractionModelV4CallOptions,
  type Experimental_ExtractionModelV4Result,
  Experimental_ExtractionUnsupportedFieldTypeError,
} from '@ai-sdk/provider';
import { found } from '../arguments/found.js';
import { isObject, membersOf } from '../arguments/isObject.js';
import type { RowResult } from '../Row.js';
import { PROVIDER, rowErrorOf, wrongArgument } from './errors.js';
import { FIELD_TYPES, type Field, fieldAnswer, fieldsSchema } from './extractionFields.js';
import { mostTokens } from './LanguageModel.js';
import { wantsReasoning, ProvidedModel } from './ProvidedModel.js';
import { ownOptions } from './providerOptions.js';
import { stateText } from './state.js';

/** A model that takes values of fields out of a text: an answer that is held to their schema. */
export class ExtractionModel extends ProvidedModel implements Experimental_ExtractionModelV4 {
  readonly supportedFieldTypes = FIELD_TYPES;

  async doExtract(options: Experimental_ExtractionModelV4CallOptions): Promise<Experimental_ExtractionModelV4Result> {
    const { state, fields, referenceDate, maxOutputTokens, reasoning, abortSignal: signal } = options;
    const told = ownOptions('answer', options);
    const about = stateText(state);
    this.#check(fields);
    const dated = referenceDate === undefined ? '' : ` Dates are told from ${referenceDate}.`;
    const prompt = `Extract the fields from the text below. A field of which it says nothing is null.${dated}\n\n${about}`;
    return this.engines().with(this.modelId, { signal, prompt: state }, async (engine) => {
      const row = {
        prompt,
        chat: 'auto' as const,
        maxNewTokens: maxOutputTokens ?? mostTokens(engine),
        responseFormat: { type: 'json_schema' as const, schema: fieldsSchema(fields) },
        templateArgs: { enable_thinking: false },
      };
      let result: RowResult | undefined;
      for await (const each of engine.generate([row], {
        ...told,
        schemaInPrompt: true,
        confidence: true,
        ...(signal && { signal }),
      }))
        result = each;
      if (!result) throw new RangeError('found no answer');
      if (result.error) throw rowErrorOf(result.error, state);
      const { value, usage, fieldConfidence = {} } = result;
      const values = membersOf(value);
      return {
        answers: Object.fromEntries(
          Object.entries(fields).map(([id, field]) => [
            id,
            fieldAnswer(field, Object.hasOwn(values, id) ? values[id] : null, fieldConfidence[id]?.mean, state),
          ]),
        ),
        usage: { inputTokens: usage.promptTokens, outputTokens: usage.completionTokens },
        warnings: wantsReasoning(reasoning)
          ? [
              {
                type: 'unsupported',
                feature: 'reasoning',
                details: 'What is held to a schema has no reasoning in it.',
              },
            ]
          : [],
        response: { timestamp: new Date(), modelId: this.modelId },
      };
    });
  }

  #check(fields: Readonly<Record<string, Field>>): void {
    if (!isObject(fields) || Object.keys(fields).length === 0)
      throw wrongArgument('fields', `fields: found ${found(fields)}, expected at least one by its name`);
    for (const [id, field] of Object.entries(fields))
      if (!(FIELD_TYPES as readonly unknown[]).includes(membersOf(field)['type']))
        throw new Experimental_ExtractionUnsupportedFieldTypeError({
          fieldId: id,
          fieldType: String(membersOf(field)['type']),
          provider: PROVIDER,
          modelId: this.modelId,
        });
  }
}
