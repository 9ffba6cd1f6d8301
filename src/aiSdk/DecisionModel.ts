import {
  type Experimental_DecisionModelV4,
  type Experimental_DecisionModelV4Answer,
  type Experimental_DecisionModelV4CallOptions,
  type Experimental_DecisionModelV4Question,
  type Experimental_DecisionModelV4Result,
  Experimental_DecisionUnsupportedQuestionTypeError,
  type SharedV4Warning,
  UnsupportedFunctionalityError,
} from '@ai-sdk/provider';
import { found } from '../arguments/found.js';
import { isObject } from '../arguments/isObject.js';
import type { Row } from '../Row.js';
import type { ServedEngine } from '../serve/ServeOptions.js';
import { PROVIDER, rowErrorOf, wrongArgument } from './errors.js';
import { wantsReasoning, ProvidedModel } from './ProvidedModel.js';
import { ownOptions } from './providerOptions.js';
import { inputText, stateText } from './state.js';

type Question = Experimental_DecisionModelV4Question;
type Answer = Experimental_DecisionModelV4Answer;

/** The question that is asked, what answers there are, and what their probabilities come to. */
interface Asked {
  readonly text: string;
  readonly labels: readonly string[];
  readonly answer: (probabilities: readonly number[]) => Answer;
}

const TYPES = ['choice', 'score', 'boolean'] as const;

/** A model that tells how likely the answers to questions are: one pass over the state serves them all. */
export class DecisionModel extends ProvidedModel implements Experimental_DecisionModelV4 {
  readonly supportedQuestionTypes = TYPES;

  async doDecide(options: Experimental_DecisionModelV4CallOptions): Promise<Experimental_DecisionModelV4Result> {
    const { state, questions, abortSignal: signal } = options;
    const told = { ...ownOptions('answer', options), ...(signal && { signal }) };
    const about = stateText(state);
    if (!isObject(questions) || Object.keys(questions).length === 0)
      throw wrongArgument('questions', `questions: found ${found(questions)}, expected at least one by its name`);
    const asked = Object.entries(questions).map(([id, question]) => [id, this.#asked(id, question)] as const);
    return this.engines().with(this.modelId, { signal, prompt: state }, async (engine) => {
      if (!engine.classify)
        throw new UnsupportedFunctionalityError({
          functionality: 'decision',
          message: `${this.modelId}: tells nothing apart`,
        });
      const rows = asked.map(([id, question]) => ({ id, ...rowOf(about, question, engine) }));
      const answers: (readonly [string, Answer])[] = [];
      let inputTokens = 0;
      for await (const { probabilities = {}, error, usage } of engine.classify(rows, told)) {
        if (error) throw rowErrorOf(error, state);
        const [id, { answer, labels }] = asked[answers.length] ?? never();
        answers.push([id, answer(labels.map((_, at) => Math.min(1, probabilities[nameOf(at)] ?? 0)))]);
        inputTokens += usage.promptTokens;
      }
      return {
        answers: Object.fromEntries(answers),
        usage: { inputTokens, outputTokens: 0 },
        warnings: warningsOf(options),
        response: { timestamp: new Date(), modelId: this.modelId },
      };
    });
  }

  #asked(id: string, question: Question): Asked {
    switch (question.type) {
      case 'choice': {
        const options = Object.entries(question.criteria);
        return {
          text: words(question, options, 'Answer with one of these alone.'),
          labels: options.map(([name]) => name),
          answer: (probabilities) => {
            const named = options.map(([name], at) => [name, probabilities[at] ?? 0] as const);
            const [[choice] = never()] = [...named].sort(([, a], [, b]) => b - a);
            return { type: 'choice', choice, probabilities: Object.fromEntries(named) };
          },
        };
      }
      case 'score': {
        const levels = question.criteria.map((level, at) => [String(at), level] as const);
        return {
          text: words(question, levels, 'Answer with the number of the level alone.'),
          labels: levels.map(([name]) => name),
          answer: (probabilities) => {
            const mean = probabilities.reduce((sum, probability, level) => sum + level * probability, 0);
            return {
              type: 'score',
              score: Math.min(mean, levels.length - 1),
              probabilities: Object.fromEntries(levels.map(([name], at) => [name, probabilities[at] ?? 0])),
            };
          },
        };
      }
      case 'boolean': {
        const { true: yes, false: no } = question.criteria ?? {};
        const told = [['Yes', yes] as const, ['No', no] as const].filter(([, criterion]) => criterion != null);
        return {
          text: words(question, told, 'Answer Yes or No.'),
          labels: ['Yes', 'No'],
          answer: ([probability = 0]) => ({ type: 'boolean', probability }),
        };
      }
      default:
        throw new Experimental_DecisionUnsupportedQuestionTypeError({
          questionId: id,
          questionType: question.type,
          provider: PROVIDER,
          modelId: this.modelId,
        });
    }
  }
}

/** A question in words, with what its answers mean. */
function words(
  { instructions }: Pick<Question, 'instructions'>,
  answers: readonly (readonly [name: string, meaning: unknown])[],
  ask: string,
): string {
  const listed = answers.map(([name, meaning]) => (meaning == null ? `- ${name}` : `- ${name}: ${inputText(meaning)}`));
  return [...(instructions == null ? [] : [inputText(instructions)]), ...listed, ask].join('\n');
}

/** The state goes first, so that all questions share what is computed of it. */
function rowOf(about: string, { text, labels }: Asked, { tokenizer }: ServedEngine): Row {
  const chat = tokenizer?.hasChatTemplate === true;
  const prompt = [about, text].filter((part) => part !== '').join('\n\n');
  return {
    prompt: chat ? prompt : `${prompt}\nAnswer:`,
    chat,
    ...(chat && { templateArgs: { enable_thinking: false } }),
    labels: labels.map((label, at) => ({ name: nameOf(at), text: chat || label === '' ? label : ` ${label}` })),
  };
}

/** Labels go by their numbers, as names of objects' members may be anything. */
function nameOf(at: number): string {
  return `label ${at}`;
}

function warningsOf({ maxOutputTokens, reasoning }: Experimental_DecisionModelV4CallOptions): SharedV4Warning[] {
  return [
    ...(maxOutputTokens === undefined ? [] : [unsupported('maxOutputTokens')]),
    ...(wantsReasoning(reasoning) ? [unsupported('reasoning')] : []),
  ];
}

function unsupported(feature: string): SharedV4Warning {
  return { type: 'unsupported', feature, details: 'Answers are weighed, and none is written.' };
}

function never(): never {
  throw new RangeError('found more results than questions');
}
