/** An operation, and which others it waits for. */
export type Dependencies = Readonly<Record<string, readonly string[]>>;

/**
 * The levels of a graph of operations by Kahn's algorithm: each level holds what can start once all levels before it
 * are done. The widest one is how many operations may run at once (LM-Offload, algorithm 3, line 4).
 * @throws RangeError for a cycle, or a dependency that is no operation
 */
export function kahnLevels(graph: Dependencies): string[][] {
  const waiting = new Map(Object.entries(graph).map(([name, after]) => [name, new Set(after)]));
  for (const [name, after] of waiting)
    for (const other of after)
      if (!waiting.has(other)) throw new RangeError(`operation ${name} waits for ${other}, which is none`);
  const levels: string[][] = [];
  while (waiting.size > 0) {
    const ready = [...waiting].filter(([, after]) => after.size === 0).map(([name]) => name);
    if (ready.length === 0)
      throw new RangeError(`operations that wait for each other: ${[...waiting.keys()].slice(0, 5).join(', ')}`);
    levels.push(ready);
    for (const name of ready) waiting.delete(name);
    for (const after of waiting.values()) for (const name of ready) after.delete(name);
  }
  return levels;
}

/** Attention of one batch on the CPU, as the paper's figure 6 has it. */
export const ATTENTION_GRAPH: Dependencies = {
  query: [],
  key: [],
  value: [],
  appendKey: ['key'],
  appendValue: ['value'],
  scores: ['query', 'appendKey'],
  softmax: ['scores'],
  weighted: ['softmax', 'appendValue'],
  output: ['weighted'],
};
