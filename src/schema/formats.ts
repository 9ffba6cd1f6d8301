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
const PART = '[A-Za-z0-9_+-]{1,20}';
const BYTE = '(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])';
const GROUP = '[0-9A-Fa-f]{1,4}';
const HEX = '[0-9A-Fa-f]';
/**
 * From `a::b`, with so many groups before and so many behind at most; 7 altogether, as the gap stands for one at least.
 */
const IPV6 = [
  `(?:${GROUP}:){7}${GROUP}`,
  ...Array.from({ length: 7 }, (_, before) => {
    const [head, tail] = [before === 0 ? '' : `${GROUP}(?::${GROUP}){${before - 1}}`, 6 - before];
    return `${head}::${tail < 0 ? '' : `(?:${GROUP}(?::${GROUP}){0,${tail}})?`}`;
  }),
  `${GROUP}(?::${GROUP}){6}::`,
].join('|');
const AMOUNTS = '(?:[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?|[0-9]{1,9}M(?:[0-9]{1,9}D)?|[0-9]{1,9}D)';
const CLOCK = 'T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S)';
const UNRESERVED = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";

/**
 * Formats that are enforced, with what is written for each: a part of what its standard allows, such that whoever
 * checks it finds it valid. Times have no leap seconds, addresses of mail no quotes and no literal hosts, hosts three
 * labels at most, URIs a host and no userinfo.
 */
const WRITTEN: Readonly<Record<string, string>> = {
  date: DATE,
  time: TIME,
  'date-time': `${DATE}T${TIME}`,
  duration: `P(?:${AMOUNTS}(?:${CLOCK})?|${CLOCK}|[0-9]{1,9}W)`,
  email: `${PART}(?:\\.${PART}){0,2}@(?:${SHORT_LABEL}\\.){1,3}[A-Za-z]{2,63}`,
  hostname: `${LABEL}(?:\\.${LABEL}){0,2}`,
  ipv4: `${BYTE}(?:\\.${BYTE}){3}`,
  ipv6: `(?:${IPV6})`,
  uuid: `${HEX}{8}-(?:${HEX}{4}-){3}${HEX}{12}`,
  uri: `[A-Za-z][A-Za-z0-9+.-]*://${LABEL}(?:\\.${LABEL}){0,2}(?::[0-9]{1,5})?(?:/${UNRESERVED}*)*(?:\\?(?:${UNRESERVED}|[/?])*)?(?:#(?:${UNRESERVED}|[/?])*)?`,
};

export const FORMATS: ReadonlyMap<string, string> = new Map(
  Object.entries(WRITTEN).map(([name, pattern]) => [name, translated(`^${pattern}$`)]),
);
