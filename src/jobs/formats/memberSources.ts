const TOKEN = /"(?:[^"\\]+|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/gs;

/**
 * The members of an object as a text of JSON writes them: numbers with all of their digits. Of two of one name the last
 * one counts, as for JSON.parse.
 */
export function memberSources(text: string): ReadonlyMap<string, string> {
  const members = new Map<string, string>();
  let depth = 0;
  let name: string | undefined;
  let from = 0;
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    if (token === '{' || token === '[') depth += 1;
    if (token === '}' || token === ']') depth -= 1;
    if (depth === 1 && token.startsWith('"')) name ??= JSON.parse(token) as string;
    if (depth === 1 && token === ':') from = index + 1;
    if (name !== undefined && (depth === 0 || (depth === 1 && token === ','))) {
      members.set(name, text.slice(from, index).trim());
      name = undefined;
    }
  }
  return members;
}
