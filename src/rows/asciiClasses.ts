const SETS: Readonly<Record<string, string>> = {
  d: '[0-9]',
  D: '[^0-9]',
  w: '[0-9A-Za-z_]',
  W: '[^0-9A-Za-z_]',
  s: '[\\t\\n\\x0B\\f\\r ]',
  S: '[^\\t\\n\\x0B\\f\\r ]',
};

/**
 * A regular expression in Rust's syntax whose digits, letters and spaces are those of ASCII: there they are those of
 * all of Unicode. Brackets may stand in brackets.
 */
export function asciiClasses(regex: string): string {
  return regex.replace(/\\([\s\S])/g, (escape, letter: string) => SETS[letter] ?? escape);
}
