/** Which of a model's layers an engine has; or which share of all of them, from 0, of how many. */
export interface LayerPlace {
  readonly first: number;
  readonly count: number;
  /** The model's layers in all. */
  readonly of: number;
  readonly share?: number;
  readonly shares?: number;
  /** Each of the engines attends to some rows, with all heads. */
  readonly byRows?: boolean;
  /** It has all layers, and computes prompts for another engine of all layers. */
  readonly prompts?: boolean;
}

/** Tells whether `after` is the place that the engine after one with `before` has to have. */
export function follows(before: LayerPlace, after: LayerPlace): boolean {
  if (before.of !== after.of || before.shares !== after.shares || before.byRows !== after.byRows) return false;
  if (isWhole(before) || after.prompts === true) return isWhole(before) && after.prompts === true;
  return before.shares === undefined ? after.first === layerAfter(before) : after.share === shareAfter(before);
}

/** Tells whether the ring ends with this place. */
export function isLast(place: LayerPlace): boolean {
  return place.shares === undefined ? layerAfter(place) === place.of : shareAfter(place) === place.shares;
}

/** Tells whether the ring begins with this place. */
export function isFirst({ first, share = 0 }: LayerPlace): boolean {
  return first === 0 && share === 0;
}

/** `layers 4 to 7 of 12`, counted from 0; `share 1 of 2`. */
export function layerWords({ first, count, of, share, shares, byRows, prompts }: LayerPlace): string {
  if (prompts === true) return 'an engine that computes prompts';
  return shares === undefined
    ? `layers ${first} to ${first + count - 1} of ${of}`
    : `share ${share} of ${shares}${byRowsWords(byRows)}`;
}

/** Says in words what the next engine has to have. */
export function nextPlaceWords(before: LayerPlace): string {
  if (isWhole(before)) return 'an engine that computes prompts, since this one has all layers';
  return before.shares === undefined
    ? `the engine of layer ${layerAfter(before)} and those after it, of ${before.of}`
    : `the engine of share ${shareAfter(before)} of ${before.shares}${byRowsWords(before.byRows)}`;
}

function byRowsWords(byRows: boolean | undefined): string {
  return byRows === true ? ', attention by rows' : '';
}

/** Tells whether an engine has all layers of the model, wholly. */
export function isWhole({ count, of, shares }: LayerPlace): boolean {
  return count === of && of > 0 && shares === undefined;
}

function layerAfter({ first, count }: LayerPlace): number {
  return first + count;
}

function shareAfter({ share = 0 }: LayerPlace): number {
  return share + 1;
}
