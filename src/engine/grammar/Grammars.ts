import { createHash } from 'node:crypto';
import { linesOf } from '../../arguments/linesOf.js';
import type { GrammarAddon, GrammarKind, NativeGrammar, NativeVocabulary } from '../../bindings/Grammars.js';
import { inTurns } from '../../collections/inTurns.js';
import { fromNativeError, isNativeError } from '../../bindings/nativeCall.js';
import { ResponseFormatError } from '../../errors/RowError.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import { ANSWER_BOUNDS, EnforcedSchema } from '../../schema/EnforcedSchema.js';
import type { Json } from '../../schema/keywords.js';
import { UnsupportedSchema } from '../../schema/SchemaDocument.js';
import { choiceTree } from './choiceTokens.js';
import type { ChoiceTree } from './ChoiceTree.js';
import { jsonOf, type AnswerFormat } from './AnswerFormat.js';
import type { ReadAnswer } from '../tools/withCalls.js';
import { callableTools } from '../tools/callableTools.js';
import { textRule } from '../tools/heldText.js';
import type { Rules } from '../tools/Rules.js';
import { formNamed } from '../tools/forms/index.js';
import type { HeldTools } from '../tools/heldTools.js';
import { formatText, type HeldFormat } from './formatText.js';
import { tokenTexts } from './tokenTexts.js';

/**
 * The compiled grammars that an engine keeps, beside those of rows that it has: their number, and bytes of their texts
 * (a compiled one takes up to some fifty times its text).
 */
export const GRAMMARS_KEPT = { count: 256, bytes: 2 * 2 ** 20 } as const;

/** The part of a tokenizer grammars need. */
export type GrammarTokenizer = Pick<
  Tokenizer,
  'answerBytes' | 'endTokens' | 'controlToken' | 'reasoningMarks' | 'encodeInParts'
>;

type JsonFormat = Extract<HeldFormat, { readonly type: 'json_schema' }>;

/** A model's grammars: each format is compiled once, beside JavaScript, and kept while it is among the last ones. */
export class Grammars {
  private vocabulary: Promise<NativeVocabulary> | undefined;
  /** By form of calls: control tokens are text there, or end an answer. */
  private readonly vocabularies = new Map<string, Promise<NativeVocabulary>>();
  /** By format, the least recently used first. */
  private readonly kept = new Map<string, { readonly format: Promise<AnswerFormat>; readonly bytes: number }>();
  private keptBytes = 0;

  constructor(
    private readonly addon: GrammarAddon,
    private readonly tokenizer: GrammarTokenizer,
    private readonly vocabularySize: number,
    /** True where other engines have layers of the model. */
    private readonly shared = false,
  ) {}

  /** @throws ResponseFormatError for a format that answers cannot be held to, and where the addon has no grammars */
  async of(format: HeldFormat): Promise<AnswerFormat> {
    if (this.shared)
      throw new ResponseFormatError(
        'responseFormat: found one, expected none where engines share the layers of a model: tokens are sampled by another engine, which is told no grammar',
      );
    if (!this.addon.grammars) {
      throw new ResponseFormatError(
        "responseFormat: found an addon without constrained decoding, for cargo was not there when it was built: install Rust's cargo (1.87 or newer) and build it again with `node scripts/install.mjs`",
      );
    }
    const { kind, text } = formatText(format);
    const key = `${kind} ${createHash('sha256').update(text).digest('hex')}`;
    const bytes = Buffer.byteLength(text);
    const entry = this.kept.get(key) ?? { format: this.compile(kind, text, format), bytes };
    if (!this.kept.delete(key)) this.keptBytes += bytes;
    this.kept.set(key, entry);
    for (const [oldest, { bytes: less }] of this.kept) {
      if (oldest === key || (this.kept.size <= GRAMMARS_KEPT.count && this.keptBytes <= GRAMMARS_KEPT.bytes)) break;
      this.kept.delete(oldest);
      this.keptBytes -= less;
    }
    return entry.format;
  }

  private async compile(kind: GrammarKind, text: string, format: HeldFormat): Promise<AnswerFormat> {
    if (format.type === 'tools') return this.ofTools(format);
    if (format.type !== 'json_schema') {
      const grammar = await this.native(kind, text, format);
      return format.type === 'choices'
        ? choicesFormat(grammar, format.choices, this.tokenizer)
        : { grammar, read: asText };
    }
    const schema = await enforced(format);
    // One that a stop string ends is asked for twice, and looked at once.
    let looked: { readonly answer: string; readonly made: ReadAnswer } | undefined;
    const read = (answer: string): ReadAnswer => {
      const made = looked?.answer === answer ? looked.made : jsonOf(answer, schema);
      looked = undefined;
      return made;
    };
    return {
      grammar: await this.ofSchema(schema, format),
      read,
      isWhole: (answer) => {
        looked = { answer, made: jsonOf(answer, schema) };
        return 'value' in looked.made;
      },
    };
  }

