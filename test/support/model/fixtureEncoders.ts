import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** A row of test/fixtures/encoders, and what transformers makes of it. */
export interface EncodedRow {
  readonly tokens: readonly number[];
  /** Of a pair, where its second text begins. */
  readonly secondText?: number;
  readonly mean?: string;
  readonly cls?: string;
  readonly logits?: readonly number[];
}

export interface FixtureEncoder {
  readonly name: string;
  readonly path: string;
  readonly rows: readonly EncodedRow[];
  /** Texts, and pairs of them, and the logits of each, where the model has a tokenizer. */
  readonly texts: readonly (readonly [first: string, second: string | null, logits: readonly number[]])[];
  /** Its references are logits. */
  readonly classifies: boolean;
}

const folder = fileURLToPath(new URL('../../fixtures/encoders/', import.meta.url));

/** The tiny models that make_encoders.py made: folders, and GGUF files of the same weights. */
export const fixtureEncoders: readonly FixtureEncoder[] = readdirSync(folder).map((name) => {
  const base = name.replace(/-F16\.gguf$/, '');
  const { rows, texts = [] } = JSON.parse(readFileSync(`${folder}${base}/reference.json`, 'utf8')) as {
    rows: EncodedRow[];
    texts?: FixtureEncoder['texts'];
  };
  return { name, path: `${folder}${name}`, rows, texts, classifies: rows[0]?.logits !== undefined };
});

export function encoderNamed(name: string): FixtureEncoder {
  const found = fixtureEncoders.find((each) => each.name === name);
  if (!found) throw new RangeError(`there is no encoder ${name}`);
  return found;
}
