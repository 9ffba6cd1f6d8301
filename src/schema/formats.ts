import { translated } from './patterns.js';

const DIGIT = '[0-9]';
const DAY =
  '(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))';
/** Years that have a 29th of February. */
const LEAP = '(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)';
const DATE = `(?:${DIGIT}{4}-${DAY}|${LEAP}-02-29)`;
const TIME = '(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])';
const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
const SHORT_LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?';
const ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]";
const BYTE = '(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])';
const IPV4 = `${BYTE}(?:\\.${BYTE}){3}`;
const GROUP = '[0-9A-Fa-f]{1,4}';
const HEX = '[0-9A-Fa-f]';
/**
 * From `a::b`, with so many groups before and so many after at most; 7 altogether, as the gap stands for one at least.
 * The last two may be an address of four bytes.
 */
const IPV6 = [
  `(?:${GROUP}:){7}${GROUP}`,
  `(?:${GROUP}:){6}${IPV4}`,
  ...Array.from({ length: 7 }, (_, before) => {
    const [head, tail] = [before === 0 ? '' : `${GROUP}(?::${GROUP}){${before - 1}}`, 6 - before];
    const bytes = tail < 1 ? '' : `(?:${GROUP}:){0,${tail - 1}}${IPV4}|`;
    return `${head}::${tail < 0 ? '' : `(?:${bytes}${GROUP}(?::${GROUP}){0,${tail}})?`}`;
  }),
  `${GROUP}(?::${GROUP}){6}::`,
].join('|');
const AMOUNTS = '(?:[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?|[0-9]{1,9}M(?:[0-9]{1,9}D)?|[0-9]{1,9}D)';
const CLOCK = 'T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S)';
/** Letters besides ASCII's that every list of them has. */
const LETTERS = '\\u00e0-\\u00f6\\u00f8-\\u00ff\\u0430-\\u044f\\u3041-\\u3096\\u4e00-\\u9fa5\\uac00-\\ud7a3';

/** Addresses, whose names and paths have other characters than ASCII's besides. */
function address(others: string): { readonly whole: string; readonly reference: string } {
  const escape = `%${HEX}{2}`;
  const char = `(?:[A-Za-z0-9._~!$&'()*+,;=:@${others}-]|${escape})`;
  const unnamed = `(?:[A-Za-z0-9._~!$&'()*+,;=@${others}-]|${escape})`;
  const host = `(?:[A-Za-z0-9._~!$&'()*+,;=${others}-]|${escape})*`;
  const user = `(?:[A-Za-z0-9._~!$&'()*+,;=:${others}-]|${escape})*@`;
  const place = `//(?:${user})?${host}(?::[0-9]{1,5})?(?:/${char}*)*`;
  const root = `/(?:${char}+(?:/${char}*)*)?`;
  const rest = `(?:\\?(?:${char}|[/?])*)?(?:#(?:${char}|[/?])*)?`;
  return {
    whole: `[A-Za-z][A-Za-z0-9+.-]*:(?:${place}|${root}|${char}+(?:/${char}*)*)?${rest}`,
    reference: `(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?:${place}|${root})?${rest}|${unnamed}+(?:/${char}*)*${rest}`,
  };
}
const URI = address('');
const IRI = address(LETTERS);
/** A variable of RFC 6570, but for names with dots, which Ajv refuses. */
const VARIABLE = `(?:[A-Za-z0-9_]|%${HEX}{2})+(?::[1-9][0-9]{0,3}|\\*)?`;
const POINTER = '(?:/(?:[^~/]|~[01])*)*';

/**
 * Formats that answers are held to, with what is written for each: a part of what its standard allows, such that
 * whoever checks it finds it valid. Times have no leap seconds, addresses of mail no quotes and no literal hosts, hosts
 * seven labels at most, URIs no host in brackets.
 */
const WRITTEN: Readonly<Record<string, string>> = {
  date: DATE,
  time: TIME,
  'date-time': `${DATE}T${TIME}`,
  duration: `P(?:${AMOUNTS}(?:${CLOCK})?|${CLOCK}|[0-9]{1,9}W)`,
  email: `(?:${ATOM}{1,64}|${ATOM}{1,15}(?:\\.${ATOM}{1,15}){1,3})@(?:${SHORT_LABEL}\\.){1,6}[A-Za-z]{2,63}`,
  'idn-email': `(?:[A-Za-z0-9_+${LETTERS}-]{1,20})(?:\\.[A-Za-z0-9_+${LETTERS}-]{1,20}){0,2}@[A-Za-z0-9${LETTERS}]{1,20}(?:\\.[A-Za-z0-9${LETTERS}]{1,20}){1,3}`,
  hostname: `(?:${LABEL}(?:\\.${LABEL}){0,2}|${SHORT_LABEL}(?:\\.${SHORT_LABEL}){0,6})`,
  'idn-hostname': `(?:[a-z0-9]{1,20}|[\\uac00-\\ud7a3\\u4e00-\\u9fa5]{1,10})(?:\\.(?:[a-z0-9]{1,20}|[\\uac00-\\ud7a3\\u4e00-\\u9fa5]{1,10})){0,5}`,
  ipv4: IPV4,
  ipv6: `(?:${IPV6})`,
  uuid: `${HEX}{8}-(?:${HEX}{4}-){3}${HEX}{12}`,
  uri: URI.whole,
  'uri-reference': `(?:${URI.reference})`,
  iri: IRI.whole,
  'iri-reference': `(?:${IRI.reference})`,
  'uri-template': `(?:[A-Za-z0-9/?#\\[\\]@!$&()*+,;=:._~-]|%${HEX}{2}|\\{[+#./;?&]?${VARIABLE}(?:,${VARIABLE})*\\})*`,
  'json-pointer': POINTER,
  'relative-json-pointer': `(?:0|[1-9][0-9]{0,8})(?:#|${POINTER})`,
};

export const FORMATS: ReadonlySet<string> = new Set(Object.keys(WRITTEN));

const translations = new Map<string, string>();

/** A format's pattern, made when it is first asked for: most processes ask for none. Undefined for any other name. */
export function formatPattern(name: string): string | undefined {
  if (!translations.has(name) && FORMATS.has(name)) translations.set(name, translated(`^${WRITTEN[name] ?? ''}$`));
  return translations.get(name);
}

/** Formats that the interpreter of `Values` looks at, whatever is written; `regex` by it alone. */
export const JUDGED_FORMATS: ReadonlySet<string> = new Set([
  ...['date', 'time', 'date-time', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid', 'uri', 'uri-reference'],
  ...['uri-template', 'json-pointer', 'relative-json-pointer', 'regex'],
]);
