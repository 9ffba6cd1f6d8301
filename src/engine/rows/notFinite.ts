/**
 * That a row's logits are not finite, in words.
 * @param position of the token after which they are, from 0
 * @param layer the first one after which hidden states are not finite either, where that is known
 */
export function notFinite(position: number, layer?: number): string {
  const since = layer === undefined ? '' : `, nor is the hidden state after layer ${layer}`;
  return (
    `the logits after position ${position} are not finite${since}: found NaN, infinity or no token that is possible, expected numbers to choose a token from; ` +
    "the model's weights hold such numbers, or it overflows (precision float32 has room for larger ones)"
  );
}
