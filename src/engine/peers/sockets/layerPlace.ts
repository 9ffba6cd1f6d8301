/** Which of a model's layers an engine has. */
export interface LayerPlace {
  readonly first: number;
  readonly count: number;
  /** The model's layers in all. */
  readonly of: number;
}

/** The layer that the engine behind has to begin with. */
export function layerBehind({ first, count }: LayerPlace): number {
  return first + count;
}

export function hasLast(layers: LayerPlace): boolean {
  return layerBehind(layers) === layers.of;
}

/** `layers 4 to 7 of 12`, counted from 0. */
export function layerWords({ first, count, of }: LayerPlace): string {
  return `layers ${first} to ${first + count - 1} of ${of}`;
}
