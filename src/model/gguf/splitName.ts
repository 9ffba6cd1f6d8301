/** The name of one file of a split model: `name-00002-of-00005.gguf`, as llama.cpp writes it. */
export interface SplitName {
  readonly prefix: string;
  /** From 1. */
  readonly number: number;
  readonly count: number;
}

/** @returns undefined for a file name of another shape */
export function parseSplitName(fileName: string): SplitName | undefined {
  const [, prefix, number, count] = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/s.exec(fileName) ?? [];
  if (prefix === undefined || number === undefined || count === undefined) return undefined;
  return { prefix, number: Number(number), count: Number(count) };
}

export function formatSplitName({ prefix, number, count }: SplitName): string {
  return `${prefix}-${String(number).padStart(5, '0')}-of-${String(count).padStart(5, '0')}.gguf`;
}
