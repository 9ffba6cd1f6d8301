/** A text that nothing closes goes to the end. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*(?:(")|\\?$)|[{}[\],:]|[^\s"{}[\],:]+/gs;

/** From where to where a value stands in a text. */
export interface TextRange {
  readonly from: number;
  readonly to: number;
}

/**
 * Where the values of an object's members stand in a text of JSON, by name. Of two of one name the last one counts, as
 * for JSON.parse.
 */
export function memberRanges(text: string): ReadonlyMap<string, TextRange> {
  const members = new Map<string, TextRange>();
  let depth = 0;
  let name: string | undefined;
  let from: number | undefined;
  let to = 0;
  for (const { 0: token, 1: closed, index } of text.matchAll(TOKEN)) {
    if (token === '}' || token === ']') depth -= 1;
    if (name !== undefined && (depth === 0 || (depth === 1 && token === ','))) {
      if (from !== undefined) members.set(name, { from, to });
      name = undefined;
      from = undefined;
    } else if (name !== undefined && (depth > 1 || token !== ':')) from ??= index;
    else if (depth === 1 && closed !== undefined) name = JSON.parse(token) as string;
    if (token === '{' || token === '[') depth += 1;
    to = index + token.length;
  }
  return members;
}
