/** The text shown instead of a secret. */
const HIDDEN = '***';

/** The last words of names whose values are secrets: of options, settings and parameters, whatever comes before. */
const NAMES =
  '(?:password|passwd|passphrase|pwd|pass|secret|token|access_?key|secret_?key|account_?key|api_?key|key_id|credentials?|connection_string|signature|sig|sas|auth|authorization|bearer)';
/**
 * `password=…`, `SECRET '…'`, `"token": "…"`, `set s3_secret_access_key = $x$…$x$`, `AccountKey=…`; it may be cut off.
 */
const NAMED = new RegExp(
  `${NAMES}["']?(?:\\s*(?:=|:|\\bto\\b)|\\s)\\s*(?:'([^']*(?:''[^']*)*)(?:'|$)|"([^"]*(?:""[^"]*)*)(?:"|$)|\\$([\\w\\u0080-\\uffff]*)\\$([^]*?)(?:\\$\\3\\$|$)|([^\\s'"(),;&]+))`,
  'gi',
);
/** `scheme://user:password@host`; whoever has a `@` or `/` in a password may not have escaped it. */
const IN_URL = /(?<![a-z0-9+.-])[a-z0-9+.-]*:\/\/([^\s'"]+)/gi;
/** DuckDB's excerpt of a statement, cut off at any place. */
export const EXCERPT = /(?<!\n)\n+LINE \d+:[\s\S]*$/;
/** Units of an error's words that are told: a database may repeat a value of any size. */
const MOST_UNITS = 2 ** 14;
/** Words that follow such names in statements and are no secrets. */
const WORDS = new Set([
  'select',
  'from',
  'type',
  'as',
  'is',
  'null',
  'not',
  'and',
  'or',
  'in',
  'provider',
  'scope',
  'true',
  'false',
]);

/** Finds what a statement, or an address, says that nobody should read. */
function secretsOf(sql: string): string[] {
  const found = new Set<string>();
  for (const [, single, double, , dollar, plain] of sql.matchAll(NAMED)) {
    const value = single ?? double ?? dollar ?? plain;
    if (value !== undefined && !(plain !== undefined && WORDS.has(plain.toLowerCase()))) found.add(value);
  }
  for (const [, address = ''] of sql.matchAll(IN_URL)) {
    const userinfo = address.slice(0, Math.max(0, address.lastIndexOf('@')));
    found.add(userinfo);
    const password = userinfo.slice(userinfo.indexOf(':') + 1);
    if (password !== '') found.add(password);
  }
  for (const value of [...found]) {
    found.add(value.replaceAll("''", "'").replaceAll('""', '"'));
    try {
      found.add(decodeURIComponent(value));
    } catch {
      // It is not escaped so.
    }
  }
  // The longest first: another may be a part of it.
  return [...found].filter((value) => value !== '').sort((a, b) => b.length - a.length);
}

/** An error's words, or an address, without the secrets of a statement and of themselves. */
export function withoutSecrets(text: string, sql = text): string {
  const secrets = secretsOf(sql);
  // An excerpt may hold a part of one.
  let words = secrets.length > 0 ? text.replace(EXCERPT, '') : text;
  for (const secret of secrets) words = words.replaceAll(secret, HIDDEN);
  if (words.length > MOST_UNITS) words = `${words.slice(0, MOST_UNITS)}…`;
  for (const secret of secretsOf(words)) words = words.replaceAll(secret, HIDDEN);
  return words.replace(/at or near "([^"]+)"/g, (whole, near: string) =>
    secrets.some((secret) => secret.includes(near)) ? 'at or near one of its secrets' : whole,
  );
}
