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
  /** Its references are logits. */
  readonly classifies: boolean;
}

const folder = fileURLToPath(new URL('../../fixtures/encoders/', import.meta.url));

/** The tiny models that make_encoders.py made: folders, and GGUF files of the same weights. */
export const fixtureEncoders: readonly FixtureEncoder[] = readdirSync(folder).map((name) => {
  const base = name.replace(/-F16\.gguf$/, '');
  const { rows } = JSON.parse(readFileSync(`${folder}${base}/reference.json`, 'utf8')) as { rows: EncodedRow[] };
  return { name, path: `${folder}${name}`, rows, classifies: rows[0]?.logits !== undefined };
});

export function encoderNamed(name: string): FixtureEncoder {
  const found = fixtureEncoders.find((each) => each.name === name);
  if (!found) throw new RangeError(`there is no encoder ${name}`);
  return found;
}