  private async ofTools(format: HeldTools): Promise<AnswerFormat> {
    const { reasoningMarks: marks } = this.tokenizer;
    const form = formNamed(format.form);
    const tools = await callableTools(format.tools);
    const reasoned = { marks, open: format.open };
    const texts = [...form.markers, ...(marks ? [marks.start, marks.end] : [])];
    const control = { markers: texts.filter((text) => this.isControl(text)), stops: form.stops };
    let vocabulary = this.vocabularies.get(form.name);
    if (vocabulary === undefined) {
      vocabulary =
        control.markers.length === 0 && !form.stops.some((text) => this.isControl(text))
          ? this.usualVocabulary()
          : Promise.resolve().then(() =>
              this.addon.createVocabulary(tokenTexts(this.tokenizer, this.vocabularySize, control)),
            );
      this.vocabularies.set(form.name, vocabulary);
    }
    const { text: held } = format;
    const schema = held?.type === 'json_schema' ? await enforced(held) : undefined;
    const { choice, parallel } = format;
    const made = async (of: unknown): Promise<NativeGrammar> => {
      const text = held && ((rules: Rules): string => textRule(held, of, rules));
      const written = (holdsTexts: boolean): string =>
        JSON.stringify(form.grammar({ tools, choice, parallel, ...reasoned, text, holdsTexts }));
      const whole = written(true);
      try {
        return await this.native('composed', whole, format, vocabulary);
      } catch (error) {
        if (!(error instanceof ResponseFormatError)) throw error;
        // What texts have to be is looked at then, when a call is there.
        const looser = written(false);
        if (looser === whole) throw error;
        return await this.native('composed', looser, format, vocabulary);
      }
    };
    return {
      grammar: await (schema ? this.asTaken(schema, made) : made(undefined)),
      read: schema ? (answer) => jsonOf(answer, schema) : held?.type === 'choices' ? among(held.choices) : asText,
      calls: {
        form,
        tools,
        required: format.choice === 'required',
        reasoning: format.reasoning,
        markers: new Set(control.markers),
        held: held && { stops: held.type !== 'regex' },
        reasoned: {
          ...reasoned,
          held: held !== undefined,
          hidden: marks ? [marks.start, marks.end].filter((text) => this.isControl(text)) : [],
        },
      },
    };
  }

  private isControl(text: string): boolean {
    return this.tokenizer.controlToken(text) !== undefined;
  }

  private usualVocabulary(): Promise<NativeVocabulary> {
    return (this.vocabulary ??= Promise.resolve().then(() =>
      this.addon.createVocabulary(tokenTexts(this.tokenizer, this.vocabularySize)),
    ));
  }

  private ofSchema(schema: EnforcedSchema, format: HeldFormat): Promise<NativeGrammar> {
    return this.asTaken(schema, (grammar) => this.native('json_schema', JSON.stringify(grammar), format));
  }

  /**
   * Asks the library for less where it does not take a schema; what it does not take then is refused with its place.
   */
  private async asTaken(
    schema: EnforcedSchema,
    compiled: (grammar: Json) => Promise<NativeGrammar>,
  ): Promise<NativeGrammar> {
    const isRefusal = (error: unknown): error is ResponseFormatError => error instanceof ResponseFormatError;
    try {
      return await compiled(schema.grammar);
    } catch (error) {
      if (!isRefusal(error)) throw error;
    }
    try {
      return await compiled(await inTurns(schema.looser()));
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const isTaken = async (grammar: Json): Promise<boolean> => {
        try {
          await compiled(grammar);
          return true;
        } catch (refusal) {
          if (isRefusal(refusal)) return false;
          throw refusal;
        }
      };
      const reason = error.message.replace(/^[^:]*: [^:]*: /, '');
      throw new UnsupportedSchema(
        await schema.refusedAt(isTaken),
        undefined,
        `the grammar's engine refuses it: ${reason}`,
        {
          cause: error,
        },
      );
    }
  }

  private async native(
    kind: GrammarKind,
    text: string,
    { type }: HeldFormat,
    made = this.usualVocabulary(),
  ): Promise<NativeGrammar> {
    const vocabulary = await made;
    try {
      return await this.addon.compileGrammar(vocabulary, kind, text);
    } catch (error) {
      const known = fromNativeError(error);
      if (!isNativeError(known, 'invalid-argument')) throw known;
      throw new ResponseFormatError(
        `${type === 'tools' ? 'tools' : 'responseFormat'}: found ${WORDS[type]} that answers cannot be held to: ${inOneLine((known as Error).message)}`,
        undefined,
        undefined,
        { cause: error },
      );
    }
  }
}

function enforced({ schema, maxStringLength, maxArrayItems }: JsonFormat): Promise<EnforcedSchema> {
  const bounds = {
    stringLength: maxStringLength ?? ANSWER_BOUNDS.stringLength,
    items: maxArrayItems ?? ANSWER_BOUNDS.items,
  };
  return Promise.resolve(inTurns(EnforcedSchema.inParts(schema, bounds)));
}

/** The value of an answer that is a text. */
function asText(answer: string): ReadAnswer {
  return { value: answer };
}

function among(choices: readonly string[]): (answer: string) => ReadAnswer {
  return (answer) => (choices.includes(answer) ? { value: answer } : { problem: 'it is none of the choices' });
}

function choicesFormat(grammar: NativeGrammar, choices: readonly string[], tokenizer: GrammarTokenizer): AnswerFormat {
  const all = new Set(choices);
  let tree: Promise<ChoiceTree | undefined> | undefined;
  return {
    grammar,
    read: asText,
    isWhole: (answer) => all.has(answer),
    choices: () => (tree ??= Promise.resolve(inTurns(choiceTree([...all], tokenizer)))),
  };
}

const WORDS: Readonly<Record<HeldFormat['type'], string>> = {
  json_schema: 'a JSON Schema',
  regex: 'a regular expression',
  grammar: 'a grammar',
  choices: 'a list of choices',
  tools: 'tools',
};

/** Compilers draw over several lines where they stumbled. */
function inOneLine(message: string): string {
  // Where it panicked is nobody's business but its own.
  if (/panick?(ed)?\b|<backtrace>/.test(message)) return 'it is more than the engine can count in';
  const reason = /\nerror: ([^\n]*)/.exec(message)?.[1];
  if (reason === undefined) return linesOf(message).join(' ');
  return `${message.slice(0, message.indexOf('\n')).replace(/ \(in regex\): regex parse error:$/, '')}: ${reason}`;
}
